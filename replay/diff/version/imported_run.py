"""Simulates an imported cluster with a version as its controller, from an election on.

Changes to ZooKeeper by other clients, requests to the controller, and the ends of sessions are
those of the log. A controller is elected when the log has an election. The writes of the log's
controllers are left out, except those of KRaft controllers, which no version replaces.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from controller.core.operations import OK
from eventstore.records import EventRecord
from replay.agreement.decisions.observed import DecisionEvent
from replay.agreement.logs.index import BrokerLogIndex
from replay.diff.version import assumptions
from replay.diff.version.fold_recorder import TimelineRecorder
from replay.diff.version.imported_term import ImportedTerm
from replay.diff.version.imported_zookeeper import ImportedZooKeeper
from replay.shadow_folds import ShadowObserver
from replay.stock_clusters.imported_log.events import DecisionObserved, ImportedEvent
from replay.stock_clusters.zookeeper_log.transactions import Transaction

_OCCASIONAL: Final = (
    assumptions.REQUESTS,
    assumptions.DRAWS,
    assumptions.ALTER_PARTITION,
    assumptions.OTHER_LEADER,
    assumptions.CUT,
)
"""Assumptions that are counted. The others apply to the whole run (SIMULATED_CLUSTER)."""
_NS_PER_MS: Final = 1_000_000


class ImportedRun:
    """The simulation from the first applied record on.

    `sessions` are those that stood for election, with the commands of their shadow folds. `index`
    is the index of the whole range.
    """

    def __init__(
        self,
        zookeeper: ImportedZooKeeper,
        sessions: Mapping[int, ShadowObserver],
        index: BrokerLogIndex,
        timelines: TimelineRecorder,
    ) -> None:
        self.end_ns = 0
        self._zookeeper = zookeeper
        self._sessions = sessions
        self._index = index
        self._timelines = timelines
        self._term: ImportedTerm | None = None
        self._kraft: set[int] = set()
        """The sessions that were elected and have no shadow fold."""
        self._assumed = Counter({assumptions.SIMULATED_CLUSTER: 1})

    @property
    def assumed(self) -> dict[str, int]:
        """The assumptions with their counts."""
        return dict(+(self._assumed + self._zookeeper.assumed))

    def apply(self, record: EventRecord, event: ImportedEvent, found: DecisionEvent | None) -> None:
        """Apply a record of the log. `found` classifies a transaction of a controller."""
        self.end_ns = max(self.end_ns, record.wall_ns)
        if self._term is not None:
            self._term.advance(record.seq, record.wall_ns)
            if self._term.is_unresponsive:
                self._end_term()
        if not isinstance(event, Transaction):
            return
        if is_election(found) and event.session not in self._sessions:
            self._kraft.add(event.session)
        if event.session in self._kraft:
            self._apply(event)
        elif is_election(found):
            self._elect(record, event)
        elif found is None or (isinstance(found, DecisionObserved) and found.what == "resignation"):
            self._apply(event)

    def finish(self) -> None:
        """The log has ended: complete the pending commands."""
        if self._term is not None:
            self._term.responder.finish()
            self.end_ns = max(self.end_ns, self._term.responder.now_ns)
            self._end_term()

    def _elect(self, record: EventRecord, election: Transaction) -> None:
        self._end_term()
        self._zookeeper.elect(election.session, record.wall_ns // _NS_PER_MS)
        self._term = ImportedTerm(
            self._zookeeper,
            self._sessions[election.session],
            self._index,
            record.seq,
            record.wall_ns,
            self._timelines,
        )

    def _apply(self, transaction: Transaction) -> None:
        fired = self._zookeeper.apply(transaction)
        if self._term is None:
            return
        if self._zookeeper.is_controlled:
            self._term.responder.fire(fired)
            self._term.responder.work()
        else:
            self._end_term()

    def _end_term(self) -> None:
        if self._term is not None:
            assumed = self._term.responder.assumed
            self._assumed.update({text: assumed[text] for text in _OCCASIONAL})
        self._term = None


def is_election(found: DecisionEvent | None) -> bool:
    """Whether a session became controller by a transaction."""
    return isinstance(found, DecisionObserved) and found.what == "election" and found.error == OK
