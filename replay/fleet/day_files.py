"""Parquet files of the table, one folder per cluster and day, written by one task.

A task writes to a separate folder that is named by its token, and the names of its files begin with
the token. Only the files of committed tokens are moved into the table's folder. Files of failed
attempts and of logs that were set aside are never moved.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from replay.fleet.columns import RECORDS, STORED
from replay.fleet.errors import OutputError

UNKNOWN: Final = "__HIVE_DEFAULT_PARTITION__"
"""Spark's folder name for an empty or missing value."""

_SPECIAL: Final = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")
_OPEN_MAX: Final = 16
GROUP_ROWS: Final = 128 << 10
_GROUP_BYTES: Final = 32 << 20
_PENDING_BYTES: Final = 128 << 20
_FEW_VALUES: Final = frozenset((
    "log", "record", "ordinal", "term", "kind", "schema", "channel", "origin", "target", "rule",
    "error", "path", "broker", "topic", "partition", "leader", "leader_epoch", "reason",
    "reason_stored",
))  # fmt: skip

_COMPARED: Final = frozenset(
    field.name
    for field in RECORDS
    if not pa.types.is_nested(field.type)
    and field.name not in ("payload", "reason", "stored", "reason_stored", "digest")
)
"""Columns with statistics: readers skip row groups by their minimum and maximum."""

Day = tuple[str, str]
"""A cluster and a UTC date."""


class DayFiles:
    """Collects batches and writes them below `folder`/`token` in large row groups. `files` lists
    the files that were opened."""

    def __init__(self, folder: Path, token: str) -> None:
        self.token = token
        self.files: list[Path] = []
        self._folder = folder / token
        self._pending: dict[Day, list[pa.RecordBatch]] = {}
        self._sizes: dict[Day, int] = {}
        self._writers: dict[Day, parquet.ParquetWriter] = {}

    def add(self, cluster: str, batch: pa.RecordBatch) -> None:
        """Add a batch of STORED. Raises OutputError."""
        for date, part in _by_date(batch):
            day = (cluster, date)
            pending = self._pending.setdefault(day, [])
            pending.append(part)
            size = self._sizes[day] = self._sizes.get(day, 0) + part.nbytes
            if size >= _GROUP_BYTES or sum(map(len, pending)) >= GROUP_ROWS:
                self._write(day)
        if sum(self._sizes.values()) >= _PENDING_BYTES:
            for day in list(self._pending):
                self._write(day)

    def close(self) -> None:
        """Write the remaining rows and close all files. Raises OutputError."""
        for day in list(self._pending):
            self._write(day)
        for day in list(self._writers):
            self._finish(day)

    def discard(self) -> None:
        """Close and delete all files."""
        self._pending.clear()
        self._sizes.clear()
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()
        for file in self.files:
            file.unlink(missing_ok=True)

    def _write(self, day: Day) -> None:
        batches = self._pending.pop(day)
        del self._sizes[day]
        try:
            table = pa.Table.from_batches(batches, STORED)
            self._writer(day).write_table(table, row_group_size=GROUP_ROWS)
        except OSError as error:
            raise OutputError(f"{self._folder} cannot be written: {error}") from error

    def _writer(self, day: Day) -> parquet.ParquetWriter:
        writer = self._writers.pop(day, None)
        if writer is None:
            if len(self._writers) >= _OPEN_MAX:
                self._finish(next(iter(self._writers)))
            writer = self._new(day)
        self._writers[day] = writer
        return writer

    def _new(self, day: Day) -> parquet.ParquetWriter:
        cluster, date = day
        folder = self._folder / f"cluster={escaped(cluster)}" / f"date={date}"
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{self.token}-{len(self.files)}.parquet"
        self.files.append(file)
        return records_writer(file, STORED)

    def _finish(self, day: Day) -> None:
        try:
            self._writers.pop(day).close()
        except OSError as error:
            raise OutputError(f"{self._folder} cannot be written: {error}") from error


def records_writer(file: Path, schema: pa.Schema) -> parquet.ParquetWriter:
    """Open a Parquet writer for columns of RECORDS. Raises OSError."""
    return parquet.ParquetWriter(
        file,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=[name for name in schema.names if name in _FEW_VALUES],
        write_statistics=[name for name in schema.names if name in _COMPARED],
    )


def put_in_place(rows: Iterable[Any], written: Path, table: Path) -> None:
    """Move the files of these tokens from `written` to the folder of the table. The move can be
    repeated after an interruption. Raises OutputError."""
    for row in rows:
        made = written / row.token
        if not made.is_dir():
            raise OutputError(f"{made} is missing: use a folder that all executors share")
        for file in sorted(made.rglob("*.parquet")):
            place = table / file.relative_to(made)
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                with suppress(FileNotFoundError):  # another attempt at the same task was first
                    file.rename(place)
            except OSError as error:
                raise OutputError(f"{place.parent} cannot be written: {error}") from error


def escaped(name: str) -> str:
    """Escape a value for a folder name, as Hive and Spark do."""
    return _SPECIAL.sub(lambda found: f"%{ord(found[0]):02X}", name) or UNKNOWN


def _by_date(batch: pa.RecordBatch) -> list[tuple[str, pa.RecordBatch]]:
    days = batch.column("time").cast(pa.date32())
    bounds = pc.min_max(days)
    first, last = bounds["min"].as_py(), bounds["max"].as_py()
    if first is None:
        return [(UNKNOWN, batch)]
    if first == last and not days.null_count:
        return [(first.isoformat(), batch)]
    return [
        (
            UNKNOWN if day is None else day.isoformat(),
            batch.filter(pc.is_null(days) if day is None else pc.equal(days, pa.scalar(day))),
        )
        for day in pc.unique(days).to_pylist()
    ]
