"""`python -m tools.shadow`: a shadow next to a stock cluster in random incidents."""

import asyncio
import logging
import random
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, get_args

import typer

from tools.shadow.incident import Follows, ShadowOutcome, ShadowTimeout, shadow_incident

_TIMEOUT: Final = 3


def main(
    seconds: Annotated[float, typer.Option(min=1, help="How long the incidents continue.")] = 600.0,
    seed: Annotated[int | None, typer.Option(help="Repeats the acts of an incident.")] = None,
    follows: Annotated[
        list[str] | None,
        typer.Option(
            metavar="|".join(get_args(Follows)),
            help="The input of a shadow. Can be repeated; default: a shadow for each.",
        ),
    ] = None,
    folder: Annotated[Path | None, typer.Option(help="Kept; else a temporary folder.")] = None,
) -> None:
    """Run the incidents, and print the summary of each shadow.

    Exit status: 0 done; 1 a shadow reports a difference, or has written anything to ZooKeeper; 2
    wrong arguments; 3 a shadow did not begin or end in time: its files are kept.
    """
    logging.disable(logging.CRITICAL)
    chosen = random.randrange(10**6) if seed is None else seed
    each = [one for one in get_args(Follows) if one in (follows or [one])]
    if len(each) < len(follows or ()):
        raise typer.BadParameter(f"use {', '.join(get_args(Follows))}", param_hint="--follows")
    typer.echo(f"seed {chosen}, {seconds:.0f} s, follows {', '.join(each)}")
    with _folder(folder) as where:
        outcomes = asyncio.run(shadow_incident(where, chosen, seconds, each))
        for what, outcome in zip(each, outcomes, strict=True):
            typer.echo(f"--- {what}")
            _print(outcome)
    raise typer.Exit(int(any(one.false_differences or not one.is_silent for one in outcomes)))


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    """The folder of the incident. A temporary one is deleted, unless a shadow took too long."""
    where = given or Path(tempfile.mkdtemp(prefix="shadow-"))
    where.mkdir(parents=True, exist_ok=True)
    is_temporary = given is None
    try:
        yield where
    except ShadowTimeout as error:
        is_temporary = False
        typer.echo(f"tools.shadow: {error}", err=True)
        raise typer.Exit(_TIMEOUT) from None
    finally:
        if is_temporary:
            shutil.rmtree(where)


def _explained_text(side: Mapping[str, Any]) -> str:
    """The number of divergences that are explained, and which ones each rule explains."""
    texts = []
    for one in side["explained"]:
        # A request has no zxid.
        zxids = [f"{zxid:#x}" for zxid in one["zxids"] if zxid]
        texts.append(
            f"{one['rule']} explains {' '.join(['zxid', *zxids]) if zxids else 'requests'}"
        )
    count = sum(len(one["zxids"]) for one in side["explained"])
    return f"{count} ({'; '.join(texts)})" if count else "0"


def _print(outcome: ShadowOutcome) -> None:
    summary = outcome.summary
    for name in ("decisions", "agreed", "differs", "missing", "extra", "inputs", "warm"):
        typer.echo(f"{name}: {summary[name]}")
    for name, side in (("decisions", summary), ("requests", summary["requests"])):
        counts = {kind: one["agreed"] for kind, one in side["by_kind"].items()}
        typer.echo(f"{name} by kind: {counts}; explained: {_explained_text(side)}")
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
