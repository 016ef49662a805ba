"""Runs the comparisons with Kafka's controller and writes their results into docs/benchmarks.md.

    python -m tools.bench

Use a machine that does nothing else.
"""

import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from tools.pages.marked import with_parts

PAGE: Final = Path("docs/benchmarks.md")


class PageSection(NamedTuple):
    """A part of the page and the command whose output it has."""

    part: str
    arguments: tuple[str, ...]

    @property
    def command(self) -> str:
        """The command as a reader types it."""
        return " ".join(("python -m", *self.arguments))


_NO_PEER: Final = ("--no-peer", "--steps", "failover,broker-failure,broker-start")
BENCHES: Final = (
    PageSection("failover", ("tools.bench.failover",)),
    PageSection("small", ("tools.bench.failover", "--partitions", "10000", *_NO_PEER)),
    PageSection(
        "large", ("tools.bench.failover", "--partitions", "1000000", *_NO_PEER, "--runs", "3")
    ),
    PageSection("waits", ("tools.bench.alter_partition",)),
    PageSection("event-loop", ("tools.bench.loop_slices",)),
)


def main(
    parts: Annotated[
        list[str] | None, typer.Argument(help="Parts of the page; without: all.", metavar="PART")
    ] = None,
) -> None:
    """Run the comparisons one after the other. Each one's result is written when it is there."""
    known = [one.part for one in BENCHES]
    if unknown := [one for one in parts or () if one not in known]:
        typer.echo(f"no such part: {', '.join(unknown)}; use {', '.join(known)}", err=True)
        raise typer.Exit(2)
    for bench in BENCHES:
        if not parts or bench.part in parts:
            _write_part(bench, _run_bench(bench))


def _run_bench(bench: PageSection) -> str:
    """Run a bench, and return its output, which is also printed."""
    typer.echo(f"{bench.part}: {bench.command}", err=True)
    ran = subprocess.run(
        [sys.executable, "-m", *bench.arguments], stdout=subprocess.PIPE, text=True, check=False
    )
    if ran.returncode:
        typer.echo(f"{bench.command}: exit status {ran.returncode}; {PAGE} is unchanged", err=True)
        raise typer.Exit(1)
    typer.echo(ran.stdout)
    return ran.stdout


def _write_part(bench: PageSection, output: str) -> None:
    lines = [f"$ {bench.command}", *output.splitlines()]
    block = "\n".join(f"    {line}".rstrip() for line in lines)
    part = f"On {time.strftime('%Y-%m-%d')}:\n\n{block}"
    PAGE.write_text(with_parts(PAGE, {bench.part: part}), encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
