"""`refold run`: checks the cluster, then runs the daemon with its log, ZooKeeper session and
channels."""

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import msgspec

from controller.api.endpoint import ApiEndpoint
from controller.api.errors import CannotListen
from controller.api.listening import BoundListener, listen
from controller.brokers.channel import always
from controller.brokers.channels import BrokerChannels
from controller.core.events import SessionExpired
from controller.core.fold import Fold
from controller.core.metrics_observer import Sample
from controller.daemon.address_rates import AddressRateReader
from controller.daemon.cluster_metadata import MetadataReader
from controller.daemon.connection_limits import ConnectionLimitReader
from controller.daemon.connection_metrics import connection_samples
from controller.daemon.daemon import Daemon, Inbox
from controller.daemon.errors import DaemonError, texts_of
from controller.daemon.garbage import prepare_for_many_objects
from controller.daemon.log_metrics import DAEMON_METRICS, log_samples
from controller.daemon.metrics_endpoint import Probes, serving_metrics
from controller.daemon.reloading import SettingsReloader
from controller.daemon.service_manager import ServiceManager
from controller.daemon.session_reads import SessionReads
from controller.daemon.standby_list import StandbyList
from controller.daemon.status import RunningParts, StatusSource
from controller.daemon.status_socket import StatusSocket
from controller.daemon.zookeeper_silence import report_silence
from controller.event_log.housekeeping import Housekeeping, Retention
from controller.event_log.mirror_process import MirrorTask
from controller.event_log.mirror_supervisor import mirrored
from controller.fingerprint import code_version, core_fingerprint
from controller.operator.errors import StartRefused
from controller.operator.first_reply import FirstReply
from controller.operator.probes import probe_brokers, probe_zookeeper
from controller.operator.start_checks import (
    check_authorizer,
    check_broker_settings,
    check_policies,
    check_start,
    may_be_last_run,
    require_no_error,
    with_brokers_min_insync_replicas,
)
from controller.operator.status import BrokerStatus, ZooKeeperStatus
from controller.settings.settings import Settings, SettingSources
from controller.zookeeper.connection import ZooKeeperConnection
from controller.zookeeper.session import SessionSettings
from controller.zookeeper.session_channel import session_channel
from eventstore.errors import LogError
from eventstore.folders import private_folder, run_folder
from eventstore.mirror.progress import TopicLocation
from eventstore.records import Header
from eventstore.writer import LogWriter

logger = logging.getLogger(__name__)

_OWN_SESSION_POLL_SECONDS = 0.5
_OWN_SESSION_TIMEOUTS = 1.5
"""ZooKeeper ends sessions at multiples of its tickTime, so up to a tick after their timeout. The
shortest timeout that it allows is two ticks by default."""


class ManagementInterface:
    """The outputs of this process, from its start on: the status, the probes, the service
    manager."""

    def __init__(self, settings: Settings, sources: SettingSources) -> None:
        self.status = StatusSource(settings.broker_id, str(settings.zookeeper))
        self.probes = Probes()
        self.probes.unready = self._unready
        self.service_manager = ServiceManager()
        self.reloader = SettingsReloader(sources, self.service_manager)

    def line(self) -> str:
        """The role, for `systemctl status`."""
        now = self.status.status()
        return f"{now.role}, term {now.term}" if now.term else now.role

    def _unready(self) -> str:
        """Why the daemon could not take or keep the role now; empty if it could."""
        now = self.status.status()
        if self.status.parts is None or now.role == "stopping":
            return now.role
        if now.zookeeper is None or not now.zookeeper.is_connected:
            return "there is no connection to ZooKeeper"
        return "" if self.status.is_prepared else "the standby reads the cluster"


async def run(settings: Settings, sources: SettingSources, snapshot_command: Sequence[str]) -> None:
    """Run the controller, or wait for the role, until SIGTERM, SIGINT or an error. A second signal
    ends the process at once. `sources` are read again at SIGHUP. `snapshot_command` makes the
    snapshots of a log, see Housekeeping.

    Raises StartRefused before anything was changed, DaemonError if the controller gave up, LogError
    if the log could not be closed.
    """
    management = ManagementInterface(settings, sources)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, management.reloader.reload)
    document = management.status.document
    with (
        _log_dir(settings),
        StatusSocket(settings.log_dir, settings.status_socket, document) as socket,
        serving_metrics(settings.metrics_address, DAEMON_METRICS, management.probes),
    ):
        await socket.open()
        await _start_and_run_daemon(settings, snapshot_command, management)


@contextmanager
def _log_dir(settings: Settings) -> Iterator[None]:
    """The folder for logs and the status socket. A daemon that does not start leaves no folder.
    Raises StartRefused."""
    with ExitStack() as stack:
        try:
            stack.enter_context(private_folder(settings.log_dir))
        except LogError as error:
            raise StartRefused([f"cannot create an event log: {error}"]) from None
        yield


