"""Writes a log as two Parquet tables, events and commands, for analysis with DuckDB, pandas, Spark.

This needs pyarrow, an optional package, which is imported when a table is written.
"""

import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Self

from eventstore import schema
from eventstore.errors import LogExists, from_os
from eventstore.folders import make_private
from eventstore.reader import LogReader
from eventstore.records import CommandRecord, EventRecord, Header
from replay.description.as_json import json_text, readable_body, readable_event, readable_reason
from replay.errors import ReplayError
from replay.progress import Progress, unreported

EVENTS_FILE: Final = "events.parquet"
COMMANDS_FILE: Final = "commands.parquet"
_HEADER_KEY: Final = b"refold.header"
_ROWS: Final = 20_000
_BYTES: Final = 16 << 20

_EVENTS: Final = {
    "seq": "int64",
    "time": "timestamp",
    "mono_ns": "int64",
    "term": "int64",
    "kind": "name",
    "schema": "int64",
    "channel": "name",
    "origin": "name",
    "cause": "int64",
    "event": "string",
    "payload": "binary",
}
_COMMANDS: Final = {
    "cause": "int64",
    "ordinal": "int64",
    "term": "int64",
    "kind": "name",
    "target": "string",
    "rule": "name",
    "reason": "string",
    "digest": "binary",
    "body": "string",
}
"""The columns. Times are UTC, in ns. `event`, `reason` and `body` are JSON as in JSON lines; `body`
is null if it was too large to be stored."""


def export_parquet(path: Path, folder: Path, progress: Progress = unreported) -> int:
    """Write the tables of the log at `path` into the new folder `folder`. Return the number of
    events.

    The checksum chain is not checked; `refold log verify` checks it. Raises ReplayError without
    pyarrow, LogExists, LogFull and other LogErrors.
    """
    arrow = _arrow()
    events = 0
    with LogReader(path) as reader, _new_folder(folder) as partial, ExitStack() as tables:
        header = reader.header
        of_events = tables.enter_context(_Table(arrow, partial / EVENTS_FILE, _EVENTS, header))
        of_commands = tables.enter_context(
            _Table(arrow, partial / COMMANDS_FILE, _COMMANDS, header)
        )
        for event, commands in reader.records():
            of_events.add(_event_row(event), len(event.payload))
            for command in commands:
                of_commands.add(_command_row(command), len(command.body or b""))
            events += 1
            progress("exporting", events, None)
    return events


def _arrow() -> Any:
    try:
        import_module("pyarrow.parquet")
        return import_module("pyarrow")
    except ImportError as error:
        raise ReplayError(
            f"Parquet needs pyarrow ({error}): install pyarrow, or export JSON lines"
        ) from None


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """Yield a new folder for this user only. It has a temporary name until it is complete."""
    if folder.exists():
        raise LogExists(folder, "exists already: name another folder, or delete it first")
    partial = folder.with_name(folder.name + ".partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        make_private(partial)
        yield partial
        partial.rename(folder)
    except OSError as error:
        raise from_os(error, folder) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _event_row(event: EventRecord) -> tuple[Any, ...]:
    """The fields of the record. The column "time" is the wall clock."""
    return (*event[:-1], json_text(readable_event(event.kind, event.payload)), event.payload)


def _command_row(command: CommandRecord) -> tuple[Any, ...]:
    reason = readable_reason(command.reason)
    return (
        *command[:5],
        reason.get("rule") if isinstance(reason, dict) else None,
        json_text(reason),
        command.digest,
        None if command.body is None else json_text(readable_body(command.body)),
    )


class _Table:
    """A table that is being written in batches of rows. A context manager."""

    def __init__(self, arrow: Any, path: Path, columns: dict[str, str], header: Header) -> None:
        types = {
            "int64": arrow.int64(),
            "timestamp": arrow.timestamp("ns", "UTC"),
            "name": arrow.dictionary(arrow.int32(), arrow.string()),
            "string": arrow.string(),
            "binary": arrow.binary(),
        }
        fields = [(name, types[kind]) for name, kind in columns.items()]
        self._schema = arrow.schema(fields, {_HEADER_KEY: schema.document(header)})
        self._arrow = arrow
        self._writer = arrow.parquet.ParquetWriter(path, self._schema, compression="zstd")
        self._rows: list[tuple[Any, ...]] = []
        self._bytes = 0

    def add(self, row: tuple[Any, ...], size: int) -> None:
        """Add a row, in the order of the columns, with its approximate size in bytes."""
        self._rows.append(row)
        self._bytes += size
        if len(self._rows) >= _ROWS or self._bytes >= _BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._rows:
            return
        columns: Iterable[tuple[Any, ...]] = zip(*self._rows, strict=True)
        arrays = [
            self._arrow.array(column, field.type)
            for column, field in zip(columns, self._schema, strict=True)
        ]
        self._writer.write_batch(self._arrow.record_batch(arrays, schema=self._schema))
        self._rows, self._bytes = [], 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None:
            self._flush()
        self._writer.close()
