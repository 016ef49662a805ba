"""Spark's data source "refold": the records of event logs, of either kind.

    spark.dataSource.register(LogSource)
    spark.read.format("refold").load("/logs/cluster-a")

Options: `path` (a log's folder, a folder with logs below it, one segment; globs; several,
separated by commas), `columns` (only these are read: the Python API has no pruning of its own),
`rowsPerPartition` (how many events of a large segment one task reads), `damaged` ("fail", or
"skip": what follows damage in a segment is left out). Damage is what cannot be read: the checksum
chain is not followed.
"""

from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from eventstore.errors import LogError
from eventstore.segment import Segment, open_segment
from replay.fleet.columns import RECORDS, Batches
from replay.fleet.errors import FleetError
from replay.fleet.inputs import segments_below
from replay.fleet.pushdown import Conditions, Pushed, brings_filters, push
from replay.fleet.reading import command_batches, event_batches, log_name
from replay.fleet.schemas import part_of, spark_schema, wanted

_ROWS: Final = 500_000
LARGE_BYTES: Final = 64 << 20
"""A smaller segment is one partition, and is not opened to plan."""


@dataclass(frozen=True)
class LogPartition(InputPartition):
    """A segment, or the events from `first_seq` to `last_seq` of one, with their commands."""

    segment: str
    first_seq: int | None = None
    last_seq: int | None = None


class LogSource(DataSource):
    """Registered as "refold"."""

    @classmethod
    def name(cls) -> str:
        """What `format` is given."""
        return "refold"

    def schema(self) -> StructType:
        """The columns that are wanted; docs/fleet-tables.md says what is in each."""
        return spark_schema(part_of(RECORDS, self.options.get("columns")))

    def reader(self, schema: StructType) -> "LogSourceReader":
        """Reads a schema that is a part of that of all records."""
        kind = PushedLogSourceReader if brings_filters() else LogSourceReader
        return kind(self.options, schema)


class LogSourceReader(DataSourceReader):
    """Plans partitions on the driver, reads them on executors; all of them is wanted."""

    def __init__(self, options: MutableMapping[str, str], schema: StructType) -> None:
        self._paths = [one for one in options.get("path", "").split(",") if one]
        if not self._paths:
            raise FleetError('name what to read: spark.read.format("refold").load(PATH)')
        self._rows = _number(options.get("rowsPerPartition"), _ROWS)
        self._skips_damaged = _skips_damaged(options.get("damaged", "fail"))
        self._schema: pa.Schema = wanted(RECORDS, schema)
        self._pushed = Pushed(Conditions([], [], {}))

    def partitions(self) -> list[LogPartition]:
        """One a segment, several of a large one. Raises FleetError, LogError."""
        return [
            partition
            for path in segments_below(self._paths)
            for partition in self._partitions_of(path)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The wanted rows of a partition. Raises LogError."""
        if not isinstance(partition, LogPartition):
            return
        path = Path(partition.segment)
        try:
            with open_segment(path) as segment:
                yield from self._read(segment, partition)
        except LogError:
            if not self._skips_damaged:
                raise

    def _partitions_of(self, path: Path) -> Iterator[LogPartition]:
        if path.stat().st_size < LARGE_BYTES:
            yield LogPartition(str(path))
            return
        try:
            with open_segment(path) as segment:
                first, last = segment.header.first_seq, segment.last_seq()
        except LogError:
            # Whoever reads it says what is wrong with it, or leaves it out.
            yield LogPartition(str(path))
            return
        starts = range(first, max(last, first) + 1, self._rows)
        for start in starts:
            is_last = start == starts[-1]
            yield LogPartition(str(path), start, None if is_last else start + self._rows - 1)

    def _read(self, segment: Segment, partition: LogPartition) -> Iterator[pa.RecordBatch]:
        origin = log_name(segment)
        if not self._pushed.wants(origin.cluster, origin.log):
            return
        batches = Batches(self._schema, origin)
        wanted_rows = self._pushed.conditions
        of_events, of_commands = _ranges(segment, partition)
        parameters = wanted_rows.parameters
        conditions = (*wanted_rows.events, *of_events)
        yield from event_batches(segment, batches, conditions, parameters)
        conditions = (*wanted_rows.commands, *of_commands)
        yield from command_batches(segment, batches, conditions, parameters)


class PushedLogSourceReader(LogSourceReader):
    """Reads what Spark's filters want."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Spark looks again at those that are given back."""
        self._pushed, left = push(filters)
        return left


def _ranges(segment: Segment, partition: LogPartition) -> tuple[list[str], list[str]]:
    """A partition's range of events and of commands. Commands are stored in the order of their
    causes: their range is one of rows, too, which SQLite reads in order."""
    of_events, of_commands = [], []
    if partition.first_seq is not None:
        of_events.append(f"seq >= {partition.first_seq}")
        before = _commands_before(segment, partition.first_seq)
        of_commands.append(f"rowid > {before}")
    if partition.last_seq is not None:
        of_events.append(f"seq <= {partition.last_seq}")
        of_commands.append(f"rowid <= {_commands_before(segment, partition.last_seq + 1)}")
    return of_events, of_commands


def _commands_before(segment: Segment, seq: int) -> int:
    """The row of the last command that an event before `seq` caused; 0 where there is none."""
    if seq <= segment.header.first_seq:
        # Those that were stored late, of events of the segment before, come first.
        return 0
    sql = f"select rowid from commands where cause < {seq} order by cause desc, ordinal desc"
    rows: list[Any] = segment.query(f"{sql} limit 1")
    return rows[0][0] if rows else 0


def _number(text: str | None, default: int) -> int:
    if text is None:
        return default
    if not text.isdecimal() or not int(text):
        raise FleetError(f"rowsPerPartition is {text!r}, not a number above 0")
    return int(text)


def _skips_damaged(text: str) -> bool:
    if text not in ("fail", "skip"):
        raise FleetError(f'damaged is {text!r}: give "fail" or "skip"')
    return text == "skip"
