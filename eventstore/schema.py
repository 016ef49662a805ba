"""The tables of a segment. A segment is created once, with the schema version of its header's
format, and never altered: older formats are read unchanged."""

import sqlite3
from pathlib import Path
from typing import Final

import msgspec
from sqlite_utils import Database, Migrations

from eventstore import chain, folders
from eventstore.records import FORMAT, Closing, Header

APPLICATION_ID: Final = int.from_bytes(b"rfld", "big")
"""Marks an SQLite file as a refold log."""

_PAGE_BYTES: Final = 8192

migrations = Migrations("eventstore")


@migrations(name="1")
def _format_1(database: Database) -> None:
    event = {
        "seq": int,
        "wall_ns": int,
        "mono_ns": int,
        "term": int,
        "kind": str,
        "schema": int,
        "channel": str,
        "origin": str,
        "cause": int,
        "payload": bytes,
        "chain": bytes,
    }
    command = {
        "cause": int,
        "ordinal": int,
        "term": int,
        "kind": str,
        "target": str,
        "reason": bytes,
        "digest": bytes,
        "body": bytes,
        "chain": bytes,
    }
    database.table("events").create(event, pk="seq")
    database.table("commands").create(command, pk=("cause", "ordinal"))
    database.table("header").create({"body": str, "checksum": bytes})
    database.table("closing").create({"body": str, "checksum": bytes})


# Without an adapter sqlite3 looks up two attributes on each value of this type, which takes longer
# than storing it.
sqlite3.register_adapter(bytes, bytearray)

INSERT_EVENT: Final = f"insert into events values ({', '.join('?' * 11)})"
INSERT_COMMAND: Final = f"insert into commands values ({', '.join('?' * 9)})"


def connect(path: Path, busy_ms: int, *, is_durable: bool = True) -> Database:
    """Open a segment for writing. Any thread may use it, one at a time. With `is_durable`,
    written data is on disk when a call returns."""
    connection = sqlite3.connect(
        path, timeout=busy_ms / 1000, isolation_level=None, check_same_thread=False
    )
    database = Database(connection, execute_plugins=False)
    database.execute(f"pragma synchronous = {'full' if is_durable else 'off'}")
    return database


def create(path: Path, header_body: bytes, *, is_durable: bool = True) -> None:
    """Create a segment with only its header. Only this user may read it."""
    # SQLite gives its write-ahead log and shared memory the mode of this file.
    folders.make_private_file(path)
    database = connect(path, busy_ms=0, is_durable=is_durable)
    try:
        database.execute(f"pragma page_size = {_PAGE_BYTES}")
        database.execute(f"pragma application_id = {APPLICATION_ID}")
        database.execute(f"pragma user_version = {FORMAT}")
        database.execute("pragma journal_mode = wal")
        migrations.apply(database)
        _store_document(database, "header", header_body)
    finally:
        database.close()


def store_closing(database: Database, closing_body: bytes) -> None:
    """Write the closing record."""
    _store_document(database, "closing", closing_body)


def document(record: Header | Closing) -> bytes:
    """A header or closing record as stored, which its checksum covers."""
    return msgspec.json.encode(record)


def _store_document(database: Database, table: str, body: bytes) -> None:
    database.table(table).insert({"body": body.decode(), "checksum": chain.checksum(body)})
