"""The tree of znodes and the effect of single writes, without sessions, watches and zxids.

A znode is an immutable value. A set of children is shared between copies of the tree until one of
them changes it, so copying a tree copies a few dictionaries, but no znode.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, Self

from msgspec import Struct

from controller.core.operations import (
    BAD_VERSION,
    NO_CHILDREN_FOR_EPHEMERALS,
    NO_NODE,
    NODE_EXISTS,
    NOT_EMPTY,
)
from controller.core.values import ANY_VERSION
from replay.znode_tree.owners import is_session
from replay.znode_tree.paths import ROOT, SPECIAL, has_parent, is_valid, name_of, parent_of

BAD_ARGUMENTS: Final = -8
"""The error for a path that is malformed or cannot be deleted."""


class Refused(Exception):
    """A ZooKeeper server refuses the operation: `code` is the error of its reply."""

    def __init__(self, code: int, path: str) -> None:
        super().__init__(f"ZooKeeper error {code} at {path!r}")
        self.code = code


class Znode(Struct, frozen=True, gc=False):
    """One znode. `creations` counts all children that were ever created; it numbers sequential ones
    and determines the cversion of the Stat. `owner` is the ephemeralOwner (see `owners`)."""

    data: bytes
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    creations: int
    owner: int
    pzxid: int
    aversion: int = 0


class Stat(NamedTuple):
    """ZooKeeper's Stat, with the fields in the order of the protocol; times in milliseconds."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


