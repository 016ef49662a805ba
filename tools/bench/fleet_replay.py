"""Compares `refold fleet replay` on two cores with one core, and measures its driver's memory.

Bias: the time is that of the replay without the start of Spark. Each run is restricted to its cores
(taskset), including all its processes. For small tables, Spark's fixed costs dominate, which a
second core does not reduce. Memory is the peak resident memory of the driver's Python and Java
processes together; in local mode the JVM also runs the tasks. See `python -m
tools.bench.fleet_replay --help`.
"""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from tools.bench.fleet_ingest import run_fleet

_MIB = 1 << 20


def main(
    logs: Annotated[Path, typer.Argument(help="Logs that `python -m tools.fleet` wrote.")],
    versions: Annotated[str, typer.Option(help="As for `refold fleet replay`.")],
    goal: Annotated[float, typer.Option(help="Exit status 1 below this ratio.")] = 1.7,
) -> None:
    """Ingest LOGS into a new table, and replay it from scratch on one core and on two."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        typer.echo("this benchmark needs two cores", err=True)
        raise typer.Exit(2)
    with tempfile.TemporaryDirectory(dir=logs.absolute().parent) as folder:
        table = Path(folder) / "table"
        _refold(["ingest", str(logs), "--out", str(table), "--master", "local[2]"], cores)
        seconds = []
        for used in (cores[:1], cores):
            shutil.rmtree(table / "replays", ignore_errors=True)
            arguments = ["replay", str(table), "--versions", versions]
            result, memory = _refold([*arguments, "--master", f"local[{len(used)}]"], used)
            seconds.append(result["seconds"])
            counts = ", ".join(
                f"{one['version']}: {one['logs']} logs, {one['agreed']} of {one['decisions']}"
                f" decisions agreed, {one['divergences']} divergences"
                for one in result["versions"]
            )
            typer.echo(
                f"{len(used)} cores: {result['todo']} logs by versions in {seconds[-1]:.1f} s;"
                f" driver {memory / _MIB:,.0f} MiB; {counts}"
            )
    ratio = seconds[0] / seconds[1]
    typer.echo(f"two cores are {ratio:.2f} times as fast as one (goal {goal})")
    raise typer.Exit(ratio < goal)


def _refold(arguments: list[str], cores: list[int]) -> tuple[dict[str, Any], int]:
    """The JSON output of a command, and the driver's memory in bytes."""
    result, used = run_fleet(arguments, ["taskset", "--cpu-list", ",".join(map(str, cores))])
    return result, used.memory


if __name__ == "__main__":
    typer.run(main)
