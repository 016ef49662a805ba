"""The hypothesis that a write was done and its reply was lost.

No log reports a connection that broke in the middle of a session. Kafka then repeats the write, and
ZooKeeper refuses it. This explains a refused write for which the fold has no other reason.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import structs

from controller.core.operations import BAD_VERSION, NO_NODE, NODE_EXISTS
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from replay.agreement.assumptions import Assumptions
from replay.agreement.search.search import ComparisonRun, Hypothesis
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.events import DecisionObserved
from replay.stock_clusters.zookeeper_log.transactions import Transaction

_KINDS: Final = ("transaction", "observed")
_ERRORS: Final = (BAD_VERSION, NODE_EXISTS, NO_NODE)
_RUNS_MAX: Final = 10


class LostReply(Hypothesis[int]):
    """Supposes that ZooKeeper did the write before a refused one, and that its reply was lost. A
    question is the zxid of that write."""

    name = "lost-reply"
    runs_min = 1

    def __init__(self) -> None:
        super().__init__(_RUNS_MAX)

    def questions(self, run: ComparisonRun) -> Sequence[int]:
        return run.choices.repeated

    def alternatives(self, run: ComparisonRun, question: int) -> Iterator[Assumptions]:
        before = run.choices.assumptions
        yield structs.replace(before, lost_replies=before.lost_replies | {question})

    def report(self, final: ComparisonRun) -> None:
        """Add a note for each lost reply."""
        final.result.notes += [
            f"zxid {zxid:#x}: its reply was lost, as the same write comes again and is refused"
            for zxid in sorted(final.choices.assumptions.lost_replies)
        ]


def may_have_lost_replies(reader: LogReader) -> bool:
    """Whether a session was refused a write right after it wrote; if not, no reply was lost.

    Raises ReplayError, LogError.
    """
    is_done: dict[int, bool] = {}
    session = 0
    for record in reader.events(EventFilter(kinds=_KINDS)):
        event = event_of(record)
        if isinstance(event, Transaction):
            session = event.session
        elif isinstance(event, DecisionObserved):
            if event.error in _ERRORS and is_done.get(session):
                return True
            is_done[session] = not event.error
    return False
