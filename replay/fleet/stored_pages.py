"""Pages of a segment as Arrow columns, read by SQLite's ADBC driver. Creating a Python object for
each value would take most of an ingest.

The driver brings its own SQLite library. When one library closes the file, POSIX locks of the other
one on the same file are released. So the segment is opened before the driver's connection and
closed after it, and nothing else reads it while the connection is closed.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final, NamedTuple, Self

import pyarrow as pa
from adbc_driver_manager import dbapi
from adbc_driver_sqlite import StatementOptions
from adbc_driver_sqlite.dbapi import connect

from eventstore.errors import PUT_A_COPY, LogCorrupt, LogFailed
from eventstore.segment import Segment
from eventstore.verify import verify

PAGE_ROWS: Final = 4096
PAGE_BYTES: Final = 64 << 20
"""A page has at most PAGE_ROWS rows, and fewer if the largest value could exceed this size."""

_BUSY_MS: Final = 5_000


class _Table(NamedTuple):
    """A table of the log: its only large column, and the columns of a page, which begin with the
    row id."""

    name: str
    large: str
    schema: pa.Schema


_EVENTS: Final = _Table(
    "events",
    "payload",
    pa.schema(
        [
            ("rowid", pa.int64()),
            ("seq", pa.int64()),
            ("wall_ns", pa.int64()),
            ("mono_ns", pa.int64()),
            ("term", pa.int64()),
            ("kind", pa.string()),
            ("schema", pa.int64()),
            ("channel", pa.string()),
            ("origin", pa.string()),
            ("cause", pa.int64()),
            ("payload", pa.binary()),
            ("chain", pa.binary()),
        ]
    ),
)

_COMMANDS: Final = _Table(
    "commands",
    "body",
    pa.schema(
        [
            ("rowid", pa.int64()),
            ("cause", pa.int64()),
            ("ordinal", pa.int64()),
            ("term", pa.int64()),
            ("kind", pa.string()),
            ("target", pa.string()),
            ("reason", pa.binary()),
            ("digest", pa.binary()),
            ("body", pa.binary()),
            ("chain", pa.binary()),
        ]
    ),
)


class StoredPages:
    """The pages of an open segment. A context manager; entering it raises LogFailed."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._resources = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._open()
        except dbapi.Error as error:
            self._resources.close()
            text = f"cannot be opened ({error}): check that it exists and is readable"
            raise LogFailed(self._segment.path, text) from None
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    def events(self, after: int, last: int) -> Iterator[list[pa.Array]]:
        """Pages of the columns of the events table, for events after `after` up to `last`. Raises
        LogCorrupt."""
        for _, *columns in self._pages(_EVENTS, after, last):
            yield columns

    def commands(self, after: int, last: int) -> Iterator[list[pa.Array]]:
        """Pages of the columns of the commands table, for commands after `after` up to `last`,
        numbered in the order in which they were stored. Raises LogCorrupt."""
        for _, *columns in self._pages(_COMMANDS, after, last):
            yield columns

    def damage(self, record: str, text: str) -> LogCorrupt:
        """The first damage that `verify` finds in the segment; `record` and `text` if it finds
        none."""
        for found in verify(self._segment.path).damages:
            advice = "" if PUT_A_COPY in found.text else f": {PUT_A_COPY}"
            return LogCorrupt(self._segment.path, found.text + advice, found.record)
        return LogCorrupt(self._segment.path, text, record)

    def _open(self) -> None:
        connection = self._resources.enter_context(connect(self._segment.uri, autocommit=True))
        self._cursor = self._resources.enter_context(connection.cursor())
        self._cursor.execute(f"pragma busy_timeout = {_BUSY_MS}")
        # The driver infers the type of a column from this many rows: all rows of a page.
        rows = {StatementOptions.BATCH_ROWS.value: PAGE_ROWS}
        self._cursor.adbc_statement.set_options(**rows)

    def _pages(self, table: _Table, after: int, last: int) -> Iterator[list[pa.Array]]:
        while after < last:
            try:
                page = self._page(table, after, last)
                if not len(page):
                    return
                columns = _typed_columns(page, table.schema)
            except (dbapi.Error, _NotAsWritten) as error:
                text = f"cannot be read ({error}): {PUT_A_COPY}"
                raise self.damage(f"row {after + 1} or a later one", text) from None
            yield columns
            after = columns[0][-1].as_py()

    def _page(self, table: _Table, after: int, last: int) -> pa.Table:
        among = f"where rowid > {after:d} and rowid <= {last:d} order by rowid limit"
        rows = PAGE_ROWS
        if self._segment.path.stat().st_size > PAGE_BYTES:
            sizes = f"select length({table.large}) as size from {table.name} {among} {rows}"
            largest = self._result(f"select max(size) from ({sizes})").column(0)[0].as_py()
            rows = min(rows, max(1, PAGE_BYTES // (largest or 1)))
        return self._result(f"select rowid, * from {table.name} {among} {rows}")

    def _result(self, query: str) -> pa.Table:
        self._cursor.execute(query)
        return self._cursor.fetch_arrow_table()


class _NotAsWritten(Exception):
    """A value has another type than the log's writer used."""


def _typed_columns(page: pa.Table, schema: pa.Schema) -> list[pa.Array]:
    """The columns of a page with their types. The driver cannot infer a type if all values are
    null. Raises _NotAsWritten."""
    if page.num_columns != len(schema):
        raise _NotAsWritten("the table has other columns")
    return [_with_type(column, field) for field, column in zip(schema, page.columns, strict=True)]


def _with_type(column: pa.ChunkedArray, field: pa.Field) -> pa.Array:
    if column.type == field.type:
        [values] = column.chunks
        return values
    if column.null_count == len(column):
        return pa.nulls(len(column), field.type)
    raise _NotAsWritten(f"{field.name} has {column.type} among its values")
