"""Measures `refold fleet ingest` and `refold fleet decode`: events per second, and the driver's
memory.

Bias: the logs were just written, so they are read from the page cache. The time is that of the
command, including the start of Spark. Memory is the peak resident memory of the driver's Python and
Java processes together; in local mode the JVM also runs the tasks. See `python -m
tools.bench.fleet_ingest --help`.
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
    logs: Annotated[Path, typer.Argument(help="Logs that `python -m tools.fleet` wrote.")],
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[2]",
) -> None:
    """Ingest LOGS into a new table, ingest them again without new records, and decode the table."""
    with tempfile.TemporaryDirectory(dir=logs.absolute().parent) as folder:
        out = Path(folder) / "table"
        events = 0
        for what in ("all is new", "nothing is new"):
            seconds, memory, result = _time_command(
                ["ingest", str(logs), "--out", str(out)], master
            )
            rows = _rate(result["events"] + result["commands"], seconds)
            typer.echo(
                f"{what}: {result['events']} events and {result['commands']} commands of"
                f" {result['inputs']} logs in {seconds:.1f} s ({result['seconds']:.1f} s without"
                f" Spark's start): {_rate(result['events'], seconds)} events/s, {rows} rows/s;"
                f" driver {memory / _MIB:,.0f} MiB"
            )
            events += int(result["events"])
        seconds, memory, result = _time_command(["decode", str(out)], master)
        typer.echo(
            f"decoded: in {seconds:.1f} s ({result['seconds']:.1f} s without Spark's start):"
            f" {_rate(events, seconds)} events/s; driver {memory / _MIB:,.0f} MiB"
        )
        for name in ("records", "decoded"):
            size = sum(file.stat().st_size for file in (out / name).rglob("*.parquet"))
            typer.echo(f"{name}: {size / _MIB:,.0f} MiB, {size / events:.0f} bytes per event")


def _rate(count: float, seconds: float) -> str:
    return f"{count / seconds:,.0f}"


def _time_command(command: list[str], master: str) -> tuple[float, int, dict[str, float]]:
    start = time.monotonic()
    result, used = run_fleet([*command, "--master", master])
    return time.monotonic() - start, used.memory, result


class ResourceUse(NamedTuple):
    """The resources of a command: the peak memory of its driver in bytes, and the CPU time of all
    its processes, as of the last sample."""

    memory: int
    cpu_s: float


def run_fleet(
    arguments: list[str], prefix: Sequence[str] = ()
) -> tuple[dict[str, Any], ResourceUse]:
    """The JSON output of a `refold fleet` command, and the resources that it used. `prefix` is a
    command that runs it. A failure ends this process with the same exit status."""
    command = [sys.executable, "-m", "replay.cli.main", "fleet", *arguments, "--json"]
    try:
        content, used = _run_measured([*prefix, *command])
    except subprocess.CalledProcessError as error:
        raise typer.Exit(error.returncode) from None
    return msgspec.json.decode(content), used


def _run_measured(command: list[str]) -> tuple[bytes, ResourceUse]:
    """The output of a command, and the resources that it used. Raises CalledProcessError."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output)
        memory, cpu_s = 0, dict[int, float]()
        while process.poll() is None:
            memory = max(memory, _driver_bytes(process.pid))
            cpu_s |= _cpu_s(process.pid)
            time.sleep(_SAMPLED_S)
        output.seek(0)
        content = output.read()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return content, ResourceUse(memory, sum(cpu_s.values()))


def _driver_bytes(pid: int) -> int:
    """The memory of a process and of the JVM that it started."""
    page = os.sysconf("SC_PAGE_SIZE")
    total = 0
    for one in (pid, *_children(pid)):
        try:
            total += int(Path(f"/proc/{one}/statm").read_text().split()[1]) * page
        except (OSError, IndexError):
            continue
    return total


def _cpu_s(pid: int) -> dict[int, float]:
    """The CPU time of a process and its descendants, by process id."""
    found = dict[int, float]()
    with suppress(OSError):
        # The fields after the name, which is in parentheses and may contain blanks.
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
