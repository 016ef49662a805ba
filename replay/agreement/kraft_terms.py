"""The terms of KRaft controllers in an imported log.

While a cluster migrates to KRaft, a KRaft controller has the role and writes to ZooKeeper what the
KRaft quorum has decided. Kafka's rules for a controller in ZooKeeper mode say nothing about these
writes, so they are counted and not judged.
"""

from collections.abc import Iterable

from msgspec import Struct

from controller.core import znodes
from replay.agreement.decisions.observed import DecisionEvent
from replay.agreement.logs.index import operations_of, path_of
from replay.names import controller_name
from replay.parsed_znodes import kraft_controller, parsed_epoch
from replay.stock_clusters.imported_log.events import RequestInferred
from replay.stock_clusters.zookeeper_log.transactions import Create, SetData, Transaction
from replay.znode_view import ZnodeView


class KraftTerm(Struct):
    """A term of a KRaft controller. `epoch` is the controller epoch, and `decisions` counts its
    writes, which are not judged."""

    controller: int
    epoch: int
    kraft_epoch: int
    decisions: int = 0

    @property
    def name(self) -> str:
        """The term in words."""
        who = controller_name(self.controller, is_kraft=True)
        return f"{who} in controller epoch {self.epoch} (KRaft epoch {self.kraft_epoch})"


def add_terms(terms: list[KraftTerm], others: Iterable[KraftTerm]) -> None:
    """Add terms to a list that has each term once."""
    known = {(one.controller, one.epoch): one for one in terms}
    for one in others:
        mine = known.get((one.controller, one.epoch))
        if mine is None:
            mine = KraftTerm(one.controller, one.epoch, one.kraft_epoch)
            known[one.controller, one.epoch] = mine
            terms.append(mine)
        mine.decisions += one.decisions


class KraftSessions:
    """The sessions of KRaft controllers, and their terms."""

    def __init__(self, view: ZnodeView) -> None:
        """`view` is the state before the first transaction, and follows the log."""
        self._view = view
        self._terms: dict[int, KraftTerm] = {}
        self.at_start = self._term_now()
        """The term that is in progress before the first transaction."""
        self._epochs = {self.at_start.epoch} if self.at_start else set[int]()

    def has_epoch(self, epoch: int) -> bool:
        """Whether a controller epoch is that of a KRaft controller."""
        return epoch in self._epochs

    def term_of(
        self, one: Transaction, found: DecisionEvent, *, is_of_broker: bool
    ) -> KraftTerm | None:
        """The term that a decision begins or belongs to; None if it is not of a KRaft controller.
        The transaction is not applied to the view yet. `is_of_broker`: a broker has the session.

        /controller is persistent then, so a KRaft controller keeps the role in its next session.
        """
        term = self._elected(one)
        if term is None and not is_of_broker and not _may_be_refused(found):
            term = self._term_now()
        if term is None:
            return self._terms.get(one.session)
        self._epochs.add(term.epoch)
        if one.session:
            # A shadow that watches does not see the session.
            self._terms[one.session] = term
        return term

    def _elected(self, one: Transaction) -> KraftTerm | None:
        """The term that a transaction begins."""
        holder = epoch = None
        for operation in operations_of(one):
            path = self._view.in_kafka(path_of(operation))
            if isinstance(operation, Create) and path == znodes.CONTROLLER:
                holder = kraft_controller(operation.data)
            elif isinstance(operation, SetData) and path == znodes.CONTROLLER_EPOCH:
                epoch = parsed_epoch(operation.data)
        if holder is None or epoch is None:
            return None
        return KraftTerm(holder.brokerid, epoch, holder.kraftControllerEpoch)

    def _term_now(self) -> KraftTerm | None:
        """The term of the KRaft controller that has the role; None if none has it."""
        found, epoch = self._view.find(znodes.CONTROLLER), self._view.find(znodes.CONTROLLER_EPOCH)
        holder = kraft_controller(found.data) if found is not None else None
        if holder is None:
            return None
        known = (parsed_epoch(epoch.data) or 0) if epoch is not None else 0
        return KraftTerm(holder.brokerid, known, holder.kraftControllerEpoch)


def _may_be_refused(found: DecisionEvent) -> bool:
    """Whether ZooKeeper refused the decision, which is then not of the controller for certain."""
    return not isinstance(found, RequestInferred) and found.error != 0
