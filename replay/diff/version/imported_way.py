"""A version's own way through an imported log: it is the controller, from an election on.

What others do to ZooKeeper, what is asked of the controller and when sessions end is as in the log.
A controller is elected when one was in the log; what that one wrote is left out.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from controller.core.operations import OK
from eventstore.records import EventRecord
from replay.diff.version import assumptions
from replay.diff.version.imported_term import ImportedTerm
from replay.diff.version.imported_world import ImportedWorld
from replay.diff.version.partition_timelines import Courses
from replay.shadow_folds import ShadowObserver
from replay.stock_clusters.agreement.conformance import Found
from replay.stock_clusters.agreement.logs.index import Index
from replay.stock_clusters.imported_log.events import Observed, WorldEvent
from replay.stock_clusters.zookeeper_log.transactions import Transaction

_NOT_ALWAYS: Final = (
    assumptions.REQUESTS,
    assumptions.DRAWS,
    assumptions.ALTER_PARTITION,
    assumptions.OTHER_LEADER,
    assumptions.CUT,
)
"""What is supposed here and there; the rest is so all the way (BESIDE)."""
_NS: Final = 1_000_000


class ImportedWay:
    """From the first record that it takes on. `sessions` are those that wanted to be controller,
    each with what the version heard beside it; `index` knows the whole log."""

    def __init__(
        self,
        world: ImportedWorld,
        sessions: Mapping[int, ShadowObserver],
        index: Index,
        courses: Courses,
    ) -> None:
        self.end_ns = 0
        self._world = world
        self._sessions = sessions
        self._index = index
        self._courses = courses
        self._term: ImportedTerm | None = None
        self._assumed = Counter({assumptions.BESIDE: 1})

    @property
    def assumed(self) -> dict[str, int]:
        """What was supposed, and how often."""
        return dict(+(self._assumed + self._world.assumed))

    def take(self, record: EventRecord, event: WorldEvent, found: Found | None) -> None:
        """A record of the log; `found` is what it was found to be, if it is the controller's."""
        self.end_ns = max(self.end_ns, record.wall_ns)
        if self._term is not None:
            self._term.come(record.seq, record.wall_ns)
            if self._term.is_silent:
                self._end_term()
        if not isinstance(event, Transaction):
            return
        if is_election(found):
            self._elect(record, event)
        elif found is None or (isinstance(found, Observed) and found.what == "resignation"):
            self._happen(event)

    def finish(self) -> None:
        """The log is over: what is under way goes on to its end."""
        if self._term is not None:
            self._term.own.finish()
            self.end_ns = max(self.end_ns, self._term.own.now_ns)
            self._end_term()

    def _elect(self, record: EventRecord, election: Transaction) -> None:
        self._end_term()
        self._world.elect(election.session, record.wall_ns // _NS)
        self._term = ImportedTerm(
            self._world,
            self._sessions[election.session],
            self._index,
            record.seq,
            record.wall_ns,
            self._courses,
        )

    def _happen(self, transaction: Transaction) -> None:
        fired = self._world.take(transaction)
        if self._term is None:
            return
        if self._world.is_controlled:
            self._term.own.tell(fired)
            self._term.own.work()
        else:
            self._end_term()

    def _end_term(self) -> None:
        if self._term is not None:
            assumed = self._term.own.assumed
            self._assumed.update({text: assumed[text] for text in _NOT_ALWAYS})
        self._term = None


def is_election(found: Found | None) -> bool:
    """Whether a session became controller by it."""
    return isinstance(found, Observed) and found.what == "election" and found.error == OK