class Tree:
    """Znodes by path. Each write checks everything first, so a refused write changes nothing."""

    def __init__(self) -> None:
        self._nodes: dict[str, Znode] = {}
        self._children: dict[str, set[str]] = {}
        self._own_children: set[str] = set()
        self._ephemerals: dict[int, dict[str, None]] = {}
        self._journal: list[tuple[str, Znode | None]] | None = None
        for path in SPECIAL:
            self._replace_znode(path, Znode(b"", 0, 0, 0, 0, 0, 0, 0, 0))

    def copy(self) -> Self:
        """A tree that changes independently of this one."""
        copy = self.__class__.__new__(self.__class__)
        copy._nodes = self._nodes.copy()
        copy._children = self._children.copy()
        copy._own_children = set()
        self._own_children = set()
        copy._ephemerals = {owner: paths.copy() for owner, paths in self._ephemerals.items()}
        copy._journal = None
        return copy

    def dump(self) -> dict[str, Znode]:
        """All znodes by path, parents before their children."""
        return dict(sorted(self._nodes.items()))

    def load(self, znodes: Mapping[str, Znode]) -> None:
        """Add znodes unchanged; their parents need not be among them."""
        for path, node in znodes.items():
            self._replace_znode(path, node)

    def put(self, path: str, node: Znode) -> None:
        """Add or replace one znode, unchanged."""
        self._replace_znode(path, node)

    def remove(self, path: str) -> None:
        """Remove an existing znode (not the root) and all znodes below it, whatever its version."""
        paths = [path]
        for one in paths:
            paths += [f"{one}/{name}" for name in self.children(one)]
        for one in reversed(paths):
            self._replace_znode(one, None)

    # Reading

    def get(self, path: str) -> Znode:
        """The znode. Raises Refused (NO_NODE) if it does not exist. Servers also accept "" as the
        root."""
        node = self._nodes.get(path or ROOT)
        if node is None:
            raise Refused(NO_NODE, path)
        return node

    def children(self, path: str) -> tuple[str, ...]:
        """Names of the children of an existing znode, sorted."""
        return tuple(sorted(self._children.get(path or ROOT, ())))

    def ephemerals(self, session: int) -> tuple[str, ...]:
        """Paths of the znodes that live as long as the session, sorted."""
        return tuple(sorted(self._ephemerals.get(session, ())))

    def stat(self, path: str) -> Stat:
        """The Stat of a znode as a server returns it. Raises Refused (NO_NODE) if the znode does
        not exist."""
        node = self.get(path)
        count = len(self._children.get(path or ROOT, ()))
        # Servers store creations and report changes: creations and deletions.
        return Stat(
            node.czxid,
            node.mzxid,
            node.ctime,
            node.mtime,
            node.version,
            node.creations * 2 - count,
            node.aversion,
            node.owner if is_session(node.owner) else 0,
            len(node.data),
            count,
            node.pzxid,
        )

    # Writing: the checks are in the order of ZooKeeper's PrepRequestProcessor

    def create(
        self, path: str, data: bytes, owner: int, sequential: bool, zxid: int, now_ms: int
    ) -> str:
        """Create a znode and return its path, with a number appended if it is `sequential`."""
        if not has_parent(path):
            raise Refused(BAD_ARGUMENTS, path)
        parent_path = parent_of(path)
        parent = self.get(parent_path)
        if sequential:
            path = f"{path}{parent.creations:010d}"
        if not is_valid(path):
            raise Refused(BAD_ARGUMENTS, path)
        if path in self._nodes:
            raise Refused(NODE_EXISTS, path)
        if is_session(parent.owner):
            raise Refused(NO_CHILDREN_FOR_EPHEMERALS, path)
        self._replace_znode(parent_path, with_children_changed(parent, parent.creations + 1, zxid))
        self._replace_znode(path, Znode(data, zxid, zxid, now_ms, now_ms, 0, 0, owner, zxid))
        return path

    def set_data(self, path: str, data: bytes, version: int, zxid: int, now_ms: int) -> None:
        """Set the data of a znode that has `version`."""
        old = self.check(path, version)
        new = Znode(
            data,
            old.czxid,
            zxid,
            old.ctime,
            now_ms,
            old.version + 1,
            old.creations,
            old.owner,
            old.pzxid,
            old.aversion,
        )
        self._replace_znode(path, new)

    def delete(self, path: str, version: int, zxid: int) -> None:
        """Delete a znode that has `version` and no children."""
        if not has_parent(path) or path in SPECIAL:
            raise Refused(BAD_ARGUMENTS, path)
        parent_path = parent_of(path)
        parent = self.get(parent_path)
        _check_version(self.get(path), version, path)
        if path in self._children:
            raise Refused(NOT_EMPTY, path)
        self._replace_znode(parent_path, with_children_changed(parent, parent.creations, zxid))
        self._replace_znode(path, None)

    def check(self, path: str, version: int) -> Znode:
        """The znode if it has `version`."""
        if not is_valid(path):
            raise Refused(BAD_ARGUMENTS, path)
        node = self.get(path)
        _check_version(node, version, path)
        return node

    # Transactions

    def begin(self) -> None:
        """Record all changes for `roll_back`, until `commit`."""
        self._journal = []

    def commit(self) -> list[tuple[str, Znode | None]]:
        """Keep the changes since `begin`. Return each changed path with its previous znode."""
        journal, self._journal = self._journal, None
        return journal or []

    def roll_back(self) -> None:
        """Undo all changes since `begin`."""
        journal, self._journal = self._journal, None
        assert journal is not None, "roll_back without begin"
        for path, before in reversed(journal):
            self._replace_znode(path, before)

    def _replace_znode(self, path: str, node: Znode | None) -> None:
        before = self._nodes.get(path)
        if self._journal is not None:
            self._journal.append((path, before))
        if node is None:
            assert before is not None, f"{path} does not exist"
            del self._nodes[path]
            self._unlink(path, before.owner)
        else:
            self._nodes[path] = node
            if before is None:
                self._link(path, node.owner)

    def _link(self, path: str, owner: int) -> None:
        if path != ROOT:
            self._siblings(parent_of(path)).add(name_of(path))
        if is_session(owner):
            self._ephemerals.setdefault(owner, {})[path] = None

    def _unlink(self, path: str, owner: int) -> None:
        parent = parent_of(path)
        siblings = self._siblings(parent)
        siblings.remove(name_of(path))
        if not siblings:
            del self._children[parent]
        if is_session(owner):
            del self._ephemerals[owner][path]
            if not self._ephemerals[owner]:
                del self._ephemerals[owner]

    def _siblings(self, parent: str) -> set[str]:
        """The children of `parent` as a set that no other copy of the tree shares."""
        children = self._children.get(parent)
        if children is None or parent not in self._own_children:
            children = set(children or ())
            self._children[parent] = children
            self._own_children.add(parent)
        return children


def with_children_changed(parent: Znode, creations: int, zxid: int) -> Znode:
    """A znode after transaction `zxid` has changed its children."""
    return Znode(
        parent.data,
        parent.czxid,
        parent.mzxid,
        parent.ctime,
        parent.mtime,
        parent.version,
        creations,
        parent.owner,
        zxid,
        parent.aversion,
    )


def _check_version(node: Znode, version: int, path: str) -> None:
    if version not in (ANY_VERSION, node.version):
        raise Refused(BAD_VERSION, path)
