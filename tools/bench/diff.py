"""Measures `refold diff` of two versions on many logs; compares with Temporal's replayer.

    python -m tools.bench.diff

Bias: the logs are copies of one generated log (tools.bench.inspect), so they all take the same
time. The head is a copy of this version. With --changed its elections choose the last eligible
replica, so that it leaves each log at the first election. If the package temporalio is installed,
Temporal's replayer is measured on a workflow history with the same number of events.
"""

import asyncio
import shutil
import time
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import typer

from replay.diff.comparing import Comparison, compare
from replay.diff.logs import open_logs
from replay.diff.references import find_version
from replay.diff.reports import sentences
from tools.bench.cpu_time import cpu_seconds
from tools.bench.inspect import make_log

_PACKAGES: Final = ("controller", "eventstore", "replay")
_ACTS_BETWEEN_DEATHS: Final = 500
"""Small enough that a small log contains elections while most ISRs are full."""
_ELECTION: Final = Path("controller", "core", "election.py")


def main(
    logs: Annotated[int, typer.Option(help="Number of logs.")] = 20,
    events: Annotated[int, typer.Option(help="Events per log.")] = 50_000,
    jobs: Annotated[int | None, typer.Option(help="As for refold diff.")] = None,
    changed: Annotated[
        bool, typer.Option("--changed", help="The head decides differently.")
    ] = False,
) -> None:
    """Generate logs and compare two versions on them."""
    with TemporaryDirectory(prefix="refold-bench-") as folder:
        scratch = Path(folder)
        made = scratch / "logs" / "log-01"
        make_log(made, events, _ACTS_BETWEEN_DEATHS)
        for number in range(2, logs + 1):
            shutil.copytree(made, scratch / "logs" / f"log-{number:02}")
        head = _head(scratch / "head", changed=changed)
        begun, used = time.perf_counter(), cpu_seconds()
        found = _compare(scratch, head, jobs)
        took, busy = time.perf_counter() - begun, cpu_seconds() - used
    total = sum(one.events for one in found.logs)
    typer.echo(sentences.summary(found))
    typer.echo(
        f"refold diff: {took:.1f} s, {2 * total / took:,.0f} events/s (each event twice), "
        f"{busy / took:.1f} cores"
    )
    if find_spec("temporalio") is None:
        typer.echo("Temporal's replayer: the package temporalio is not installed")
    else:
        from tools.bench.temporal import replay

        seconds = asyncio.run(replay(events))
        typer.echo(f"Temporal's replayer: {events / seconds:,.0f} events/s, one process")


def _head(folder: Path, *, changed: bool) -> Path:
    for package in _PACKAGES:
        shutil.copytree(package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy("pyproject.toml", folder)
    if changed:
        path = folder / _ELECTION
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("for replica in replicas:", "for replica in replicas[::-1]:"))
    return folder


def _compare(scratch: Path, head: Path, jobs: int | None) -> Comparison:
    here = Path()
    base_version = find_version(str(here.resolve()), here, scratch / "cache")
    head_version = find_version(str(head), here, scratch / "cache")
    with open_logs([scratch / "logs"]) as found:
        return compare(found, base_version, head_version, {}, lambda *_: None, jobs)


if __name__ == "__main__":
    typer.run(main)
