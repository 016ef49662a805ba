"""Starts a broker: its folder, its event log, its signals."""

import asyncio
import logging
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import msgspec
from msgspec import Struct

from controller.core.events import Event
from controller.core.operations import OK
from controller.core.outcomes import ZnodeColumns
from controller.daemon.errors import DaemonError, texts_of
from controller.daemon.zookeeper_silence import report_silence
from controller.fingerprint import broker_fingerprint, code_version
from controller.kafka_0_8 import znodes
from controller.kafka_0_8.configuration import BrokerConfiguration
from controller.kafka_0_8_broker.broker import MEANWHILE, RunningBroker
from controller.kafka_0_8_broker.disk import Disk
from controller.kafka_0_8_broker.errors import Broker08Error
from controller.kafka_0_8_broker.inbox import BrokerInbox
from controller.operator.errors import ZooKeeperUnavailable
from controller.operator.zookeeper_client import ZooKeeperClient
from controller.zookeeper.connection import ZooKeeperConnection
from controller.zookeeper.servers import ConnectString
from eventstore.errors import LogError
from eventstore.folders import FolderLock, run_folder
from eventstore.records import Header
from eventstore.writer import LogWriter

logger = logging.getLogger(__name__)

RECORDS: Final = "records"
EVENTS: Final = "events"
"""Folders in the data folder: the records of replicas, and one event log for each run."""
_MS_PER_S: Final = 1000


class Broker08Settings(Struct, frozen=True):
    """The environment of one broker. Only `configuration` affects decisions."""

    configuration: BrokerConfiguration
    zookeeper: ConnectString
    session_timeout_ms: int
    data: Path


async def run_broker(settings: Broker08Settings) -> None:
    """Run a broker until SIGTERM or SIGINT. Raises Broker08Error, DaemonError or LogError."""
    try:
        settings.data.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        text = f"the data folder {settings.data} cannot be created: {error.strerror}"
        raise Broker08Error(f"{text}; use another --data") from None
    lock = FolderLock(settings.data)
    try:
        with anyio.CancelScope() as waiting:
            _on_signals(waiting.cancel)
            await _require_free_id(settings)
        if not waiting.cancelled_caught:
            await _run_with_log(settings)
    finally:
        lock.release()


def _on_signals(stop: Callable[[], None]) -> None:
    for one in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(one, stop)


async def _require_free_id(settings: Broker08Settings) -> None:
    """Refuse an id that is registered at another address, once ZooKeeper answers
    (docs/design-0.8.md#lost-records). Raises Broker08Error."""
    one = settings.configuration
    path = znodes.broker_path(one.broker_id)
    found = await _registration(settings, path)
    address = (found.data[0] or b"").decode("utf-8", "backslashreplace")
    if found.errors[0] == OK and found.owners[0] and address != f"{one.host}:{one.port}":
        raise Broker08Error(
            f"broker id {one.broker_id} is in use: {path} is registered at {address}: stop that "
            "broker, or use another --broker-id; if that broker was killed, try again when its "
            "ZooKeeper session is over"
        )


async def _registration(settings: Broker08Settings, path: str) -> ZnodeColumns:
    """The registration of a broker, once ZooKeeper answers."""
    is_reported = False
    while True:
        try:
            async with ZooKeeperClient(settings.zookeeper, settings.session_timeout_ms) as client:
                found = await client.znodes((path,), may_be_denied=True)
        except ZooKeeperUnavailable as error:
            if not is_reported:
                logger.warning("the broker starts when ZooKeeper answers: %s", error)
            is_reported = True
            await anyio.sleep(settings.configuration.retry_ms / _MS_PER_S)
        else:
            if is_reported:
                logger.info("ZooKeeper answers")
            return found


async def _run_with_log(settings: Broker08Settings) -> None:
    disk = Disk(settings.data / RECORDS)
    folder = run_folder(settings.data / EVENTS, time.time_ns())
    with LogWriter.create(folder, _header(settings)) as log:
        configuration, timeout_ms = settings.configuration, settings.session_timeout_ms
        inbox = BrokerInbox()

        def on_event(event: Event, channel: str) -> None:
            # The session reports outcomes, watches and its own state only.
            inbox.put(event, channel)  # type: ignore[arg-type]

        zookeeper = ZooKeeperConnection(settings.zookeeper, on_event, session_timeout_ms=timeout_ms)
        broker = RunningBroker(configuration, inbox, zookeeper, log, disk, timeout_ms)
        _on_signals(broker.stop)
        fields = {"log": str(folder), "broker_id": configuration.broker_id}
        logger.info("the broker starts", extra={"fields": fields})
        try:
            async with anyio.create_task_group() as tasks:
                silence = partial(report_silence, lambda: zookeeper.status, meanwhile=MEANWHILE)
                tasks.start_soon(silence)
                await broker.run()
                tasks.cancel_scope.cancel()
        except* (DaemonError, LogError, Broker08Error) as faults:
            raise Broker08Error("; ".join(texts_of(faults))) from None
    logger.info("stopped cleanly", extra={"fields": {"log": str(folder)}})


def _header(settings: Broker08Settings) -> Header:
    servers = ",".join(map(str, settings.zookeeper.servers))
    return Header(
        kind="recorded",
        core_fingerprint=broker_fingerprint(),
        code_version=code_version(),
        configuration=msgspec.to_builtins(settings.configuration),
        cluster_id=f"{servers}{settings.zookeeper.chroot}",
        created_ns=time.time_ns(),
    )
