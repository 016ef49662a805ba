"""`python -m tools.recordings`: record stock clusters in random incidents."""

import asyncio
import logging as python_logging
from pathlib import Path
from typing import Annotated

import typer

from tools.recordings.brokers import Logging
from tools.recordings.mixes import MIXES
from tools.recordings.recording import pack
from tools.recordings.recording import record as record_incident
from tools.recordings.setup import PROTOCOLS, SetupOptions

app = typer.Typer(no_args_is_help=True, help=__doc__)


@app.command()
def record(
    seed: Annotated[int, typer.Option(help="The seed of the cluster and its incident.")],
    mix: Annotated[str, typer.Option(help="One of the mixes that `mixes` lists.")],
    out: Annotated[Path, typer.Option(help="The folder of the recording, created.")],
    kafka: Annotated[str, typer.Option(help=f"One of {', '.join(PROTOCOLS)}.")] = "3.9.1",
    ibp: Annotated[str | None, typer.Option(help="inter.broker.protocol.version.")] = None,
    brokers: Annotated[int | None, typer.Option(min=1, help="Number of brokers.")] = None,
    seconds: Annotated[float, typer.Option(min=0, help="How long the mix runs.")] = 90.0,
    logging: Annotated[
        Logging, typer.Option(help="`production`: Kafka's default levels, without request log.")
    ] = "full",
    packed: Annotated[bool, typer.Option("--pack", help="Also write OUT.tar.xz.")] = False,
) -> None:
    """Record one incident."""
    if mix not in MIXES or kafka not in PROTOCOLS or out.exists():
        raise typer.BadParameter("unknown mix, unknown Kafka version, or the folder exists already")
    options = SetupOptions(
        seed=seed,
        mix=mix,
        seconds=seconds,
        kafka=kafka,
        protocol=ibp,
        brokers=brokers,
        logging=logging,
    )
    # Clients log errors while brokers are down; these are part of the incident.
    python_logging.disable(python_logging.CRITICAL)
    out.mkdir(parents=True)
    asyncio.run(record_incident(options, out))
    if packed:
        pack(out)


@app.command()
def mixes() -> None:
    """List the mixes with the weights of their operations."""
    for name, mix in MIXES.items():
        weights = ", ".join(
            f"{operation.__name__} {weight}" for operation, weight in mix.weights.items()
        )
        typer.echo(f"{name}: {weights}")


if __name__ == "__main__":
    app()
