"""`python -m tools.shadow`: a shadow next to a stock cluster in random incidents."""

import asyncio
import logging
import random
import tempfile
from pathlib import Path
from typing import Annotated, get_args

import typer

from tools.shadow.incident import Follows, Outcome, shadow_incident


def main(
    seconds: Annotated[float, typer.Option(min=1, help="How long the incidents go on.")] = 600.0,
    seed: Annotated[int | None, typer.Option(help="Repeats the acts of an incident.")] = None,
    follows: Annotated[
        list[str] | None,
        typer.Option(
            metavar="|".join(get_args(Follows)),
            help="What a shadow reads. Can be repeated; default: a shadow for each.",
        ),
    ] = None,
    folder: Annotated[Path | None, typer.Option(help="Kept; else a temporary folder.")] = None,
) -> None:
    """Run the incidents, print the summary of each shadow, and exit with 1 if one reports a
    difference or has written anything to ZooKeeper."""
    logging.disable(logging.CRITICAL)
    chosen = random.randrange(10**6) if seed is None else seed
    each = [one for one in get_args(Follows) if one in (follows or [one])]
    if len(each) < len(follows or ()):
        raise typer.BadParameter(f"use {', '.join(get_args(Follows))}", param_hint="--follows")
    typer.echo(f"seed {chosen}, {seconds:.0f} s, follows {', '.join(each)}")
    with tempfile.TemporaryDirectory(prefix="shadow-") as temporary:
        where = folder or Path(temporary)
        where.mkdir(parents=True, exist_ok=True)
        outcomes = asyncio.run(shadow_incident(where, chosen, seconds, each))
        for what, outcome in zip(each, outcomes, strict=True):
            typer.echo(f"--- {what}")
            _print(outcome)
    raise typer.Exit(int(any(one.false_differences or not one.is_silent for one in outcomes)))


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