async def _start_and_run_daemon(
    settings: Settings,
    snapshot_command: Sequence[str],
    management: ManagementInterface,
) -> None:
    found: _StartConditions | None = None
    with anyio.CancelScope() as starting:
        _on_signal(lambda _: starting.cancel())
        found = await _check_start(settings, management.status)
    if found is None or starting.cancel_called:
        logger.info("stopped by a signal before the start; nothing was changed")
        return
    settings, cluster_id = found.settings, found.cluster_id
    folder = run_folder(settings.log_dir, time.time_ns())
    try:
        listeners = listen(settings.listeners, settings.security.endpoint)
    except CannotListen as error:
        raise StartRefused([f"{error}; {error.ADVICE}"]) from None
    try:
        log = LogWriter.create(
            folder, _header(settings, cluster_id), segment_bytes=settings.segment_bytes
        )
    except LogError as error:
        raise StartRefused([f"cannot create an event log: {error}"]) from None
    prepare_for_many_objects()
    async with mirrored(_mirror(settings)):
        with log:
            fields = {"log": str(folder), "cluster": cluster_id, "broker_id": settings.broker_id}
            logger.info("refold %s starts", code_version(), extra={"fields": fields})
            reason = await _run_daemon(found, log, listeners, snapshot_command, management)
    if reason:
        raise DaemonError(reason)
    logger.info("stopped cleanly", extra={"fields": {"log": str(folder)}})


def _mirror(settings: Settings) -> MirrorTask | None:
    if settings.mirror_servers is None:
        return None
    config = settings.mirror_client_config
    return MirrorTask(
        str(settings.log_dir),
        settings.mirror_topic,
        settings.mirror_servers,
        str(config) if config is not None else None,
    )


class _StartConditions(NamedTuple):
    """The findings of the start. `settings` include the values that are taken from the brokers.
    `ended_session` is the session of the previous run, if the start has waited for its end; 0 for
    none."""

    settings: Settings
    cluster_id: str
    ended_session: int


async def _check_start(settings: Settings, source: StatusSource) -> _StartConditions:
    """Check that the daemon may start. Raises StartRefused."""
    status = await FirstReply(settings, "the daemon").status()
    ended_session = 0
    if may_be_last_run(settings, status):
        source.role_at_start = "waiting for the end of its previous session"
        ended_session = _controller_session(status)
        status = await _after_last_run(settings, status)
    source.role_at_start = "checking the cluster"
    results = check_start(settings, status)
    brokers = status.cluster.brokers if status.cluster is not None else ()
    found: Sequence[BrokerStatus] = ()
    if not any(one.level == "error" for one in results):
        found = await probe_brokers(settings, brokers)
        results += [
            *check_policies(found),
            *check_authorizer(settings, found),
            *check_broker_settings(settings, found),
        ]
    require_no_error(results)
    for one in results:
        if one.level == "warning":
            logger.warning("%s", one.line)
    used = with_brokers_min_insync_replicas(settings, found)
    return _StartConditions(used, _cluster_id(status), ended_session)


async def _after_last_run(settings: Settings, status: ZooKeeperStatus) -> ZooKeeperStatus:
    """After a kill and restart: wait until the session of the previous run has expired."""
    wait_s = settings.session_timeout_ms / 1000 * _OWN_SESSION_TIMEOUTS
    logger.info(
        "/controller holds this daemon's id %d: waiting up to %g s for the session of "
        "its previous run to expire",
        settings.broker_id,
        wait_s,
    )
    deadline = time.monotonic() + wait_s
    while may_be_last_run(settings, status) and time.monotonic() < deadline:
        await anyio.sleep(_OWN_SESSION_POLL_SECONDS)
        status = await probe_zookeeper(settings)
    return status


def _controller_session(status: ZooKeeperStatus) -> int:
    """The session that owns /controller; 0 for none."""
    holder = status.cluster.controller if status.cluster is not None else None
    return holder.session_id if holder is not None else 0


def _cluster_id(status: ZooKeeperStatus) -> str:
    # The checks refuse a cluster without an id.
    assert status.cluster is not None
    assert status.cluster.cluster_id is not None
    return status.cluster.cluster_id


def _header(settings: Settings, cluster_id: str) -> Header:
    return Header(
        kind="recorded",
        core_fingerprint=core_fingerprint(),
        code_version=code_version(),
        configuration=msgspec.to_builtins(settings.configuration()),
        cluster_id=cluster_id,
        created_ns=time.time_ns(),
    )


