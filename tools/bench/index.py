"""Measures the index of a long log: how fast it is made, and how fast questions are answered.

    python -m tools.bench.index
    python -m tools.bench.index --imported

Bias: the log is that of tools.bench.inspect, or with --imported that of tools.zookeeper_log. Their
partitions change in turn, so that a question about one partition concerns records everywhere in the
log. Each question is asked in a new process, as by a user. `refold replay` of a daemon's log is
measured for comparison, and then with `--index`, which makes the index in the same pass. Processor
time includes that of all processes.
"""

import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final, NamedTuple

import typer

from eventstore.reader import LogReader
from replay.index.opening import index_of
from replay.index.store import index_path
from replay.listing.known_names import KnownNames
from replay.logs.log_kinds import LogKind, kind_of_log
from replay.logs.open_log import open_log
from replay.names import broker_named, partition_named
from replay.progress import unreported
from replay.stock_clusters.imports.importing import Selection, import_source
from tools.bench.cpu_time import cpu_seconds
from tools.bench.inspect import MOVED, PARTITIONS, Events, KeptLog, make_log
from tools.zookeeper_log.__main__ import write_data_folder
from tools.zookeeper_log.generated_history import transactions, with_digests

_TRANSACTIONS_IN_FILE: Final = 100_000
_MODULE: Final = "replay.cli.main"
_MOVED_PARTITION: Final = f"t-{MOVED}"
_QUESTIONS_OF_DAEMON_LOGS: Final = (
    ("events", "--kind", "watch_fired"),
    ("why", "--partition", _MOVED_PARTITION),
    ("why", "--reassignment", _MOVED_PARTITION),
)
_QUESTIONS_OF_IMPORTED_LOGS: Final = (
    ("events", "--kind", "transaction", "--limit", "1000"),
    ("why", "--unhealthy"),
    ("inspect",),
)


def main(
    events: Events = 1_000_000,
    log: KeptLog = None,
    imported: Annotated[
        bool, typer.Option("--imported", help="Generate an imported log, with about EVENTS events.")
    ] = False,
) -> None:
    """Generate a log, make its index, and ask questions. An existing log may be of either kind."""
    with TemporaryDirectory(prefix="refold-bench-") as folder:
        path = log or Path(folder) / "log"
        if not path.exists():
            (_make_imported_log if imported else make_log)(path, events)
        for one in (*path.glob("*.index"), *path.glob("*.snapshot"), *path.glob("*.replies")):
            one.unlink()
        with LogReader.open(path) as reader:
            is_imported = kind_of_log(reader.header) is LogKind.IMPORTED
            records = reader.last_seq - reader.header.first_seq + 1
        typer.echo(f"{path}: {records:,} records")
        if not is_imported:
            _report("replay", _measure_command(_MODULE, "replay", str(path)), records)
        _report("index and snapshots", _measure_command("replay.index.making", str(path)), records)
        if not is_imported:
            took = _measure_command(_MODULE, "replay", str(path), "--index")
            _report("replay and index", took, records)
        if not index_path(path).exists():
            typer.echo(f"{path} has no index: `refold log verify` checks the log", err=True)
            raise typer.Exit(1)
        size = sum(one.stat().st_size for one in path.glob("*.snapshot"))
        typer.echo(f"index {index_path(path).stat().st_size:,} bytes, snapshots {size:,} bytes")
        for command, *options in _questions(path, is_imported=is_imported):
            took = _measure_command(_MODULE, command, str(path), *options)
            _report(" ".join((command, *options)), took)


def _make_imported_log(path: Path, events: int) -> None:
    """Generate the files of a ZooKeeper, and import them. Half of the records are transactions, the
    others are what the import infers from them."""
    with TemporaryDirectory(prefix="refold-bench-") as scratch:
        history = with_digests(transactions(max(1, events // 2), PARTITIONS))
        write_data_folder(Path(scratch), history, _TRANSACTIONS_IN_FILE)
        import_source(Path(scratch), path, Selection())


def _questions(path: Path, *, is_imported: bool) -> Iterator[tuple[str, ...]]:
    """Questions about the log, and about one of its partitions and brokers."""
    with open_log(path) as opened, index_of(opened, unreported) as index:
        if index is None:
            return
        known = KnownNames(opened.reader, opened, index.names())
    for partition in _in_the_middle(known.partitions):
        for command in ("events", "decisions", "why", "inspect"):
            yield command, "--partition", partition
        yield "why", "--topic", partition_named(partition)[0]
    for broker in _in_the_middle(known.brokers):
        yield "why", "--broker", str(broker_named(broker))
    yield "decisions", "--rule", "election"
    yield ("why",)
    if is_imported:
        yield from _QUESTIONS_OF_IMPORTED_LOGS
    elif _MOVED_PARTITION in known.partitions:
        yield from _QUESTIONS_OF_DAEMON_LOGS


def _in_the_middle(names: Iterable[str]) -> list[str]:
    """One of the names; none if there are none."""
    ordered = sorted(names)
    return ordered[len(ordered) // 2 :][:1]


class _Measured(NamedTuple):
    """The time that a command took. The processor time is the sum for all its processes."""

    elapsed_s: float
    used_s: float
    status: int


def _report(what: str, took: _Measured, records: int = 0) -> None:
    text = f"{what}: {took.elapsed_s:.1f} s, processor time {took.used_s:.1f} s"
    if records:
        text += f", {records / took.used_s:,.0f} records per second of processor time"
    if took.status:
        text += f", exit status {took.status}"
    typer.echo(text)


def _measure_command(module: str, *arguments: str) -> _Measured:
    begun, used = time.perf_counter(), cpu_seconds()
    command = [sys.executable, "-m", module, *arguments]
    ran = subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    return _Measured(time.perf_counter() - begun, cpu_seconds() - used, ran.returncode)


if __name__ == "__main__":
    typer.run(main)
