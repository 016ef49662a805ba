"""Watches the znodes of a Kafka cluster over one session, which writes nothing.

Each znode has a watch. A change is read as soon as its watch fires, so a znode that changes twice
within a moment may be read only once: the version shows it.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final

from controller.core import znodes
from controller.core.commands import CommandId, ReadChildren, ReadStats, ReadZnodes
from controller.core.events import (
    ChildrenRead,
    Event,
    SessionConnected,
    SessionDisconnected,
    SessionExpired,
    WatchFired,
    ZnodesRead,
)
from controller.core.operations import NO_NODE, OK
from controller.zookeeper.connection import (
    PLAIN,
    ConnectionStatus,
    ZooKeeperConnection,
    ZooKeeperSecurity,
)
from controller.zookeeper.observations import (
    Observation,
    WatchBegun,
    WatchComplete,
    WatchLost,
    WatchResumed,
    ZnodeGone,
    ZnodeSeen,
)
from controller.zookeeper.servers import ConnectString

ROOTS: Final = (
    znodes.BROKERS,
    znodes.CONFIGS,
    znodes.ADMIN,
    znodes.CLUSTER,
    znodes.CONTROLLER,
    znodes.CONTROLLER_EPOCH,
    znodes.ISR_CHANGES,
    znodes.LOG_DIR_EVENTS,
    znodes.FEATURE,
    znodes.PRODUCER_IDS,
)
"""Everything of a cluster is in or below these znodes."""
_PARENTS_OF_LEAVES: Final = (
    znodes.BROKER_IDS,
    znodes.DELETE_TOPICS,
    znodes.ISR_CHANGES,
    znodes.LOG_DIR_EVENTS,
    znodes.CONFIG_CHANGES,
    znodes.TOPIC_CONFIGS,
    znodes.BROKER_CONFIGS,
    znodes.CLUSTER,
)
_LEAVES: Final = (
    znodes.CONTROLLER,
    znodes.CONTROLLER_EPOCH,
    znodes.FEATURE,
    znodes.PRODUCER_IDS,
    znodes.REASSIGN_PARTITIONS,
    znodes.PREFERRED_ELECTION,
)
_LEFT_OUT: Final = (
    znodes.USER_CONFIGS,
    znodes.CLIENT_CONFIGS,
    znodes.IP_CONFIGS,
    znodes.BROKER_SEQUENCE,
)
"""Nothing that a controller decides by; users' credentials are among them."""


Observe = Callable[[Observation], None]
OnEvent = Callable[[Event], None]


class ClusterWatch:
    """Reports the cluster's znodes and their changes to `observe`, in the order of the session."""

    def __init__(
        self,
        connect: ConnectString,
        timeout_ms: int,
        observe: Observe,
        security: ZooKeeperSecurity = PLAIN,
        on_event: OnEvent = lambda _: None,
    ) -> None:
        """`on_event` is called with each event of the connection, before it is observed."""
        self._observe = observe
        self._forward = on_event
        self._connection = ZooKeeperConnection(
            connect, self._on_event, session_timeout_ms=timeout_ms, security=security
        )
        self._asked = 0
        self._reading: dict[CommandId, tuple[str, ...]] = {}
        self._listing: dict[CommandId, str] = {}
        self._known: set[str] = set()
        self._is_complete = False

    async def run(self, stopped: asyncio.Event) -> None:
        """Watch until `stopped` is set, and then close the session."""
        running = asyncio.create_task(self._connection.run())
        await stopped.wait()
        await self._connection.close()
        await running

    @property
    def status(self) -> ConnectionStatus:
        """The state of the session now."""
        return self._connection.status

    def _on_event(self, event: Event, _channel: str) -> None:
        self._forward(event)
        match event:
            case SessionConnected(session_id=session, server=server, renewed=renewed):
                if renewed:
                    self._observe(WatchResumed())
                else:
                    self._begin(session, server)
            case SessionDisconnected(cause=cause):
                self._lose(cause)
            case SessionExpired():
                self._lose("the session expired")
            case ZnodesRead():
                self._znodes_read(event)
            case ChildrenRead(command=command, error=error, children=children):
                path = self._listing.pop(command, None)
                if path is not None and error == OK:
                    names = (f"{path}/{name}" for name in children)
                    self._submit_read(one for one in names if one not in self._known)
            case WatchFired(path=path, change=change, zxid=zxid):
                self._znode_changed(path, change, zxid)
            case _:
                pass
        self._complete_if_done()

    def _lose(self, cause: str) -> None:
        self._observe(WatchLost(cause, _now_ms() - (self.status.heard_ms_ago or 0)))

    def _begin(self, session: int, server: str) -> None:
        self._reading.clear()
        self._listing.clear()
        self._known.clear()
        self._is_complete = False
        self._observe(WatchBegun(session, server))
        self._await_creation(ROOTS)
        self._submit_read(ROOTS)

    def _znode_changed(self, path: str, change: str, zxid: int) -> None:
        if change == "children":
            self._list(path)
        elif change == "deleted":
            self._known.discard(path)
            self._observe(ZnodeGone(_now_ms(), path, zxid))
            if path in ROOTS:
                self._await_creation((path,))
                self._submit_read((path,))
        else:
            self._submit_read((path,))

    def _await_creation(self, paths: tuple[str, ...]) -> None:
        self._connection.submit(self._next_id(), ReadStats(paths, watch=True))

    def _submit_read(self, paths: Iterable[str]) -> None:
        wanted = tuple(one for one in paths if one not in _LEFT_OUT)
        if wanted:
            command = self._next_id()
            self._reading[command] = wanted
            self._known.update(wanted)
            self._connection.submit(command, ReadZnodes(wanted, watch=True))

    def _list(self, path: str) -> None:
        command = self._next_id()
        self._listing[command] = path
        self._connection.submit(command, ReadChildren(path, watch=True))

    def _znodes_read(self, event: ZnodesRead) -> None:
        paths = self._reading.get(event.command)
        if paths is None:
            return
        now_ms = _now_ms()
        for place, error in enumerate(event.errors):
            path = paths[event.offset + place]
            if error != OK:
                if error == NO_NODE:
                    self._known.discard(path)
                continue
            data, version = event.data[place] or b"", event.versions[place]
            zxids = event.czxids[place], event.mzxids[place]
            self._observe(ZnodeSeen(now_ms, path, data, version, *zxids, event.owners[place]))
            if _may_have_children(path):
                self._list(path)
        if event.offset + len(event.errors) >= len(paths):
            del self._reading[event.command]

    def _complete_if_done(self) -> None:
        is_done = bool(self._known) and not self._reading and not self._listing
        if is_done and not self._is_complete:
            self._is_complete = True
            self._observe(WatchComplete())

    def _next_id(self) -> CommandId:
        self._asked += 1
        return CommandId(self._asked, 0)


def _may_have_children(path: str) -> bool:
    parent = path.rpartition("/")[0]
    return path not in _LEAVES and parent not in _PARENTS_OF_LEAVES and not path.endswith("/state")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