async def _run_daemon(
    found: _StartConditions,
    log: LogWriter,
    listeners: tuple[BoundListener, ...],
    snapshot_command: Sequence[str],
    management: ManagementInterface,
) -> str:
    """Run the daemon; return the reason why it gave up, empty for none. Raises DaemonError."""
    settings, cluster_id, ended_session = found
    inbox = _inbox(ended_session)
    reads = SessionReads(lambda *read: zookeeper.submit(*read), inbox.put)
    fold = Fold(settings.configuration())
    endpoint = _endpoint(settings, listeners, inbox, reads, MetadataReader(fold, cluster_id))
    address_rates = AddressRateReader(reads, endpoint.set_address_rates)
    limit_connections = endpoint.set_connection_limits
    connection_limits = ConnectionLimitReader(reads, settings.broker_id, limit_connections)
    zookeeper = ZooKeeperConnection(
        settings.zookeeper,
        reads.receive,
        settings=_session_settings(settings),
        security=settings.security.zookeeper,
    )
    channels = BrokerChannels(
        inbox.put,
        client_id=str(settings.broker_id),
        socket_timeout_ms=settings.socket_timeout_ms,
        # Another daemon may have the role when this process wakes up after it was suspended.
        permit=zookeeper.until_confirmed if settings.standby else always,
        security=settings.security.brokers,
    )
    servers = settings.mirror_servers
    mirror = TopicLocation(settings.mirror_topic, servers) if servers is not None else None
    limits = Retention(settings.retention_bytes, settings.retention_ms, mirror)
    housekeeping = Housekeeping(Path(log.folder), limits, snapshot_command)
    daemon = Daemon(
        fold,
        log,
        inbox,
        zookeeper,
        channels,
        endpoint,
        housekeeping,
        settings.session_timeout_ms,
    )
    standbys = StandbyList(settings, management.status.status())
    management.status.parts = RunningParts(
        fold, inbox, daemon.progress, log, lambda: zookeeper.status, standbys
    )

    def shut_down(received: str) -> None:
        management.service_manager.stopping(f"stopping: {received}")
        daemon.shut_down(received)

    _on_signal(shut_down)

    def samples() -> Iterable[Sample]:
        yield from daemon.metrics.samples(time.monotonic_ns())
        lag_s = management.status.status().event_lag_ms / 1000
        yield from connection_samples(endpoint.connections.by_listener())
        yield from log_samples(daemon.append_times, log, mirror, lag_s)

    management.probes.samples = samples
    more = [standbys.keep] if settings.standby else []
    more += [partial(report_silence, lambda: zookeeper.status)]
    more += [address_rates.keep, connection_limits.keep]
    try:
        return await _until_ended(daemon, housekeeping, settings, management, more)
    except* (DaemonError, LogError) as faults:
        raise DaemonError("; ".join(texts_of(faults))) from None


def _inbox(ended_session: int) -> Inbox:
    """The inbox of a new log, which begins with the end of the previous run's session, if the start
    has waited for that."""
    inbox = Inbox()
    if ended_session:
        inbox.put(SessionExpired(ended_session), session_channel(ended_session))
    return inbox


async def _until_ended(
    daemon: Daemon,
    housekeeping: Housekeeping,
    settings: Settings,
    management: ManagementInterface,
    more: Iterable[Callable[[], Coroutine[Any, Any, None]]],
) -> str:
    """Run the daemon and what runs next to it. Returns the reason as `Daemon.run`."""
    daemon.notices.per_minute_max = settings.messages_per_minute
    async with anyio.create_task_group() as tasks:

        def apply(changed: Settings) -> None:
            daemon.notices.per_minute_max = changed.messages_per_minute
            limits = (changed.retention_bytes, changed.retention_ms)
            tasks.start_soon(housekeeping.change_limits, *limits)

        tasks.start_soon(housekeeping.apply_retention)
        tasks.start_soon(daemon.notices.keep)
        tasks.start_soon(management.service_manager.keep_alive, management.line)
        for one in more:
            tasks.start_soon(one)
        management.reloader.apply = apply
        management.service_manager.ready()
        try:
            reason = await daemon.run()
        finally:
            management.reloader.apply = None
        tasks.cancel_scope.cancel()
    return reason


def _endpoint(
    settings: Settings,
    listeners: tuple[BoundListener, ...],
    inbox: Inbox,
    reads: SessionReads,
    metadata: MetadataReader,
) -> ApiEndpoint:
    return ApiEndpoint(
        inbox.put,
        listeners,
        broker_id=settings.broker_id,
        limits=settings.limits,
        broker_settings=settings.broker_settings,
        own_configs=settings.config_entries,
        authorization=settings.security.authorization,
        credentials=reads.scram_credential,
        metadata=metadata.read,
        broker_rights=metadata.may_act_as_broker,
    )


def _session_settings(settings: Settings) -> SessionSettings:
    servers = len(settings.zookeeper.servers)
    return SessionSettings(
        timeout_ms=settings.session_timeout_ms,
        connect_timeout_ms=max(settings.session_timeout_ms // servers, 1),
        chroot=settings.zookeeper.chroot,
        flight_requests_max=settings.flight_requests_max,
    )


def _on_signal(act: Callable[[str], None]) -> None:
    """On the first SIGTERM or SIGINT call `act` with the signal's name, instead of any earlier
    handler. A second signal ends the process at once."""
    loop = asyncio.get_running_loop()
    ending = (signal.SIGTERM, signal.SIGINT)

    def end(received: signal.Signals) -> None:
        for one in ending:
            loop.remove_signal_handler(one)
            signal.signal(one, signal.SIG_DFL)
        act(received.name)

    for one in ending:
        loop.add_signal_handler(one, end, one)
