"""ZooKeeper as a controller of an imported cluster sees it: its reads and its watches.

Paths are Kafka's, without the chroot that the log's paths have.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from controller.core.commands import Issued, ReadChildren, ReadStats, ReadZnodes, SyncZnodes
from controller.core.events import ChildrenRead, ZnodesRead, ZnodesWritten
from controller.core.operations import NO_NODE, OK
from controller.core.znodes import CONTROLLER, REASSIGN_PARTITIONS, partition_of_state
from replay.checkpoint import Checkpointed
from replay.stock_clusters.imports.terms import find_znode
from replay.stock_clusters.zookeeper_log.transactions import (
    CloseSession,
    Create,
    CreateContainer,
    CreateTtl,
    Delete,
    Multi,
    Operation,
    SetData,
    Transaction,
)
from replay.znode_tree.paths import below, parent_of
from replay.znode_tree.tree import Tree, Znode

Read = ReadZnodes | ReadStats | ReadChildren | SyncZnodes
READS: Final = (ReadZnodes, ReadStats, ReadChildren, SyncZnodes)

Change = tuple[str, str]
"""A path and its change: "created", "deleted", "data" or, for a parent, "children"."""

_EARLIER_MAX: Final = 4

Overlay = Mapping[str, Znode | None]
"""Znodes that were different when they were read; None: the znode did not exist."""


class ZnodeView:
    """The znodes of one cluster in a tree, under Kafka's paths."""

    def __init__(self, tree: Tree, chroot: str) -> None:
        self._tree = tree
        self._chroot = chroot
        self._deleted: dict[str, tuple[int, Znode]] = {}
        self._earlier: dict[str, deque[Znode]] = defaultdict(lambda: deque(maxlen=_EARLIER_MAX))

    def find(self, path: str) -> Znode | None:
        """A znode, None if it does not exist."""
        return find_znode(self._tree, self._chroot + path)

    def find_earlier(self, path: str, version: int) -> Znode | None:
        """A partition's state at an earlier version; None if that is too long ago."""
        return next((one for one in self._earlier.get(path, ()) if one.version == version), None)

    def deleted_since(self, zxid: int) -> Overlay:
        """/admin/reassign_partitions before its deletion, if that came after a transaction.

        If a write is refused because the znode is gone, the controller had read it before.
        """
        at, before = self._deleted.get(REASSIGN_PARTITIONS, (0, None))
        return {REASSIGN_PARTITIONS: before} if at > zxid else {}

    def role_of(self, session: int) -> Overlay:
        """/controller before its deletion, if an operator deleted it while a session held it.

        If the session's own deletion is refused, the controller had read the znode before.
        """
        _, before = self._deleted.get(CONTROLLER, (0, None))
        return {} if before is None or before.owner != session else {CONTROLLER: before}

    def children(self, path: str) -> tuple[str, ...]:
        """The names of a znode's children, sorted; empty if the znode does not exist."""
        return self._tree.children(self._chroot + path) if self.find(path) else ()

    def in_kafka(self, path: str) -> str | None:
        """A path of the log as Kafka's path; None if it is outside the cluster's chroot."""
        return below(path, self._chroot)

    def answer(
        self,
        issued: Issued,
        command: Read,
        overlay: Overlay,
        listed: Iterable[str] | None = None,
    ) -> ZnodesRead | ChildrenRead | ZnodesWritten:
        """The outcome of a read now; `listed` are the children that a log line shows."""
        match command:
            case ReadChildren(path=path):
                exists = self._find_as_read(path, overlay) is not None
                names = self.children(path) if listed is None else listed
                return ChildrenRead(
                    issued.id, OK if exists else NO_NODE, sorted(names) if exists else []
                )
            case SyncZnodes():
                return ZnodesWritten(issued.id, 0, [OK], [-1])
            case ReadZnodes(paths=paths) | ReadStats(paths=paths):
                found = [self._find_as_read(path, overlay) for path in paths]
                has_data = isinstance(command, ReadZnodes)
                return ZnodesRead(
                    issued.id,
                    0,
                    [NO_NODE if one is None else OK for one in found],
                    [one.data if one is not None and has_data else None for one in found],
                    [-1 if one is None else one.version for one in found],
                    [-1 if one is None else one.czxid for one in found],
                    [-1 if one is None else one.mzxid for one in found],
                    [-1 if one is None else one.owner for one in found],
                )

    def _find_as_read(self, path: str, overlay: Overlay) -> Znode | None:
        return overlay[path] if path in overlay else self.find(path)

    def changes(self, transaction: Transaction) -> list[Change]:
        """The changes by a transaction; call this before it is applied to the tree."""
        found: list[Change] = []
        content = transaction.content
        if isinstance(content, Delete):
            self._note_deleted(content.path, transaction.zxid)
        if isinstance(content, Multi):
            for one in () if content.error else content.operations:
                found += self._of_operation(one)
        elif isinstance(content, CloseSession):
            for path in self._tree.ephemerals(transaction.session):
                found += self._of_operation(Delete(path))
        else:
            found += self._of_operation(content)  # type: ignore[arg-type]
        return found

    def _note_deleted(self, path: str, zxid: int) -> None:
        known = self.in_kafka(path)
        if known in (CONTROLLER, REASSIGN_PARTITIONS):
            before = self.find(known)
            if before is not None:
                self._deleted[known] = (zxid, before)

    def _of_operation(self, operation: Operation) -> list[Change]:
        found = changes_of_operation(operation, self._chroot)
        for known, _ in found[:1]:
            before = self.find(known) if partition_of_state(known) is not None else None
            if before is not None:
                self._earlier[known].append(before)
        return found


def changes_of_operation(operation: Operation, chroot: str) -> list[Change]:
    """The changes by one operation: that of its znode, then that of the parent."""
    match operation:
        case Create(path=path) | CreateTtl(path=path) | CreateContainer(path=path):
            what = "created"
        case Delete(path=path):
            what = "deleted"
        case SetData(path=path):
            what = "data"
        case _:
            return []
    known = below(path, chroot)
    if known is None:
        return []
    of_parent = [] if what == "data" else [(parent_of(known), "children")]
    return [(known, what), *of_parent]


class ControllerWatches(Checkpointed):
    """The one-shot watches of a controller. It sets a watch again by reading again."""

    STATE = ("_data", "_children")

    def __init__(self) -> None:
        self._data: set[str] = set()
        self._children: set[str] = set()

    def set_for_read(self, command: Read, view: ZnodeView) -> None:
        """Set the watches that a read asks for."""
        match command:
            case ReadChildren(path=path, watch=True):
                self._children.add(path)
            case ReadStats(paths=paths, watch=True):
                self._data.update(paths)
            case ReadZnodes(paths=paths, watch=True):
                self._data.update(one for one in paths if view.find(one) is not None)

    def fire(self, changes: Iterable[Change]) -> list[Change]:
        """The changes that watches report; those watches are removed."""
        reported: list[Change] = []
        for path, what in changes:
            watched = self._children if what == "children" else self._data
            if path in watched:
                watched.discard(path)
                reported.append((path, what))
            elif what == "deleted" and path in self._children:
                self._children.discard(path)
                reported.append((path, what))
        return reported


def paths_of(command: Read) -> Sequence[str]:
    """The znodes that a command reads."""
    match command:
        case ReadChildren(path=path):
            return (path,)
        case ReadZnodes(paths=paths) | ReadStats(paths=paths):
            return paths
    return ()
