"""Spark's data source "refold": the records of event logs, recorded or imported.

    spark.dataSource.register(LogSource)
    spark.read.format("refold").load("/logs/cluster-a")

Options:

- `path`: a log's folder, a folder that contains logs, or a segment; globs, and several paths
  separated by commas
- `columns`: read only these columns (Spark's Python data sources have no column pruning)
- `rowsPerPartition`: how many events of a large segment one task reads
- `damaged`: "fail", or "skip" to leave out what follows damage in a segment. Damage means
  unreadable data; checksum chains are not checked
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
from replay.fleet.errors import FleetError, hidden_traceback
from replay.fleet.inputs import segments_below
from replay.fleet.pushdown import PushedFilters, SqlConditions, has_filters_to_push, push
from replay.fleet.schemas import requested_schema, selected_columns, spark_schema
from replay.fleet.segments import command_batches, event_batches, log_name

_ROWS: Final = 500_000
LARGE_BYTES: Final = 64 << 20
"""A smaller segment is one partition and is not opened during planning."""


@dataclass(frozen=True)
class LogPartition(InputPartition):
    """A segment, or its events from `first_seq` to `last_seq` with their commands."""

    segment: str
    first_seq: int | None = None
    last_seq: int | None = None


class LogSource(DataSource):
    """The data source, registered as "refold"."""

    @classmethod
    def name(cls) -> str:
        """The name for `spark.read.format`."""
        return "refold"

    def schema(self) -> StructType:
        """The requested columns; see docs/fleet-tables.md for their meaning."""
        with hidden_traceback():
            return spark_schema(selected_columns(RECORDS, self.options.get("columns")))

    def reader(self, schema: StructType) -> "LogSourceReader":
        """A reader for a schema with some of the columns of RECORDS."""
        kind = PushedLogSourceReader if has_filters_to_push() else LogSourceReader
        return kind(self.options, schema)


class LogSourceReader(DataSourceReader):
    """Plans partitions on the driver and reads them on executors, without filters."""

    def __init__(self, options: MutableMapping[str, str], schema: StructType) -> None:
        self._paths = [one for one in options.get("path", "").split(",") if one]
        with hidden_traceback():
            if not self._paths:
                raise FleetError('no path is given: use spark.read.format("refold").load(PATH)')
            self._rows = _number(options.get("rowsPerPartition"), _ROWS)
            self._skips_damaged = _skips_damaged(options.get("damaged", "fail"))
            self._schema: pa.Schema = requested_schema(RECORDS, schema)
        self._pushed = PushedFilters(SqlConditions([], [], {}))

    def partitions(self) -> list[LogPartition]:
        """One partition per segment, several for a large segment. Raises FleetError, LogError."""
        with hidden_traceback():
            segments = segments_below(self._paths)
        return [partition for path in segments for partition in self._partitions_of(path)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition that pass the pushed filters. Raises LogError."""
        if not isinstance(partition, LogPartition):
            return
        path = Path(partition.segment)
        try:
            with open_segment(path) as segment:
                yield from self._read_batches(segment, partition)
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
            # The task that reads the segment reports the damage or skips it.
            yield LogPartition(str(path))
            return
        starts = range(first, max(last, first) + 1, self._rows)
        for start in starts:
            is_last = start == starts[-1]
            yield LogPartition(str(path), start, None if is_last else start + self._rows - 1)

    def _read_batches(self, segment: Segment, partition: LogPartition) -> Iterator[pa.RecordBatch]:
        origin = log_name(segment)
        if not self._pushed.may_match(origin.cluster, origin.log):
            return
        batches = Batches(self._schema, origin)
        pushed = self._pushed.conditions
        of_events, of_commands = _ranges(segment, partition)
        parameters = pushed.parameters
        conditions = (*pushed.events, *of_events)
        yield from event_batches(segment, batches, conditions, parameters)
        conditions = (*pushed.commands, *of_commands)
        yield from command_batches(segment, batches, conditions, parameters)


class PushedLogSourceReader(LogSourceReader):
    """A reader that accepts Spark's filters."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Accept filters; returns those that Spark has to evaluate itself."""
        self._pushed, left = push(filters)
        return left


def _ranges(segment: Segment, partition: LogPartition) -> tuple[list[str], list[str]]:
    """SQL conditions for a partition's range of events and of commands. Commands are stored in the
    order of their causes, so a range of row ids selects them, which SQLite reads in order."""
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
    """The row id of the last command that was caused by an event before `seq`; 0 if there is
    none."""
    if seq <= segment.header.first_seq:
        # Commands that were stored late, for events of the previous segment, come first.
        return 0
    sql = f"select rowid from commands where cause < {seq} order by cause desc, ordinal desc"
    rows: list[Any] = segment.query(f"{sql} limit 1")
    return rows[0][0] if rows else 0


def _number(text: str | None, default: int) -> int:
    if text is None:
        return default
    if not text.isdecimal() or not int(text):
        raise FleetError(f"rowsPerPartition is {text!r}: give a number above 0")
    return int(text)


def _skips_damaged(text: str) -> bool:
    if text not in ("fail", "skip"):
        raise FleetError(f'damaged is {text!r}: use "fail" or "skip"')
    return text == "skip"
