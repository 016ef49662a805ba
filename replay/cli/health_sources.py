"""Where `refold health` reads a cluster: from a log, a running daemon, or ZooKeeper."""

import asyncio
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

import typer
from msgspec import Struct, structs

from controller.core.topic_configs import MIN_INSYNC_REPLICAS, least_in_sync
from controller.core.values import Broker
from controller.operator.daemon_status import DaemonStatus, SessionStatus, ask_any
from controller.operator.errors import NoDaemon
from controller.settings.settings import ClusterAccess, ZooKeeperAccess
from controller.zookeeper.connection import PLAIN
from controller.zookeeper.servers import parse_connect_string
from replay.cli.live_cluster import (
    live_brokers_and_configs,
    live_znodes,
    owners_of,
    registered_brokers,
    shown,
)
from replay.cli.progress import progress
from replay.cli.stuck_registrations import RegistrationProbes
from replay.cluster_view.from_znodes import cluster_of, with_configs
from replay.cluster_view.later_epochs import later_epochs
from replay.cluster_view.views import ClusterView
from replay.cluster_view.waiting import stuck_registrations
from replay.errors import ReplayError
from replay.index.history import headline_by
from replay.index.opening import index_of
from replay.index.store import has_index
from replay.inspect.at import cluster_at
from replay.logs.open_log import OpenedLog, RecordedLog, open_log, seq_at
from replay.shadow.status import read_status
from replay.times import iso_time
from replay.why.daemon_terms import end_of_term, unknown_cluster

_NOT_IN_LOG: Final = "a daemon's log does not have the configurations of topics"


class ClusterReading(Struct, frozen=True):
    """A cluster, where it was read, and what its controller could not do.

    `brokers` are those that can be asked; none if the moment is from a log. `min_insync_replicas`
    is the brokers' own setting as the daemon knew it at its start, None if it had none.
    `configs_unknown`: why the configurations of topics are not known; "" if they are. `ended_by`:
    the event that ended the last term of the log's daemon, if the cluster is the one before it.
    `without_address`: brokers that are not registered, and could not be probed.
    """

    source: str
    cluster: ClusterView
    problem: str = ""
    brokers: tuple[Broker, ...] = ()
    min_insync_replicas: int | None = None
    configs_unknown: str = ""
    ended_by: int = 0
    without_address: tuple[int, ...] = ()


def from_log(log: str, seq: int | None, wall_ns: int | None) -> ClusterReading:
    """The state of the cluster after an event or at a time; None: at the last event after which the
    log shows it. Raises ReplayError, LogError."""
    with (
        progress() as report,
        open_log(log, report, has_index) as opened,
        index_of(opened, report) as index,
    ):
        cluster = cluster_at(opened, seq_at(opened.reader, seq, wall_ns), report)
        is_end = seq is None and wall_ns is None
        ended = end_of_term(opened.reader, cluster) if is_end else 0
        if ended:
            cluster = cluster_at(opened, ended - 1, report)
        if cluster.controller.role == "standby":
            raise unknown_cluster(log, opened.reader, cluster)
        problem = headline_by(index, opened, cluster, report)
        shadow = read_status(opened.reader.path) if is_end else None
        if shadow is not None:
            problem = " ".join(filter(None, [problem, shadow.problem]))
        unknown = _NOT_IN_LOG if isinstance(opened, RecordedLog) else ""
        return ClusterReading(
            log, cluster, problem, (), _brokers_setting(opened), unknown, ended_by=ended
        )


def _brokers_setting(log: OpenedLog) -> int | None:
    """min.insync.replicas of the daemon's settings, or of the brokers that it asked at its
    start."""
    if not isinstance(log, RecordedLog):
        return None
    text = log.configuration.broker_settings.get(MIN_INSYNC_REPLICAS)
    return None if text is None else least_in_sync([text])


