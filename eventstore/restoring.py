"""Restores a segment from the header and rows of another one, from a stream or an export."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import msgspec

from eventstore import chain, folders, schema
from eventstore.chain import Row
from eventstore.errors import LogCorrupt, LogTooNew, from_os, from_sqlite
from eventstore.records import FORMAT, CommandRecord, EventRecord, Header, Tip
from eventstore.segment import SQLITE_ERRORS


class RestoredSegment:
    """A segment that is being restored; `tip` is the end of the records chained so far. A
    context manager that closes the file."""

    def __init__(
        self, folder: Path, header_body: bytes, source: str, *, is_durable: bool = True
    ) -> None:
        """Begin a segment in `folder`. Errors name `source`. A temporary segment need not be
        durable.

        Raises LogTooNew, LogCorrupt, LogFull, LogReadOnly.
        """
        self._source = source
        self.header = self._decoded_header(header_body)
        self.path = folders.segment_path(folder, self.header.first_seq)
        self.tip: Tip = chain.start(self.header, header_body)
        if self.path.exists():
            text = "contains a segment twice"
            raise LogCorrupt(source, text, f"event {self.header.first_seq}")
        try:
            schema.create(self.path, header_body, is_durable=is_durable)
            self._database = schema.connect(self.path, busy_ms=0, is_durable=is_durable)
        except sqlite3.Error as error:
            raise from_sqlite(error, self.path) from error
        except OSError as error:
            raise from_os(error, self.path) from error

    def insert(self, events: Sequence[Row] = (), commands: Sequence[Row] = ()) -> None:
        """Store rows with their original chain values. Raises a LogError."""
        try:
            with self._database.atomic():
                self._database.conn.executemany(schema.INSERT_EVENT, events)
                self._database.conn.executemany(schema.INSERT_COMMAND, commands)
        except sqlite3.IntegrityError as error:
            raise LogCorrupt(self._source, f"contains a record twice ({error})") from error
        except sqlite3.Error as error:
            raise from_sqlite(error, self.path) from error

    def append(self, events: Sequence[EventRecord], commands: Sequence[CommandRecord]) -> None:
        """Store records and chain them to the previous ones. Raises a LogError."""
        tip = self.tip
        event_rows, event_chain = chain.chained(tip.event_chain, events)
        command_rows, command_chain = chain.chained(tip.command_chain, commands)
        self.insert(event_rows, command_rows)
        self.tip = Tip(
            last_seq=events[-1].seq if events else tip.last_seq,
            commands=tip.commands + len(command_rows),
            event_chain=event_chain,
            command_chain=command_chain,
        )

    def end(self, closing_body: bytes) -> None:
        """Store the closing record. Raises a LogError."""
        try:
            schema.store_closing(self._database, closing_body)
        except SQLITE_ERRORS as error:
            raise from_sqlite(error, self.path) from error

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _decoded_header(self, header_body: bytes) -> Header:
        try:
            form = msgspec.json.decode(header_body, type=_Form)
            if form.format > FORMAT:
                text = f"made by a newer refold (format {form.format}, this one reads {FORMAT})"
                raise LogTooNew(self._source, text)
            return msgspec.json.decode(header_body, type=Header)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise LogCorrupt(self._source, f"cannot be read: {error}", "header") from error


class _Form(msgspec.Struct):
    """The common part of headers of all formats."""

    format: int = FORMAT
