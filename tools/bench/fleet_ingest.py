"""How fast `refold fleet ingest` is, and `decode` behind it, and how much memory each driver takes.

Bias: the logs were just written, so they are read from the page cache; the time is that of the
whole command, Spark's start included, as a user waits for it. Memory is the largest resident set
of the driver, its Python and its Java process together; in local mode Java runs the tasks, too.
`python -m tools.bench.fleet_ingest --help`.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import typer

_SAMPLED_S = 0.2
_MIB = 1 << 20


def main(
    logs: Annotated[Path, typer.Argument(help="As `python -m tools.fleet` has made them.")],
    master: Annotated[str, typer.Option(help="Of Spark.")] = "local[2]",
) -> None:
    """Ingest LOGS into a new table, then once more with nothing new, and decode it."""
    with tempfile.TemporaryDirectory(dir=logs.absolute().parent) as folder:
        out = Path(folder) / "table"
        events = 0
        for what in ("all is new", "nothing is new"):
            seconds, memory, result = _timed(["ingest", str(logs), "--out", str(out)], master)
            told = _rate(result["events"] + result["commands"], seconds)
            typer.echo(
                f"{what}: {result['events']} events and {result['commands']} commands of"
                f" {result['inputs']} logs in {seconds:.1f} s ({result['seconds']:.1f} s without"
                f" Spark's start): {_rate(result['events'], seconds)} events/s, {told} rows/s;"
                f" driver {memory / _MIB:,.0f} MiB"
            )
            events += int(result["events"])
        seconds, memory, result = _timed(["decode", str(out)], master)
        typer.echo(
            f"decoded: in {seconds:.1f} s ({result['seconds']:.1f} s without Spark's start):"
            f" {_rate(events, seconds)} events/s; driver {memory / _MIB:,.0f} MiB"
        )
        for name in ("records", "decoded"):
            size = sum(file.stat().st_size for file in (out / name).rglob("*.parquet"))
            typer.echo(f"{name}: {size / _MIB:,.0f} MiB, {size / events:.0f} bytes an event")


def _rate(count: float, seconds: float) -> str:
    return f"{count / seconds:,.0f}"


def _timed(command: list[str], master: str) -> tuple[float, int, dict[str, float]]:
    start = time.monotonic()
    result, used = run_fleet([*command, "--master", master])
    return time.monotonic() - start, used.memory, result


class Used(NamedTuple):
    """Of a command: the largest memory of its driver in bytes, and the CPU time of all that it
    started, as far as it had come when it was last looked at."""

    memory: int
    cpu_s: float


def run_fleet(arguments: list[str], held: Sequence[str] = ()) -> tuple[dict[str, Any], Used]:
    """What `refold fleet` prints as JSON, and what it used; `held` is a command that runs it. Ends
    with its status where that is not 0."""
    command = [sys.executable, "-m", "replay.cli.main", "fleet", *arguments, "--json"]
    try:
        content, used = _run_measured([*held, *command])
    except subprocess.CalledProcessError as error:
        raise typer.Exit(error.returncode) from None
    return msgspec.json.decode(content), used


def _run_measured(command: list[str]) -> tuple[bytes, Used]:
    """What a command prints, and what it used. Raises CalledProcessError."""
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen(command, stdout=told)
        memory, cpu_s = 0, dict[int, float]()
        while process.poll() is None:
            memory = max(memory, _driver_bytes(process.pid))
            cpu_s |= _cpu_s(process.pid)
            time.sleep(_SAMPLED_S)
        told.seek(0)
        content = told.read()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return content, Used(memory, sum(cpu_s.values()))


def _driver_bytes(pid: int) -> int:
    """Of the process and the Java process that it started."""
    page = os.sysconf("SC_PAGE_SIZE")
    total = 0
    for one in (pid, *_children(pid)):
        try:
            total += int(Path(f"/proc/{one}/statm").read_text().split()[1]) * page
        except (OSError, IndexError):
            continue
    return total


def _cpu_s(pid: int) -> dict[int, float]:
    """Of a process and all below it, by id."""
    found = dict[int, float]()
    with suppress(OSError):
        # Behind the name, in parentheses, which may have blanks in it.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        found[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    for child in _children(pid):
        found |= _cpu_s(child)
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for of_thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, of_thread.read_text().split())
    return found


if __name__ == "__main__":
    typer.run(main)
