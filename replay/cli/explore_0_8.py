"""`refold explore --design 0.8`: search a simulated cluster without a controller."""

import time
from typing import TYPE_CHECKING

import msgspec
import typer

from controller.cli.output import print_result
from replay.cli.progress import progress

if TYPE_CHECKING:
    from replay.explore.kafka_0_8.search import BrokenRun, Searched


def explore_brokers(seed: int, seconds: float | None, runs: int | None, *, as_json: bool) -> bool:
    """Search for so long or so many runs, and print the result. Returns whether a run broke an
    invariant that is not a known flaw of the design."""
    from replay.explore.kafka_0_8.search import search

    start = time.monotonic()
    with progress(what="exploring", every=1) as report:

        def goes_on(done: int) -> bool:
            report("exploring", done, runs or 0)
            is_late = seconds is not None and time.monotonic() - start >= seconds
            return not is_late and (runs is None or done < runs)

        found = search(seed, goes_on)
    print_result(
        msgspec.to_builtins(found),
        lambda: _print(found, time.monotonic() - start),
        as_json=as_json,
    )
    return found.violation is not None


def _print(found: "Searched", elapsed_s: float) -> None:
    from replay.explore.kafka_0_8.monitor import KNOWN_FLAWS

    amount = f"{found.runs} runs, {found.events} events in {elapsed_s:.1f} s, seed {found.seed}"
    if found.violation is None:
        typer.echo(f"no violation in {amount}")
    else:
        _print_run(found.violation)
        typer.echo(f"found in {amount}")
    for flaw in found.flaws:
        count = found.flaw_runs[flaw.invariant]
        why = KNOWN_FLAWS[flaw.invariant]
        typer.echo(f"known flaw of the design in {count} of {found.runs} runs: {why}")
        _print_run(flaw)


def _print_run(broken: "BrokenRun") -> None:
    typer.echo(f"{broken.invariant} does not hold in run {broken.run}: {broken.text}")
    for act in broken.story:
        typer.echo(f"  {act}")
