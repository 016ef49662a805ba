"""`refold health`: which partitions are not well, from ZooKeeper or a log."""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from controller.brokers.security import PLAIN, BrokerSecurity
from controller.cli.output import print_result, print_table
from controller.operator.min_insync_replicas import MinInsyncReplicas, ask_brokers
from controller.operator.topic_probe import probe as probe_topic
from controller.operator.topic_probe import warning
from controller.settings import parsing
from controller.settings.client_options import client_options
from controller.settings.errors import SettingsError
from controller.settings.settings import ClusterAccess, access_of
from controller.settings.sources import RawSetting
from eventstore.errors import LogError
from replay.cli.exit_status import errors_in_one_line
from replay.cli.health_report import (
    HealthReport,
    PartitionSelection,
    lines_of,
    probe_lines,
    report_of,
    table_of,
    topic_line,
    unlisted_note,
)
from replay.cli.health_sources import ClusterReading, from_daemon, from_log, from_zookeeper
from replay.cli.options import At, Json, log_position
from replay.cli.single_options import SingleOptions
from replay.cli.stuck_registrations import RegistrationProbes
from replay.cluster_view.selecting import selected
from replay.cluster_view.views import ClusterView
from replay.errors import ReplayError
from replay.health.evaluate import WORST_FIRST, State, evaluate

_NOT_WELL: Final = 1
_SHOWN: Final = 20
_PATIENCE_SECONDS: Final = 20.0
"""Longer than Kafka's zookeeper.session.timeout.ms: a killed broker has lost its registration."""
_CLEAR: Final = "\x1b[H\x1b[J"

app = typer.Typer(add_completion=False, rich_markup_mode=None)


_ReadCluster = Callable[[], ClusterReading]


_Source = Annotated[
    str | None,
    typer.Argument(
        metavar="[LOG]",
        help="A log of the daemon, also one that is being written; or an imported log.",
    ),
]
_ZooKeeper = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT,.../CHROOT",
        help="Read a cluster's ZooKeeper; works without a refold daemon.",
    ),
]
_Daemon = Annotated[
    Path | None,
    typer.Option(
        metavar="LOG_DIR|SOCKET",
        help="Read the log of a daemon that runs on this machine.",
    ),
]
_Topic = Annotated[
    list[str] | None,
    typer.Option(metavar="T", help="Only this topic, with all its partitions. Can be repeated."),
]
_MinInsyncReplicas = Annotated[
    int | None,
    typer.Option(min=1, help="The brokers' setting, for topics that do not override it."),
]
_FailOn = Annotated[State, typer.Option(help="Exit with 1 for this state and for worse ones.")]
_Limit = Annotated[
    int | None,
    typer.Option(
        "-n",
        "--limit",
        min=0,
        help="The number of partitions to show; 0: all. [default: 20; all with --topic]",
    ),
]
_Probe = Annotated[
    bool,
    typer.Option(
        "--probe", help="Write two records to the --topic and read them back. They stay there."
    ),
]
_Bootstrap = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT,...",
        help="Brokers for --probe; default: the registered ones. With --zookeeper, also brokers "
        "that may run without being registered.",
    ),
]
_Patience = Annotated[
    float,
    typer.Option(
        min=0,
        metavar="S",
        help="With --zookeeper: a registration that looks stuck is checked again after this time, "
        "and then reported.",
    ),
]
_Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "--zk-tls-config-file",
        metavar="FILE",
        help="A broker's server.properties, or the settings of `refold run`: where ZooKeeper is, "
        "and TLS and logins for ZooKeeper and the brokers (docs/security.md).",
    ),
]
_CommandConfig = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Client properties for --probe.")
]
_Watch = Annotated[
    bool, typer.Option("--watch", help="Repeat the report until Ctrl-C; with --json one line each.")
]
_Interval = Annotated[
    float, typer.Option(min=0.1, metavar="S", help="Seconds between two reports of --watch.")
]


