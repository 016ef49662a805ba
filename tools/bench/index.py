"""Measures the index of a long log: how fast it is made, and how fast questions are answered.

    python -m tools.bench.index

Bias: the log is that of tools.bench.inspect, whose partitions change in turn, so that a question
about one partition concerns events everywhere in the log. Each question is asked in a new process,
as by a user. `refold replay` of the same log is measured for comparison, and then with `--index`,
which makes the index in the same pass. CPU time includes that of all processes.
"""

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import typer

from replay.index.store import index_path
from tools.bench.cpu_time import cpu_seconds
from tools.bench.inspect import MOVED, Events, KeptLog, make_log

_QUESTIONS: Final = (
    ("events", "--partition", "t-5"),
    ("events", "--kind", "watch_fired"),
    ("decisions", "--partition", "t-5"),
    ("decisions", "--rule", "election"),
    ("why", "--partition", "t-5"),
    ("why", "--broker", "2"),
    ("why",),
    ("why", "--topic", "t"),
    ("why", "--partition", f"t-{MOVED}"),
    ("why", "--reassignment", f"t-{MOVED}"),
    ("inspect", "--partition", "t-5"),
)


def main(
    events: Events = 1_000_000,
    log: KeptLog = None,
) -> None:
    """Generate a log, make its index, and ask questions."""
    with TemporaryDirectory(prefix="refold-bench-") as folder:
        path = log or Path(folder) / "log"
        if not path.exists():
            make_log(path, events)
        for one in (*path.glob("*.index"), *path.glob("*.snapshot")):
            one.unlink()
        _report("replay", _measured("replay.cli.main", "replay", str(path)), events)
        _report("index and snapshots", _measured("replay.index.making", str(path)), events)
        _report(
            "replay and index", _measured("replay.cli.main", "replay", str(path), "--index"), events
        )
        size = sum(one.stat().st_size for one in path.glob("*.snapshot"))
        typer.echo(f"index {index_path(path).stat().st_size:,} bytes, snapshots {size:,} bytes")
        for command, *options in _QUESTIONS:
            took = _measured("replay.cli.main", command, str(path), *options)
            _report(" ".join((command, *options)), took, 0)


def _report(what: str, took: tuple[float, float], events: int) -> None:
    elapsed, used = took
    rate = f", {events / elapsed:,.0f} events/s, {events / used:,.0f} a core" if events else ""
    typer.echo(f"{what}: {elapsed:.1f} s, CPU time {used:.1f} s{rate}")


def _measured(module: str, *arguments: str) -> tuple[float, float]:
    """Elapsed time and CPU time of a command."""
    begun, used = time.perf_counter(), cpu_seconds()
    subprocess.run(
        [sys.executable, "-m", module, *arguments], check=True, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - begun, cpu_seconds() - used


if __name__ == "__main__":
    typer.run(main)
