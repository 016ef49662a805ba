"""The ZooKeeper of a version that goes its own way: the log's, and what has become different.

Each command is carried out on a server of replay.world that holds the znodes which the command is
about; what it changes is kept here, until it is as in the log again.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from controller.core import znodes
from controller.core.commands import (
    CommandId,
    ReadChildren,
    ReadStats,
    ReadZnodes,
    SyncZnodes,
    WriteAtomically,
    WriteZnodes,
    ZooKeeperCommand,
)
from controller.core.events import WatchFired
from controller.core.operations import Delete
from replay.diff.version.log_znodes import LogZnodes, is_like
from replay.diff.version.recorded_history import watch, znode_of
from replay.world.outcomes import ZooKeeperOutcome, carry_out
from replay.world.paths import ROOT, name_of, parent_of
from replay.world.tree import Znode
from replay.world.watches import Change, Watches
from replay.world.zookeeper import ZooKeeper

_ALL: Final = 1 << 30


class DivergedZooKeeper:
    """`seq` is the event of the log up to which the log's ZooKeeper counts; `session` the
    controller's. `unknown` are znodes that were asked for and that the log never saw."""

    def __init__(self, log: LogZnodes, seq: int, session: int, watches: Watches) -> None:
        self.seq = seq
        self.session = session
        self.unknown: dict[str, None] = {}
        self.early: dict[str, None] = {}
        self._log = log
        self._watches = watches
        self._own: dict[str, Znode | None] = {}
        self._zxid = 1 << 40

    def has_own(self, path: str) -> bool:
        """Whether a znode is otherwise than in the log."""
        return path in self._own

    def has_own_among(self, command: ZooKeeperCommand) -> bool:
        """Whether any znode that a command is about is."""
        if not self._own:
            return False
        if isinstance(command, ReadChildren):
            return any(parent_of(path) == command.path for path in (command.path, *self._own))
        return any(path in self._own for path in paths_of(command))

    def find(self, path: str) -> Znode | None:
        """A znode, None if it is not there."""
        return self._own[path] if path in self._own else self._log.at(path, self.seq)

    def children(self, path: str) -> list[str]:
        """The names below a znode, sorted."""
        names = set(self._log.children_at(path, self.seq))
        for own, znode in self._own.items():
            if parent_of(own) == path:
                names = names - {name_of(own)} if znode is None else names | {name_of(own)}
        return sorted(names)

    def keep(self, path: str) -> None:
        """What the log does to a znode next is not done here."""
        self._own.setdefault(path, self._log.at(path, self.seq))

    def put(self, path: str, znode: Znode) -> None:
        """Somebody else wrote it here otherwise than in the log."""
        self._own[path] = znode

    def take_from_log(self, path: str) -> None:
        """What the log shows counts from now on."""
        self._own.pop(path, None)

    def settle(self, path: str) -> None:
        """Forget that a znode is different, if it is not any more."""
        if path in self._own and is_like(self._own[path], self._log.at(path, self.seq)):
            del self._own[path]

    def end_session(self) -> None:
        """The controller's session is over: what lived as long as it is gone."""
        self._watches.drop(self.session)
        for path, znode in list(self._own.items()):
            if znode is not None and znode.owner == self.session:
                self._own[path] = None
                self.settle(path)

    def watch(self, command: ZooKeeperCommand) -> None:
        """Take in what a command asks to be told of, whoever answers it."""
        watch(self._watches, self.session, command)

    def carry_out(
        self, id: CommandId, command: ZooKeeperCommand, now_ms: int
    ) -> tuple[list[ZooKeeperOutcome], list[WatchFired]]:
        """Do what is asked; its outcomes, and the watches that fire: the log does not tell of
        them, because it has not made these changes."""
        known = self._known(command)
        server = ZooKeeper.load(known, self._zxid)
        if not server.is_live(self.session):
            server.create_session(self.session)
        outcomes = carry_out(server, self.session, id, command, now_ms, _ALL)
        self._zxid = server.zxid
        if not isinstance(command, (WriteZnodes, WriteAtomically)):
            return outcomes, []
        return outcomes, self._fired(known, server.dump(), command)

    def _fired(
        self,
        before: dict[str, Znode],
        after: dict[str, Znode],
        command: WriteZnodes | WriteAtomically,
    ) -> list[WatchFired]:
        told: list[WatchFired] = []
        for path in dict.fromkeys(one.path for one in command.operations):
            was, now = before.get(path), after.get(path)
            if was is now or is_like(was, now):
                continue
            self._own[path] = now
            self.settle(path)
            change: Change = "created" if was is None else "deleted" if now is None else "data"
            told += [fired for _, fired in self._watches.fire(change, path, 0)]
        return told

    def _known(self, command: ZooKeeperCommand) -> dict[str, Znode]:
        """The znodes that a command is about, what is above them, and below those to delete."""
        known: dict[str, Znode] = {}
        for path in paths_of(command):
            self._note(path)
            znode = self.find(path)
            if znode is not None:
                known[path] = znode
            for parent in _parents(path):
                if parent not in known:
                    found = self.find(parent)
                    # What was never read is there, if anything below it is asked for.
                    is_there = found is not None or not self._is_told(parent) or znode is not None
                    if is_there:
                        known[parent] = found or znode_of(b"")
        for path in _listed(command):
            is_listed = isinstance(command, ReadChildren) and self._log.are_children_known(path)
            if is_listed and path not in self._own:
                # A znode whose children were listed need not have been read itself.
                known.setdefault(path, znode_of(b""))
            for name in self.children(path):
                child = f"{path.rstrip('/')}/{name}"
                known.setdefault(child, self.find(child) or znode_of(b""))
        return known

    def _is_told(self, path: str) -> bool:
        return path in self._own or self._log.is_known(path)

    def _note(self, path: str) -> None:
        if path in self._own:
            return
        if not self._log.is_known(path) and not self._log.are_children_known(path):
            self.unknown[path] = None
        elif self._log.is_early(path, self.seq):
            self.early[path] = None


def paths_of(command: ZooKeeperCommand) -> Iterable[str]:
    """The znodes that a command is about."""
    match command:
        case ReadZnodes(paths=paths) | ReadStats(paths=paths):
            return paths
        case ReadChildren(path=path):
            return (path,)
        case SyncZnodes():
            return ()
        case WriteZnodes(operations=operations, epoch_version=epoch_version):
            paths = tuple(one.path for one in operations)
            return paths if epoch_version is None else (*paths, znodes.CONTROLLER_EPOCH)
        case WriteAtomically(operations=operations):
            return tuple(one.path for one in operations)


def _listed(command: ZooKeeperCommand) -> list[str]:
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
