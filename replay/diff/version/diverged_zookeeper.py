"""The ZooKeeper of a version that has left the log: the log's znodes, and those that have diverged.

Each command is carried out on a server of replay.world with the znodes that the command is about.
Its changes are kept here until the log has the same content again.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from controller.core import znodes
from controller.core.commands import (
    CommandId,
    ReadChildren,
    SyncZnodes,
    WatchSubtree,
    WriteAtomically,
    WriteZnodes,
    ZooKeeperCommand,
)
from controller.core.events import WatchFired
from controller.core.operations import Delete, WriteOperation
from replay.diff.version.log_znodes import LogZnodes, is_same
from replay.diff.version.recorded_history import watch, znode_of
from replay.subjects import paths_of_command
from replay.world.outcomes import ZooKeeperOutcome, carry_out
from replay.world.watches import Change, ServerWatches
from replay.world.zookeeper import ZooKeeper
from replay.znode_tree.paths import ROOT, name_of, parent_of
from replay.znode_tree.tree import Znode

_ALL: Final = 1 << 30


class DivergedZooKeeper:
    """The state after event `seq` of the log. `session` is the controller's session.

    `unknown` are requested znodes that the log never shows, `early` those that it shows only later.
    """

    def __init__(self, log: LogZnodes, seq: int, session: int, watches: ServerWatches) -> None:
        self.seq = seq
        self.session = session
        self.unknown: dict[str, None] = {}
        self.early: dict[str, None] = {}
        self._log = log
        self._watches = watches
        self._diverged: dict[str, Znode | None] = {}
        self._zxid = 1 << 40

    def has_diverged(self, path: str) -> bool:
        """Whether a znode differs from the log."""
        return path in self._diverged

    def may_differ(self, operation: WriteOperation) -> bool:
        """Whether a write may have another result than in the log: its znode differs from the log,
        or it deletes a znode with children that the log does not have."""
        path = operation.path
        if path in self._diverged:
            return True
        return isinstance(operation, Delete) and any(
            znode is not None and parent_of(child) == path
            for child, znode in self._diverged.items()
        )

    def any_diverged(self, command: ZooKeeperCommand) -> bool:
        """Whether any znode of a command differs from the log."""
        if not self._diverged:
            return False
        if isinstance(command, ReadChildren):
            paths = (command.path, *self._diverged)
            return any(parent_of(path) == command.path for path in paths)
        if isinstance(command, (WriteZnodes, WriteAtomically)) and any(
            map(self.may_differ, command.operations)
        ):
            return True
        return any(path in self._diverged for path in _paths_of(command))

    def find(self, path: str) -> Znode | None:
        """A znode, or None if it does not exist."""
        return (
            self._diverged[path] if path in self._diverged else self._log.znode_at(path, self.seq)
        )

    def children(self, path: str) -> list[str]:
        """The names below a znode, sorted."""
        names = set(self._log.children_at(path, self.seq))
        for child, znode in self._diverged.items():
            if parent_of(child) == path:
                names = names - {name_of(child)} if znode is None else names | {name_of(child)}
        return sorted(names)

    def keep(self, path: str) -> None:
        """Keep the content of a znode although the log changes it next."""
        self._diverged.setdefault(path, self._log.znode_at(path, self.seq))

    def put(self, path: str, znode: Znode) -> None:
        """Set a znode that another client writes differently here than in the log."""
        self._diverged[path] = znode

    def set_from_log(self, path: str) -> None:
        """Give a znode the content of the log again."""
        self._diverged.pop(path, None)

    def rejoin(self, path: str) -> None:
        """End the divergence of a znode if its content is that of the log again."""
        if path in self._diverged and is_same(
            self._diverged[path], self._log.znode_at(path, self.seq)
        ):
            del self._diverged[path]

    def end_session(self) -> None:
        """End the controller's session: remove its ephemeral znodes and watches."""
        self._watches.drop(self.session)
        for path, znode in list(self._diverged.items()):
            if znode is not None and znode.owner == self.session:
                self._diverged[path] = None
                self.rejoin(path)

    def watch(self, command: ZooKeeperCommand) -> None:
        """Set the watches of a command, whether or not it is carried out here."""
        watch(self._watches, self.session, command)

    def carry_out(
        self, id: CommandId, command: ZooKeeperCommand, now_ms: int
    ) -> tuple[list[ZooKeeperOutcome], list[WatchFired]]:
        """Carry out a command. Return its outcomes, and the watches that fire, which are not in the
        log."""
        known = self._znodes_around(command)
        server = ZooKeeper.load(known, self._zxid)
        if not server.is_live(self.session):
            server.create_session(self.session)
        outcomes = carry_out(server, self.session, id, command, now_ms, _ALL)
        self._zxid = server.zxid
        if not isinstance(command, (WriteZnodes, WriteAtomically)):
            return outcomes, []
        after = server.dump()
        changes = _changes_of(command, known, after)
        for path in changes:
            self._diverged[path] = after.get(path)
            self.rejoin(path)
        return outcomes, self._fire_watches(changes)

    def _fire_watches(self, changes: Mapping[str, Change]) -> list[WatchFired]:
        """The watches that fire because znodes change."""
        return [
            fired
            for path, change in changes.items()
            for _, fired in self._watches.fire(change, path, 0)
        ]

    def _znodes_around(self, command: ZooKeeperCommand) -> dict[str, Znode]:
        """The znodes that a command is about, their parents, and the children of deleted znodes."""
        known: dict[str, Znode] = {}
        for path in _paths_of(command):
            self._note(path)
            znode = self.find(path)
            if znode is not None:
                known[path] = znode
            for parent in _parents(path):
                if parent not in known:
                    found = self.find(parent)
                    # A parent that the log never shows is assumed to exist.
                    if found is not None or not self._is_known(parent) or znode is not None:
                        known[parent] = found or znode_of(b"")
        for path in _paths_to_list(command):
            is_listed = isinstance(command, ReadChildren) and self._log.are_children_known(path)
            if is_listed and path not in self._diverged:
                # The log may show the children of a znode, but not the znode itself.
                known.setdefault(path, znode_of(b""))
            for name in self.children(path):
                child = f"{path.rstrip('/')}/{name}"
                known.setdefault(child, self.find(child) or znode_of(b""))
        return known

    def _is_known(self, path: str) -> bool:
        return path in self._diverged or self._log.is_known(path)

    def _note(self, path: str) -> None:
        if path in self._diverged:
            return
        if not self._log.is_known(path) and not self._log.are_children_known(path):
            self.unknown[path] = None
        elif self._log.is_early(path, self.seq):
            self.early[path] = None


