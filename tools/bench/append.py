"""Compares appending events to a log with plain sqlite3 inserts of the same rows.

Bias: both write to the same file system, in WAL mode with synchronous=FULL, one transaction per
batch. Plain sqlite3 gets complete rows and computes no checksum chain, so the ratio is the cost of
the event store. See `python -m tools.bench.append --help`.
"""

import sqlite3
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from eventstore.records import EventRecord, Header
from eventstore.writer import LogWriter

BATCHES = (1, 10, 100, 1000)

_COLUMNS = "seq integer primary key, wall_ns, mono_ns, term, kind, schema, channel, origin, cause"


def main(
    seconds: Annotated[float, typer.Option(help="Time for each measurement.")] = 1.0,
    payload_bytes: Annotated[int, typer.Option(help="Size of an event's payload.")] = 183,
    folder: Annotated[
        Path | None, typer.Option(help="The folder to write to; results depend on its disk.")
    ] = None,
) -> None:
    """Print records per second with 1, 10, 100 and 1000 events per transaction."""
    typer.echo(f"{'batch':>6} {'refold/s':>12} {'sqlite3/s':>12} {'ratio':>6}")
    for batch in BATCHES:
        with TemporaryDirectory(dir=folder) as temporary:
            store = _append_rate(Path(temporary) / "log", batch, seconds, payload_bytes)
            plain = _plain_rate(Path(temporary) / "plain.db", batch, seconds, payload_bytes)
        typer.echo(f"{batch:>6} {store:>12,.0f} {plain:>12,.0f} {store / plain:>6.2f}")


def _append_rate(folder: Path, batch: int, seconds: float, payload_bytes: int) -> float:
    header = Header(
        kind="recorded",
        core_fingerprint="bench",
        code_version="0",
        configuration={},
        cluster_id="bench",
        created_ns=time.time_ns(),
    )
    count, spent_s = 0, 0.0
    with LogWriter.create(folder, header) as writer:
        while spent_s < seconds:
            events = _events(count + 1, batch, payload_bytes)
            start = time.perf_counter()
            writer.append(events)
            spent_s += time.perf_counter() - start
            count += batch
    return count / spent_s


def _plain_rate(path: Path, batch: int, seconds: float, payload_bytes: int) -> float:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = full")
    connection.execute(f"create table events ({_COLUMNS}, payload, chain)")
    statement = f"insert into events values ({', '.join('?' * 11)})"
    count, spent_s = 0, 0.0
    while spent_s < seconds:
        rows = [(*event, b"\0" * 16) for event in _events(count + 1, batch, payload_bytes)]
        start = time.perf_counter()
        connection.execute("begin")
        connection.executemany(statement, rows)
        connection.execute("commit")
        spent_s += time.perf_counter() - start
        count += batch
    connection.close()
    return count / spent_s


def _events(first_seq: int, count: int, payload_bytes: int) -> list[EventRecord]:
    now_ns = time.time_ns()
    payload = b"x" * payload_bytes
    return [
        EventRecord(seq, now_ns, now_ns, 1, "watch_fired", 1, "zookeeper", "exogenous", 1, payload)
        for seq in range(first_seq, first_seq + count)
    ]


if __name__ == "__main__":
    typer.run(main)
