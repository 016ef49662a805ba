"""The state of a ZooKeeper at a zxid: a snapshot and the transactions after it.

A snapshot is fuzzy: it may already include a transaction, or the transaction's znode may be deleted
again. These transactions are skipped, as a starting server does (DataTree.processTxn). The state is
exact from `ZooKeeperState.exact_from` on; before, znodes may be too new. With servers before 3.6, a
znode that was deleted during the snapshot may be missing too early.
"""

from typing import BinaryIO, Self

from msgspec import structs

from replay.stock_clusters.zookeeper_log.snapshot_file import SnapshotReader
from replay.stock_clusters.zookeeper_log.transactions import (
    Check,
    CloseSession,
    Create,
    CreateContainer,
    CreateSession,
    CreateTtl,
    Delete,
    Error,
    Multi,
    Operation,
    SetAcl,
    SetData,
    Transaction,
)
from replay.znode_tree.owners import CONTAINER_OWNER, ttl_owner
from replay.znode_tree.paths import ROOT, is_valid, parent_of
from replay.znode_tree.tree import Refused, Tree, Znode, with_children_changed

_BY_ONE = -1
"""A Create's parent_cversion in logs of 3.3: the previous one plus 1."""


class ZooKeeperState:
    """Znodes and live sessions (time-outs in ms) after transaction `zxid`; empty at first."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.sessions: dict[int, int] = {}
        self.zxid = 0
        self.exact_from = 0

    @property
    def last_ms(self) -> int:
        """The wall clock of the last change of a znode; 0 without znodes."""
        return max((one.mtime for one in self.tree.dump().values()), default=0)

    @classmethod
    def load(cls, stream: BinaryIO, name: str, zxid: int) -> Self:
        """Load a snapshot; `zxid` is the one in the file's name. Raises DamagedSnapshotError."""
        reader = SnapshotReader(stream, name)
        state = cls()
        state.zxid = state.exact_from = zxid
        state.sessions = dict(reader.sessions)
        for path, _, znode in reader.znodes():
            state.tree.put(path, znode)
            # Writes during the snapshot left their zxid here.
            state.exact_from = max(state.exact_from, znode.mzxid, znode.pzxid)
        # A deletion meanwhile may have left no trace, but the server writes its last zxid.
        digest_zxid = 0 if reader.digest is None else reader.digest.zxid
        state.exact_from = max(state.exact_from, digest_zxid, reader.last_zxid or 0)
        return state

    def apply(self, transaction: Transaction) -> None:
        """Apply the operations of a transaction that the state does not include yet."""
        content = transaction.content
        match content:
            case Multi(operations=operations):
                if not content.error:
                    for operation in operations:
                        self._write(operation, transaction)
            case CreateSession(timeout_ms=timeout_ms):
                self.sessions[transaction.session] = timeout_ms
            case CloseSession(paths=paths):
                self._close_session(transaction.session, paths or (), transaction.zxid)
            case _:
                self._write(content, transaction)
        self.zxid = max(self.zxid, transaction.zxid)

    def _write(self, operation: Operation, transaction: Transaction) -> None:
        match operation:
            case SetData(path=path, data=data, version=version):
                znode = self._find(path)
                if znode is not None:
                    self._set_data(path, znode, data or b"", version, transaction)
            case Check() | Error():
                pass
            case Create(is_ephemeral=is_ephemeral):
                self._create(operation, transaction.session if is_ephemeral else 0, transaction)
            case Delete(path=path):
                self._delete(path, transaction.zxid)
            case CreateContainer():
                self._create(operation, CONTAINER_OWNER, transaction)
            case CreateTtl(ttl_ms=ttl_ms):
                self._create(operation, ttl_owner(ttl_ms), transaction)
            case SetAcl(path=path, version=version):
                znode = self._find(path)
                if znode is not None:
                    self.tree.put(path or ROOT, structs.replace(znode, aversion=version))

    def _find(self, path: str) -> Znode | None:
        try:
            return self.tree.get(path)
        except Refused:
            return None

    def _set_data(
        self, path: str, old: Znode, data: bytes, version: int, transaction: Transaction
    ) -> None:
        new = Znode(
            data,
            old.czxid,
            transaction.zxid,
            old.ctime,
            transaction.time_ms,
            version,
            old.creations,
            old.owner,
            old.pzxid,
            old.aversion,
        )
        self.tree.put(path or ROOT, new)

    def _create(
        self, operation: Create | CreateTtl | CreateContainer, owner: int, transaction: Transaction
    ) -> None:
        path, zxid, time_ms = operation.path, transaction.zxid, transaction.time_ms
        parent = self._find_parent(path)
        if parent is None:
            return
        creations = operation.parent_cversion
        if creations == _BY_ONE:
            creations = parent.creations + 1
        # Also if the znode exists: its parent may have been stored before it.
        if creations > parent.creations:
            self._put_parent(path, parent, creations, zxid)
        if self._find(path) is None:
            data = operation.data or b""
            self.tree.put(path, Znode(data, zxid, zxid, time_ms, time_ms, 0, 0, owner, zxid))

    def _delete(self, path: str, zxid: int) -> None:
        parent = self._find_parent(path)
        if parent is None:
            return
        if zxid > parent.pzxid:
            self._put_parent(path, parent, parent.creations, zxid)
        if self._find(path) is not None:
            # Its children belong to a later znode of this name; they will be created again.
            self.tree.remove(path)

    def _find_parent(self, path: str) -> Znode | None:
        """The parent of a znode that can be created or deleted."""
        return self._find(parent_of(path)) if is_valid(path) and path != ROOT else None

    def _put_parent(self, path: str, parent: Znode, creations: int, pzxid: int) -> None:
        self.tree.put(parent_of(path), with_children_changed(parent, creations, pzxid))

    def _close_session(self, session: int, paths: tuple[str, ...], zxid: int) -> None:
        self.sessions.pop(session, None)
        for path in (*paths, *self.tree.ephemerals(session)):
            self._delete(path, zxid)
