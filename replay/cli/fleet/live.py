"""`refold fleet live`: the health of partitions, kept up from the mirror's topic."""

from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from controller.cli.output import OutputFault
from controller.settings.errors import SettingsError
from controller.settings.sources import from_file
from replay.cli.fleet.options import Conf, Master, fleet_errors, local_path, settings_of
from replay.cli.log.mirror import Config, Servers, TopicName, mirrored_topic
from replay.errors import ReplayError

if TYPE_CHECKING:
    from replay.fleet.live.job import Batch


def live(
    servers: Servers,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", parser=local_path, help="A separate folder."),
    ],
    topic: TopicName = "refold-log",
    config: Config = None,
    once: Annotated[bool, typer.Option("--once", help="Take what is there, and end.")] = False,
    master: Master = None,
    conf: Conf = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, one object a batch.")] = False,
) -> None:
    """Keep a table of each partition's health up to date, from the logs that daemons publish.

    DIR/health has for each partition whether it is offline, under-replicated, led by another
    replica than the preferred one, or healthy. DIR/status.json says whether that is all that the
    topic has. The command may be stopped at any time: run it again. Spark needs its Kafka
    connector: --conf spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0

    Exit status: 0 ended by Ctrl-C, SIGTERM or --once; 2 the topic, DIR or Spark cannot be used.
    """
    settings = settings_of(conf)
    with fleet_errors("live"), suppress(KeyboardInterrupt):
        from replay.fleet.live.job import follow, owned_folder
        from replay.fleet.session import check_java, check_master, spark_session

        check_java()
        if master is not None:
            check_master(master)
        source = _topic(servers, topic, config)
        with (
            owned_folder(out.absolute(), source) as folder,
            spark_session(master, settings, is_brief=True) as spark,
        ):
            tell = partial(_tell, as_json=as_json)
            follow(
                spark,
                source,
                folder,
                tell,
                on_start=partial(_tell_line, f"started, reads {source.place}"),
                on_trouble=_tell_line,
                options=_of_spark(config),
                once=once,
            )


def _topic(servers: str, name: str, config: Path | None) -> Any:
    try:
        return mirrored_topic(servers, name, config)
    except SettingsError as error:
        raise ReplayError("; ".join(error.problems)) from None


def _of_spark(config: Path | None) -> dict[str, str]:
    """The settings of a Kafka client as Spark's Kafka source takes them."""
    return {f"kafka.{one.key}": one.text for one in from_file(config)} if config else {}


def _tell_line(text: str) -> None:
    with suppress(OutputFault):
        typer.echo(f"{datetime.now():%H:%M:%S} {text}", err=True)


def _tell(batch: "Batch", *, as_json: bool) -> None:
    with suppress(OutputFault):
        if as_json:
            typer.echo(msgspec.json.encode(batch).decode())
            return
        counts = batch.taken
        lag = "" if batch.lag_s is None else f", {batch.lag_s:.1f} s behind"
        typer.echo(
            f"{datetime.now():%H:%M:%S} batch {batch.number}: {counts.events} events of"
            f" {counts.clusters} clusters{lag}"
        )
        for log, why in sorted(counts.broken.items()):
            typer.echo(f"not followed any further: {log}: {why}", err=True)
