"""The session that is the controller, and since when.

A session becomes the controller with a multi that creates /controller and sets /controller_epoch.
At the start of a log it is the owner of /controller. Its term ends when that znode is deleted: with
its session, or, for a KRaft controller, whose znode is persistent, by a client.
"""

from msgspec import Struct

from controller.core.znodes import (
    BROKER_IDS,
    CONTROLLER,
    CONTROLLER_EPOCH,
    is_broker_id,
    read_controller,
)
from replay.names import controller_name
from replay.parsed_znodes import kraft_controller, parsed_epoch
from replay.stock_clusters.zookeeper_log.transactions import (
    Check,
    CloseSession,
    Content,
    Create,
    Delete,
    Multi,
    SetData,
    Transaction,
)
from replay.znode_tree import paths
from replay.znode_tree.tree import Refused, Tree, Znode

UNKNOWN_BROKER = -1
"""An unknown broker."""
UNKNOWN_SESSION = 0
"""An unknown session, or none: /controller is persistent."""


class Term(Struct, frozen=True):
    """One controller's term. `epoch` is 0 and `broker` is UNKNOWN_BROKER if the znodes cannot be
    read. `version` is the version of /controller_epoch, which guards the term's writes.
    `is_kraft`: `broker` is the id of a KRaft controller."""

    session: int
    epoch: int
    version: int
    broker: int
    is_kraft: bool = False

    @property
    def name(self) -> str:
        """The controller of the term."""
        return controller_name(self.broker, is_kraft=self.is_kraft)


class Terms:
    """Follows the terms of a cluster under a chroot, transaction by transaction."""

    def __init__(self, chroot: str, tree: Tree) -> None:
        """`tree` is the state before the first transaction."""
        self.controller_path = chroot + CONTROLLER
        self.epoch_path = chroot + CONTROLLER_EPOCH
        self.seen = 0
        """The number of terms so far, including the one at the start."""
        self.current: Term | None = None
        self._ids_path = chroot + BROKER_IDS
        self._of_session: dict[int, Term] = {}
        self.is_warm = find_znode(tree, self.epoch_path) is not None
        """Whether the present term began before the log, or in missing transactions."""
        self.resume(tree)

    def resume(self, tree: Tree) -> None:
        """Read the controller from the tree, at the start or after missing transactions."""
        holder, epoch = find_znode(tree, self.controller_path), find_znode(tree, self.epoch_path)
        if holder is None or epoch is None:
            self.current = None
            return
        term = Term(
            holder.owner, parsed_epoch(epoch.data) or 0, epoch.version, *_controller(holder.data)
        )
        if term != self.current:
            self.is_warm = True
            self._begin(term)

    def last_of(self, session: int) -> Term | None:
        """A session's present or last term. In the log of a shadow that watches, a session may be
        unknown: then it is that of the controller if its session is unknown, too."""
        if session != UNKNOWN_SESSION:
            return self._of_session.get(session)
        is_unknown = self.current is not None and self.current.session == UNKNOWN_SESSION
        return self.current if is_unknown else None

    def broker_of(self, session: int, tree: Tree) -> int:
        """The broker of a session, by its registration or else by what it wrote to /controller;
        UNKNOWN_BROKER if it has neither."""
        registered, term = self.registered(session, tree), self.last_of(session)
        return term.broker if registered == UNKNOWN_BROKER and term is not None else registered

    def name_of(self, session: int, tree: Tree) -> str:
        """The broker or KRaft controller of a session, as `broker_of` finds it; "" if unknown."""
        registered, term = self.registered(session, tree), self.last_of(session)
        if registered != UNKNOWN_BROKER:
            return controller_name(registered)
        return term.name if term is not None and term.broker != UNKNOWN_BROKER else ""

    def registered(self, session: int, tree: Tree) -> int:
        """The broker that a session has registered, UNKNOWN_BROKER if it has none."""
        for path in tree.ephemerals(session):
            if paths.parent_of(path) == self._ids_path and is_broker_id(paths.name_of(path)):
                return int(paths.name_of(path))
        return UNKNOWN_BROKER

    def elected(self, transaction: Transaction) -> Term | None:
        """The term that a transaction begins, None for other transactions."""
        content = transaction.content
        if not isinstance(content, Multi) or _is_guarded(content) or content.error:
            return None
        controller = epoch = version = None
        for one in content.operations:
            if type(one) is Create and one.path == self.controller_path:
                controller = _controller(one.data)
            elif type(one) is SetData and one.path == self.epoch_path:
                epoch, version = parsed_epoch(one.data) or 0, one.version
        if controller is None or epoch is None or version is None:
            return None
        return Term(transaction.session, epoch, version, *controller)

    def follow(self, transaction: Transaction) -> None:
        """Follow a completed transaction."""
        term = self.elected(transaction)
        if term is not None:
            self.is_warm = False
            self._begin(term)
        elif self.current is not None and self._ends(transaction, self.current):
            self.current = None

    def _begin(self, term: Term) -> None:
        self.seen += 1
        self.current = term
        self._of_session[term.session] = term

    def _ends(self, transaction: Transaction, term: Term) -> bool:
        if isinstance(transaction.content, CloseSession):
            return transaction.session == term.session and not term.is_kraft
        content = transaction.content
        if isinstance(content, Multi):
            return any(map(self._is_given_up, content.operations)) and not content.error
        return self._is_given_up(content)

    def _is_given_up(self, content: Content) -> bool:
        return type(content) is Delete and content.path == self.controller_path


def _is_guarded(multi: Multi) -> bool:
    """Whether a multi begins with a check; an election does not."""
    return bool(multi.operations) and isinstance(multi.operations[0], Check)


def find_znode(tree: Tree, path: str) -> Znode | None:
    """A znode, None if it does not exist."""
    try:
        return tree.get(path)
    except Refused:
        return None


def _controller(data: bytes | None) -> tuple[int, bool]:
    """The id in /controller, and whether it is that of a KRaft controller."""
    holder = read_controller(data)
    broker = UNKNOWN_BROKER if holder is None else holder.brokerid
    return broker, kraft_controller(data) is not None
