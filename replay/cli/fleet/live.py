"""`refold fleet live`: a table of the partitions' health, updated from the mirror's topic."""

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
    from replay.fleet.live.job import BatchResult


def live(
    servers: Servers,
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="DIR", parser=local_path, help="The folder for this table only."
        ),
    ],
    topic: TopicName = "refold-log",
    config: Config = None,
    once: Annotated[
        bool, typer.Option("--once", help="Process the current content of the topic and exit.")
    ] = False,
    master: Master = None,
    conf: Conf = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, one object per batch.")
    ] = False,
) -> None:
    """Maintain a table of the health of partitions.

    The command reads the logs that daemons publish to a topic. DIR/health says for each partition
    whether it is offline, under-replicated, led by a replica other than the preferred one, or
    healthy. DIR/status.json says whether the whole topic was processed. The command can be killed
    at any time: run it again.

    Requires Spark's Kafka connector:
    --conf spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0

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
            follow(
                spark,
                source,
                folder,
                partial(_print_batch, as_json=as_json),
                on_start=partial(_log_line, f"started, reads {source.place}"),
                on_trouble=_log_line,
                options=_kafka_options(config),
                once=once,
            )


def _topic(servers: str, name: str, config: Path | None) -> Any:
    try:
        return mirrored_topic(servers, name, config)
    except SettingsError as error:
        raise ReplayError("; ".join(error.problems)) from None


def _kafka_options(config: Path | None) -> dict[str, str]:
    """Kafka client settings as options of Spark's Kafka source."""
    return {f"kafka.{one.key}": one.text for one in from_file(config)} if config else {}


def _log_line(text: str) -> None:
    with suppress(OutputFault):
        typer.echo(f"{datetime.now():%H:%M:%S} {text}", err=True)


def _print_batch(batch: "BatchResult", *, as_json: bool) -> None:
    with suppress(OutputFault):
        if as_json:
            typer.echo(msgspec.json.encode(batch).decode())
            return
        counts = batch.taken
        lag = "" if batch.lag_s is None else f", lag {batch.lag_s:.1f} s"
        typer.echo(
            f"{datetime.now():%H:%M:%S} batch {batch.number}: {counts.events} events of"
            f" {counts.clusters} clusters{lag}"
        )
        for log, why in sorted(counts.broken.items()):
            typer.echo(f"stopped following {log}: {why}", err=True)