def from_daemon(
    path: Path, access: ClusterAccess | None, topics: Collection[str]
) -> ClusterReading:
    """The state of the cluster by the log that the daemon writes now: folding it here costs the
    daemon nothing. Values that the log does not have are read from ZooKeeper, with `access` if it
    is given. A daemon without a connection to ZooKeeper may have lost its role: the state is that
    of its last term. Raises ReplayError if no daemon runs there, or another one is controller."""
    try:
        found = ask_any(path)
    except NoDaemon as error:
        raise ReplayError(str(error)) from None
    if found.log is None:
        raise ReplayError(f"process {found.process} is {found.role_in_words}, and has no log yet")
    unconnected = _connection_problem(found)
    try:
        moment = from_log(found.log.folder, None, None)
    except ReplayError as error:
        raise ReplayError("; ".join(filter(None, [str(error), unconnected]))) from None
    if moment.ended_by and not unconnected:
        raise ReplayError(
            f"process {found.process} is {found.role_in_words}, and its log does not show the "
            f"cluster after event {moment.ended_by}: use the active daemon, or --zookeeper; refold "
            f"health {found.log.folder} shows the cluster before that event"
        )
    source = f"process {found.process} ({found.role_in_words})"
    last_known = f"{unconnected}: this is the last state that it knew." if unconnected else ""
    problem = " ".join(filter(None, [last_known, moment.problem]))
    moment = structs.replace(moment, source=source, problem=problem)
    try:
        zookeeper = _access_of(found.zookeeper) if access is None else access.zookeeper
        return _with_configs(moment, zookeeper, topics)
    except ReplayError as error:
        return structs.replace(moment, configs_unknown=f"{_NOT_IN_LOG}, and {error}")


def _access_of(session: SessionStatus | None) -> ZooKeeperAccess:
    """The daemon's ZooKeeper, without TLS and login. Raises ReplayError if it is not known, or the
    daemon cannot reach it either."""
    if session is None or not session.is_connected:
        raise ReplayError("the daemon has no connection to ZooKeeper")
    if not session.connect:
        raise ReplayError("this daemon does not report its zookeeper.connect: give --config")
    return ZooKeeperAccess(parse_connect_string(session.connect), PLAIN)


def _with_configs(
    moment: ClusterReading, access: ZooKeeperAccess, topics: Collection[str]
) -> ClusterReading:
    """A moment with the configurations of its topics, and the brokers. Raises ReplayError."""
    names = [one.name for one in moment.cluster.topics if not topics or one.name in topics]
    connect, security = access
    view = asyncio.run(live_brokers_and_configs(connect, names, security))
    return structs.replace(
        moment,
        cluster=with_configs(moment.cluster, view),
        brokers=registered_brokers(view),
        configs_unknown="",
    )


def _connection_problem(found: DaemonStatus) -> str:
    """A clause about a daemon that decides nothing; "" if it is connected."""
    session = found.zookeeper
    if session is None or session.is_connected:
        return ""
    return f"The daemon has no connection to ZooKeeper ({session.fault}) and decides nothing"


def from_zookeeper(
    access: ZooKeeperAccess,
    topics: Collection[str],
    registrations: RegistrationProbes,
    *,
    waits: bool,
) -> ClusterReading:
    """Now. `waits`: until it is clear whether a registration is stuck. Raises ReplayError if
    ZooKeeper is not reachable, or there is no Kafka cluster or topic."""
    connect, security = access
    while True:
        view = asyncio.run(live_znodes(connect, topics, security))
        cluster = cluster_of(view, 0, iso_time(time.time_ns()))
        brokers = registered_brokers(view)
        stuck, again_s = registrations.probe(
            cluster, brokers, owners_of(view, brokers), time.monotonic()
        )
        if again_s is None or not waits:
            break
        text = "a registration may be stuck, or a broker has just ended: probes again in"
        typer.echo(f"refold health: {text} {again_s:.0f} s", err=True)
        time.sleep(again_s)
    cluster = cluster.with_stuck(stuck)
    problem = " ".join(filter(None, [*stuck_registrations(cluster), later_epochs(cluster)]))
    without_address = registrations.without_address(cluster, brokers)
    return ClusterReading(
        shown(connect), cluster, problem, brokers, without_address=without_address
    )
