"""`python -m tools.shadow`: a shadow next to a stock cluster in random incidents."""

import asyncio
import logging
import random
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from tools.shadow.incident import Follows, Outcome, shadow_incident


def main(
    seconds: Annotated[float, typer.Option(min=1, help="How long the incidents go on.")] = 600.0,
    seed: Annotated[int | None, typer.Option(help="Repeats the acts of an incident.")] = None,
    follows: Annotated[Follows, typer.Option(help="What the shadow reads.")] = "txnlog and logs",
    folder: Annotated[Path | None, typer.Option(help="Kept; else a temporary folder.")] = None,
) -> None:
    """Run the incidents, print the summary of the shadow, and exit with 1 if it reports a
    difference or has written anything to ZooKeeper."""
    logging.disable(logging.CRITICAL)
    chosen = random.randrange(10**6) if seed is None else seed
    typer.echo(f"seed {chosen}, {seconds:.0f} s, follows {follows}")
    with tempfile.TemporaryDirectory(prefix="shadow-") as temporary:
        where = folder or Path(temporary)
        where.mkdir(parents=True, exist_ok=True)
        outcome = asyncio.run(shadow_incident(where, chosen, seconds, follows))
        _print(outcome)
    raise typer.Exit(int(bool(outcome.false_differences) or not outcome.is_silent))


def _print(outcome: Outcome) -> None:
    summary = outcome.summary
    for name in ("decisions", "agreed", "differs", "missing", "extra", "inputs", "warm"):
        typer.echo(f"{name}: {summary[name]}")
    for name, side in (("decisions", summary), ("requests", summary["requests"])):
        counts = {kind: one["agreed"] for kind, one in side["by_kind"].items()}
        typer.echo(f"{name} by kind: {counts}; explained: {len(side['explained'])}")
    typer.echo(f"requests unseen: {summary['requests']['unjudged']}")
    typer.echo(f"undecided: {summary['undecided']}, unseen: {summary['unseen_versions']} versions")
    for one in summary["divergences"][:20]:
        typer.echo(f"  {one}")
    for text in summary["notes"]:
        typer.echo(text)
    typer.echo(f"in ZooKeeper: {[type(one.content).__name__ for one in outcome.transactions]}")
    typer.echo(f"exit status of the shadow: {outcome.status}")


if __name__ == "__main__":
    typer.run(main)
