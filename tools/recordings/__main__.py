"""`python -m tools.recordings`: recordings of stock clusters in random incidents."""

import asyncio
import logging as python_logging
from pathlib import Path
from typing import Annotated

import typer

from tools.recordings.brokers import Logging
from tools.recordings.mixes import MIXES
from tools.recordings.recording import pack
from tools.recordings.recording import record as record_incident
from tools.recordings.setup import PROTOCOLS, Asked

app = typer.Typer(no_args_is_help=True, help=__doc__)


@app.command()
def record(
    seed: Annotated[int, typer.Option(help="What the cluster and its incident are drawn from.")],
    mix: Annotated[str, typer.Option(help="One of those that `mixes` names.")],
    out: Annotated[Path, typer.Option(help="The folder to make.")],
    kafka: Annotated[str, typer.Option(help=f"One of {', '.join(PROTOCOLS)}.")] = "3.9.1",
    ibp: Annotated[str | None, typer.Option(help="inter.broker.protocol.version.")] = None,
    brokers: Annotated[int | None, typer.Option(min=1, help="How many.")] = None,
    seconds: Annotated[float, typer.Option(min=0, help="How long the mix is played.")] = 90.0,
    logging: Annotated[
        Logging, typer.Option(help="`production`: Kafka's levels, and no request log.")
    ] = "full",
    packed: Annotated[bool, typer.Option("--pack", help="Make OUT.tar.xz, too.")] = False,
) -> None:
    """Record one incident."""
    if mix not in MIXES or kafka not in PROTOCOLS or out.exists():
        raise typer.BadParameter("no such mix, no such Kafka, or the folder is there already")
    asked = Asked(
        seed=seed,
        mix=mix,
        seconds=seconds,
        kafka=kafka,
        protocol=ibp,
        brokers=brokers,
        logging=logging,
    )
    # What clients complain of while brokers are down is part of the incident.
    python_logging.disable(python_logging.CRITICAL)
    out.mkdir(parents=True)
    asyncio.run(record_incident(asked, out))
    if packed:
        pack(out)


@app.command()
def mixes() -> None:
    """Name the mixes, and the acts of each with their weights."""
    for name, mix in MIXES.items():
        weights = ", ".join(f"{act.__name__} {weight}" for act, weight in mix.weights.items())
        typer.echo(f"{name}: {weights}")


if __name__ == "__main__":
    app()