@app.command(name="health", cls=SingleOptions)
def health(
    log: _Source = None,
    zookeeper: _ZooKeeper = None,
    config: _Config = None,
    daemon: _Daemon = None,
    topic: _Topic = None,
    at: At = None,
    min_insync_replicas: _MinInsyncReplicas = None,
    fail_on: _FailOn = State.UNDER_REPLICATED,
    limit: _Limit = None,
    probe: _Probe = False,
    bootstrap_server: _Bootstrap = None,
    command_config: _CommandConfig = None,
    patience: _Patience = _PATIENCE_SECONDS,
    watch: _Watch = False,
    interval: _Interval = 2.0,
    as_json: Json = False,
) -> None:
    """Show the partitions that are not well, the worst first.

    The states, from the worst to the best: offline, under-min-isr, later-epoch, stuck,
    under-replicated, being-deleted, being-reassigned, not-preferred.

    Exit status: 0 no partition is in the state --fail-on or a worse one; 1 a partition is, the
    controller failed to do something or is failing over, the daemon has no connection to
    ZooKeeper, or the probe failed; 2 LOG or ZooKeeper cannot be read, no daemon runs there or it is
    not controller, or the topic does not exist; 130 Ctrl-C.
    """
    _check_servers(bootstrap_server)
    _check_source(log, zookeeper, config, daemon, probe=probe)
    if watch and at is not None:
        raise typer.BadParameter("is a fixed moment, omit --watch", param_hint="--at")
    is_live = log is None and daemon is None
    access = _access(zookeeper, config) if is_live or config is not None else None
    security = PLAIN if access is None else access.brokers
    registrations = RegistrationProbes(patience, bootstrap_server, security)
    topics = topic or []
    read = _reader_of(log, access, daemon, topics, at, registrations, waits=not watch)
    options = _probe_options(
        probe, watch, topics, None if is_live else bootstrap_server, command_config
    )
    selection = PartitionSelection(
        bool(topics), limit if limit is not None else (0 if topics else _SHOWN)
    )
    asked = MinInsyncReplicas()

    def report() -> HealthReport:
        nonlocal asked
        moment = read()
        cluster = selected(moment.cluster, topics)
        if asked == MinInsyncReplicas() and _needs_brokers(cluster, min_insync_replicas):
            asked = asyncio.run(ask_brokers(moment.brokers, security))
        values = (min_insync_replicas, asked.own, moment.min_insync_replicas)
        own = next((one for one in values if one is not None), None)
        found = evaluate(cluster, own, is_bounded=asked.is_bounded)
        probed = []
        for name in topics if probe else ():
            typer.echo(f"refold health: {warning(name)}", err=True)
            servers = bootstrap_server or _servers(moment, security)
            probed = asyncio.run(probe_topic(name, servers, options or security.login()))
        return report_of(moment, cluster, found, selection, probed)

    if watch:
        _watch(report, interval, selection, as_json=as_json)
    with errors_in_one_line("health"):
        found = report()
    print_result(found, partial(_print, found, selection), as_json=as_json)
    is_bad = found.worst is not None and _rank(found.worst) <= _rank(fail_on)
    is_bad |= any(one.fault for one in found.probe)
    raise typer.Exit(_NOT_WELL if is_bad or found.problem else 0)


def _needs_brokers(cluster: ClusterView, given: int | None) -> bool:
    """Whether a partition's min.insync.replicas is not known, or exceeds its replicas."""
    return any(
        least is None or any(len(one.replicas) < least for one in topic.partitions)
        for topic in cluster.topics
        for least in [given if topic.min_insync_replicas is None else topic.min_insync_replicas]
    )


def _probe_options(
    probe: bool, watch: bool, topics: Sequence[str], bootstrap: str | None, config: Path | None
) -> dict[str, Any]:
    """The arguments of the clients. Raises typer.BadParameter for options that do not fit."""
    if not probe:
        if bootstrap is not None or config is not None:
            raise typer.BadParameter(
                "applies to --probe", param_hint="--bootstrap-server, --command-config"
            )
        return {}
    if len(topics) != 1 or watch:
        raise typer.BadParameter(
            "writes two records each time: give exactly one --topic, and no --watch",
            param_hint="--probe",
        )
    try:
        return client_options(config, "--command-config")
    except SettingsError as error:
        raise typer.BadParameter("; ".join(error.problems), param_hint="--command-config") from None


