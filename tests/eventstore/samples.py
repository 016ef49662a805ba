"""Sample records and logs."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from eventstore.records import CommandRecord, EventRecord, Header
from eventstore.writer import LogWriter

START_NS = 1_795_000_000_000_000_000


def header(**changes: Any) -> Header:
    values: dict[str, Any] = {
        "kind": "recorded",
        "core_fingerprint": "c0ffee",
        "code_version": "0.1.0",
        "configuration": {"broker.id": 1000},
        "cluster_id": "Zm9v",
        "created_ns": START_NS,
    }
    return Header(**(values | changes))


def event(seq: int, **changes: Any) -> EventRecord:
    """Events are one second apart."""
    base = EventRecord(
        seq=seq,
        wall_ns=START_NS + seq * 1_000_000_000,
        mono_ns=seq * 1_000_000_000,
        term=1,
        kind="watch_fired",
        schema=1,
        channel="zookeeper",
        origin="exogenous",
        cause=None,
        payload=f"payload {seq}".encode(),
    )
    return base._replace(**changes)


def events(first: int, last: int, **changes: Any) -> list[EventRecord]:
    return [event(seq, **changes) for seq in range(first, last + 1)]


def command(cause: int, ordinal: int = 0, **changes: Any) -> CommandRecord:
    base = CommandRecord(
        cause=cause,
        ordinal=ordinal,
        term=1,
        kind="write_znodes",
        target="/brokers/topics/t",
        reason=b"because",
        digest=b"d" * 16,
        body=b"body",
    )
    return base._replace(**changes)


def write_log(folder: Path, count: int = 10, *, closed: bool = True, **options: Any) -> Path:
    """A log of `count` events with one command each, appended three at a time."""
    writer = LogWriter.create(folder, header(), **options)
    for first in range(1, count + 1, 3):
        batch = events(first, min(first + 2, count))
        writer.append(batch, [command(one.seq) for one in batch])
        writer.roll_if_due()
    if closed:
        writer.close()
    else:
        writer.abandon()
    return folder


def damage_index(folder: Path) -> None:
    """Change a bit of the tree that finds the commands of the last segment by their events."""
    segment = max(folder.glob("*.refold"))
    with closing(sqlite3.connect(segment, isolation_level=None)) as database:
        ((page,), (size,)) = (
            database.execute(sql).fetchone()
            for sql in (
                "select rootpage from sqlite_schema where name like 'sqlite_autoindex_commands%'",
                "pragma page_size",
            )
        )
    content = bytearray(segment.read_bytes())
    content[page * size - 5] ^= 1
    segment.write_bytes(content)