def _changes_of(
    command: WriteZnodes | WriteAtomically, before: Mapping[str, Znode], after: Mapping[str, Znode]
) -> dict[str, Change]:
    """The znodes that the writes of a command change, in order, and what happens to each."""
    changes: dict[str, Change] = {}
    for path in dict.fromkeys(one.path for one in command.operations):
        was, now = before.get(path), after.get(path)
        if was is not now and not is_same(was, now):
            changes[path] = "created" if was is None else "deleted" if now is None else "data"
    return changes


def _paths_of(command: ZooKeeperCommand) -> Sequence[str]:
    """The znodes that a command reads, writes or checks."""
    if isinstance(command, (SyncZnodes, WatchSubtree)):
        return ()
    paths = paths_of_command(command)
    is_guarded = isinstance(command, WriteZnodes) and command.epoch_version is not None
    return (*paths, znodes.CONTROLLER_EPOCH) if is_guarded else paths


def _paths_to_list(command: ZooKeeperCommand) -> list[str]:
    match command:
        case ReadChildren(path=path):
            return [path]
        case WriteZnodes(operations=operations) | WriteAtomically(operations=operations):
            return [one.path for one in operations if isinstance(one, Delete)]
        case _:
            return []


def _parents(path: str) -> Iterator[str]:
    while path != ROOT:
        path = parent_of(path)
        yield path