def _servers(moment: ClusterReading, security: BrokerSecurity) -> str:
    """The addresses of the brokers that can be reached. Raises ReplayError if there are none."""
    if security.listeners:
        reachable = [security.reachable(one.endpoints) for one in moment.brokers]
        found = [f"{one.host}:{one.port}" for one in reachable if one is not None]
    else:
        urls = [one for broker in moment.cluster.brokers for one in broker.endpoints]
        found = [one.partition("://")[2] for one in urls if one.startswith("PLAINTEXT://")]
    if not found:
        raise ReplayError(
            "no registered broker has a listener PLAINTEXT: give --config, or --bootstrap-server "
            "and --command-config for TLS or SASL"
        )
    return ",".join(found)


def _rank(state: State) -> int:
    return WORST_FIRST.index(state)


def _check_servers(servers: str | None) -> None:
    """Check the value of --bootstrap-server. Raises typer.BadParameter."""
    if not servers:
        return
    try:
        parsing.servers(servers)
    except ValueError as error:
        raise typer.BadParameter(f"must be {error}", param_hint="--bootstrap-server") from None


def _check_source(
    log: str | None, zookeeper: str | None, config: Path | None, daemon: Path | None, *, probe: bool
) -> None:
    """Check that exactly one source is given, and --config and --probe only with one that uses
    them. Raises typer.BadParameter."""
    sources = [one for one in (log, zookeeper, daemon) if one is not None]
    if len(sources) > 1 or (not sources and config is None):
        raise typer.BadParameter(
            "give a log, --zookeeper, --config or --daemon",
            param_hint="LOG, --zookeeper, --config, --daemon",
        )
    if config is not None and log is not None:
        raise typer.BadParameter("applies to --zookeeper and --daemon", param_hint="--config")
    if probe and log is not None:
        raise typer.BadParameter(
            "writes to brokers, and a log may name brokers of the past: use --zookeeper, --config "
            "or --daemon instead of the log",
            param_hint="--probe",
        )


def _access(zookeeper: str | None, config: Path | None) -> ClusterAccess:
    """How to connect to ZooKeeper and the brokers, by the options and the environment. Raises
    typer.BadParameter."""
    flags = []
    if zookeeper is not None:
        flags.append(RawSetting("zookeeper.connect", zookeeper, "--zookeeper"))
    try:
        return access_of(flags, os.environ, config)
    except SettingsError as error:
        hint = "--zookeeper, --config"
        raise typer.BadParameter("; ".join(error.problems), param_hint=hint) from None


def _reader_of(
    log: str | None,
    access: ClusterAccess | None,
    daemon: Path | None,
    topics: Collection[str],
    at: str | None,
    registrations: RegistrationProbes,
    *,
    waits: bool,
) -> _ReadCluster:
    """How to read the cluster. `waits`: until it is clear whether a registration is stuck. Raises
    typer.BadParameter."""
    position = log_position(at, "--at")
    if log is not None:
        return lambda: from_log(log, *position)
    if at is not None:
        raise typer.BadParameter("is a moment of a log", param_hint="--at")
    if daemon is not None:
        return lambda: from_daemon(daemon, access, topics)
    assert access is not None
    zookeeper = access.zookeeper
    return lambda: from_zookeeper(zookeeper, topics, registrations, waits=waits)


def _watch(
    report: Callable[[], HealthReport],
    seconds: float,
    selection: PartitionSelection,
    *,
    as_json: bool,
) -> None:
    """Show one report after the other, until Ctrl-C. A source that cannot be read for some time
    does not end it."""
    is_screen = sys.stdout.isatty() and not as_json
    while True:
        try:
            found = report()
        except (LogError, ReplayError) as error:
            typer.echo(f"refold health: {error}", err=True)
        else:
            if is_screen:
                typer.echo(_CLEAR, nl=False)
            print_result(found, partial(_print, found, selection), as_json=as_json)
            sys.stdout.flush()
        time.sleep(seconds)


def _print(report: HealthReport, selection: PartitionSelection) -> None:
    for line in lines_of(report):
        typer.echo(line)
    for one in report.topics if selection.of_topics else ():
        typer.echo(topic_line(one))
    for line in probe_lines(report):
        typer.echo(line)
    table = table_of(report)
    if table.row_count:
        print_table(table)
    if left := unlisted_note(report, selection):
        typer.echo(left)
