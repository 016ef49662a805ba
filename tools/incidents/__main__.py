"""`python -m tools.incidents [NAME...]`: run incidents with refold as controller, and keep its
logs."""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from eventstore.folders import segments_in
from replay.incidents.incident_folder import IncidentDescription, keep
from tools.incidents.incident_cluster import IncidentCluster
from tools.incidents.scripts import INCIDENTS, PARTITIONS, TOPIC

_FOLDER = Path("tests/incidents")

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def make(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="An incident; default: all.")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="The folder for the incidents, each in its own folder.")
    ] = _FOLDER,
) -> None:
    """Run incidents on real servers on this machine, with refold as controller."""
    for name in names or list(INCIDENTS):
        if name not in INCIDENTS:
            typer.echo(f"unknown incident {name}; use one of {', '.join(INCIDENTS)}", err=True)
            raise typer.Exit(2)
        if (out / name).exists():
            typer.echo(f"{out / name} exists already: delete it, or name another --out", err=True)
            raise typer.Exit(2)
        asyncio.run(_make(name, out / name))
        sys.stdout.write(f"{out / name}\n")


async def _make(name: str, kept: Path) -> None:
    script, protocol, config, log_dirs = INCIDENTS[name]
    with tempfile.TemporaryDirectory(prefix="incident-") as scratch:
        folder = Path(scratch)
        made = IncidentCluster(folder, protocol, config=config, log_dirs=log_dirs)
        async with made as cluster:
            await cluster.make(TOPIC, PARTITIONS)
            await cluster.make("moved", {0: [1, 2], 1: [1, 2]})
            await script(cluster)
            await cluster.hand_back()
        _keep(cluster.log_dir, kept, name, script.__doc__ or "", protocol)


def _keep(logs: Path, folder: Path, name: str, title: str, protocol: str) -> None:
    """Keep the log of the last run, which contains the incident or its end."""
    log = sorted(one for one in logs.iterdir() if one.is_dir() and segments_in(one))[-1]
    how = (
        f"python -m tools.incidents {name}: real ZooKeeper and stock Kafka 3.9.1 brokers at "
        f"inter.broker.protocol.version {protocol}, refold as controller"
    )
    keep(log, folder, IncidentDescription(" ".join(title.split()), how))


if __name__ == "__main__":
    app()
