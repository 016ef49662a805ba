"""`refold run`: checks, then a daemon with its log, its ZooKeeper session and its channels."""

import asyncio
import gc
import logging
import signal
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import msgspec

from controller.api.endpoint import ApiEndpoint
from controller.api.errors import CannotListen
from controller.api.listening import BoundListener, listen
from controller.brokers.channels import BrokerChannels
from controller.daemon import Daemon, Inbox
from controller.errors import DaemonError
from controller.fingerprint import code_version, core_fingerprint
from controller.housekeeping import Housekeeping, Retention
from controller.mirror_process import Task
from controller.mirroring import mirrored
from controller.operator.cluster import read_zookeeper
from controller.operator.errors import StartRefused
from controller.operator.facts import ZooKeeperFacts
from controller.operator.probes import probe_brokers
from controller.operator.start_checks import check_policies, check_start, may_be_last_run
from controller.settings.settings import Settings
from controller.zookeeper.connection import ZooKeeperConnection
from controller.zookeeper.session import SessionSettings
from eventstore.errors import LogError
from eventstore.folders import run_folder
from eventstore.mirror.progress import Place
from eventstore.records import Header
from eventstore.writer import LogWriter

logger = logging.getLogger(__name__)

_OWN_SESSION_POLL_SECONDS = 0.5
_COLLECT_AFTER_OBJECTS = 50_000
"""Python's 700 costs a fold of 100,000 partitions a tenth of its time (measured); its values are
immutable and make next to no cycles."""


async def run(settings: Settings) -> None:
    """Be the controller, or wait to become it, until SIGTERM, SIGINT or a fault ends that. A second
    signal ends the process at once.

    Raises StartRefused before anything was done, DaemonError when it had to give up, LogError when
    the log could not be closed.
    """
    cluster_id = ""
    with anyio.CancelScope() as starting:
        _on_signal(lambda _: starting.cancel())
        cluster_id = await _may_start(settings)
    if starting.cancel_called:
        logger.info("ended by a signal before the start; nothing was changed")
        return
    folder = run_folder(settings.log_dir, time.time_ns())
    try:
        listeners = listen(settings.listeners)
    except CannotListen as error:
        raise StartRefused([str(error)]) from None
    try:
        log = LogWriter.create(
            folder, _header(settings, cluster_id), segment_bytes=settings.segment_bytes
        )
    except LogError as error:
        raise StartRefused([f"no event log can be made: {error}"]) from None
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER_OBJECTS, 20, 100)
    async with mirrored(_mirror(settings)):
        with log:
            fields = {"log": str(folder), "cluster": cluster_id, "broker_id": settings.broker_id}
            logger.info("refold %s starts", code_version(), extra={"fields": fields})
            reason = await _run_daemon(settings, log, listeners)
    if reason:
        raise DaemonError(reason)
    logger.info("ended in order", extra={"fields": {"log": str(folder)}})


def _mirror(settings: Settings) -> Task | None:
    if settings.mirror_servers is None:
        return None
    config = settings.mirror_client_config
    return Task(
        str(settings.log_dir),
        settings.mirror_topic,
        settings.mirror_servers,
        str(config) if config is not None else None,
    )


async def _may_start(settings: Settings) -> str:
    """The id of the cluster. Raises StartRefused."""
    facts = await read_zookeeper(settings)
    if may_be_last_run(settings, facts):
        facts = await _after_last_run(settings, facts)
    findings = check_start(settings, facts)
    brokers = facts.cluster.brokers if facts.cluster is not None else ()
    if not any(one.level == "error" for one in findings):
        findings += check_policies(await probe_brokers(settings, brokers))
    reasons = [one.line for one in findings if one.level == "error"]
    if reasons:
        raise StartRefused(reasons)
    for one in findings:
        if one.level == "warning":
            logger.warning("%s", one.line)
    return _cluster_id(facts)


async def _after_last_run(settings: Settings, facts: ZooKeeperFacts) -> ZooKeeperFacts:
    """Killed a moment ago and started again: wait until the last run's session is over."""
    wait_s = settings.session_timeout_ms / 1000
    logger.info(
        "/controller has the daemon's id %d: waiting up to %g s for the session of an earlier "
        "run to end",
        settings.broker_id,
        wait_s,
    )
    deadline = time.monotonic() + wait_s
    while may_be_last_run(settings, facts) and time.monotonic() < deadline:
        await anyio.sleep(_OWN_SESSION_POLL_SECONDS)
        facts = await read_zookeeper(settings)
    return facts


def _cluster_id(facts: ZooKeeperFacts) -> str:
    # The checks have refused a cluster without one.
    assert facts.cluster is not None
    assert facts.cluster.cluster_id is not None
    return facts.cluster.cluster_id


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
    settings: Settings, log: LogWriter, listeners: tuple[BoundListener, ...]
) -> str:
    """The reason that the daemon gave up for, empty for none. Raises DaemonError."""
    inbox = Inbox()
    endpoint = ApiEndpoint(
        inbox.put,
        listeners,
        broker_id=settings.broker_id,
        limits=settings.limits,
        broker_settings=settings.broker_settings,
        own_configs=settings.described,
    )
    zookeeper = ZooKeeperConnection(
        settings.zookeeper, inbox.put, settings=_session_settings(settings)
    )
    channels = BrokerChannels(
        inbox.put,
        client_id=str(settings.broker_id),
        socket_timeout_ms=settings.socket_timeout_ms,
    )
    servers = settings.mirror_servers
    mirror = Place(settings.mirror_topic, servers) if servers is not None else None
    limits = Retention(settings.retention_bytes, settings.retention_ms, mirror)
    housekeeping = Housekeeping(Path(log.folder), limits)
    daemon = Daemon(
        settings.configuration(),
        log,
        inbox,
        zookeeper,
        channels,
        endpoint,
        housekeeping,
        settings.session_timeout_ms,
    )
    _on_signal(daemon.shut_down)
    reason = ""
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(housekeeping.apply_retention)
            reason = await daemon.run()
    except* (DaemonError, LogError) as faults:
        raise DaemonError("; ".join(_texts(faults))) from None
    return reason


def _session_settings(settings: Settings) -> SessionSettings:
    servers = len(settings.zookeeper.servers)
    return SessionSettings(
        timeout_ms=settings.session_timeout_ms,
        connect_timeout_ms=max(settings.session_timeout_ms // servers, 1),
        chroot=settings.zookeeper.chroot,
        flight_requests_max=settings.flight_requests_max,
    )


def _on_signal(act: Callable[[str], None]) -> None:
    """The first SIGTERM or SIGINT calls `act` with its name, in the place of what was to be called
    before; a second one ends the process at once."""
    loop = asyncio.get_running_loop()
    ending = (signal.SIGTERM, signal.SIGINT)

    def end(received: signal.Signals) -> None:
        for one in ending:
            loop.remove_signal_handler(one)
            signal.signal(one, signal.SIG_DFL)
        act(received.name)

    for one in ending:
        loop.add_signal_handler(one, end, one)


def _texts(faults: BaseExceptionGroup[BaseException]) -> list[str]:
    texts: list[str] = []
    for one in faults.exceptions:
        texts += _texts(one) if isinstance(one, BaseExceptionGroup) else [str(one)]
    return texts
