"""`python -m tools.incidents [NAME...]`: run incidents with refold as controller, and keep its
logs."""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from eventstore.folders import segments_in
from replay.incidents.cutting import cut_log
from replay.incidents.incident_folder import IncidentDescription, keep_incident
from replay.logs.open_log import open_reader, seq_at
from replay.stock_clusters.imports.importing import Selection, import_source
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
    incident = INCIDENTS[name]
    with tempfile.TemporaryDirectory(prefix="incident-") as scratch:
        folder = Path(scratch)
        made = IncidentCluster(
            folder, incident.protocol, config=incident.config, log_dirs=incident.log_dirs
        )
        async with made as cluster:
            await cluster.make(TOPIC, PARTITIONS)
            await cluster.make("moved", {0: [1, 2], 1: [1, 2]})
            await incident.script(cluster)
            if cluster.refold.running:
                await cluster.hand_back()
            data = cluster.lab.zookeepers[0].folder
        log = _last_run(made.log_dir)
        if incident.of_zookeeper:
            log = _import_zookeeper_log(data, folder, made.begun_ns)
        how = (
            f"python -m tools.incidents {name}: real ZooKeeper and stock Kafka 3.9.1 brokers at "
            f"inter.broker.protocol.version {incident.protocol}, "
            + ("imported from ZooKeeper's log" if incident.of_zookeeper else "refold as controller")
        )
        title = " ".join((incident.script.__doc__ or "").split())
        keep_incident(log, kept, IncidentDescription(title, how))


def _import_zookeeper_log(data: Path, folder: Path, begun_ns: int) -> Path:
    """ZooKeeper's log from the last election before the incident on."""
    import_source(data, folder / "whole", Selection())
    with open_reader(folder / "whole") as reader:
        cut_log(reader, folder / "cut", seq_at(reader, None, begun_ns), reader.last_seq)
    return folder / "cut"


def _last_run(logs: Path) -> Path:
    """The log of the last run, which contains the incident or its end."""
    return sorted(one for one in logs.iterdir() if one.is_dir() and segments_in(one))[-1]


if __name__ == "__main__":
    app()
