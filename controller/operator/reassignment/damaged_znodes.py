"""Warnings about znodes that were changed by hand."""

from collections.abc import Iterable
from typing import Final

from controller.core import znodes
from controller.core.znodes import REASSIGN_PARTITIONS_EXTRA, REASSIGNMENTS
from controller.operator.reassignment.cluster_state import ClusterState
from controller.operator.reassignment.documents import format_partitions
from controller.operator.reassignment.report import ProgressReport

_NEXT_LOOK: Final = "next check: a submission, a cancellation, or after minutes"
_FIX_ADVICE: Final = (
    "this topic's reassignments are unknown and none can be submitted; repair the znode"
)
_OF_ENTRIES: Final = (znodes.REASSIGN_PARTITIONS, REASSIGN_PARTITIONS_EXTRA)


def unreadable_entries(state: ClusterState) -> list[str]:
    """Why znodes with entries cannot be read, and what to do: no entries can be added to them."""
    advice = "repair or delete the znode"
    if state.is_interruptible:
        advice = "refold is deleting or rewriting the znode: try again"
    unreadable = state.znodes.unreadable
    return [f"{unreadable[path]}: {advice}" for path in _OF_ENTRIES if path in unreadable]


def warn_unusable_records(report: ProgressReport, state: ClusterState) -> None:
    """Warn about records that are unreadable or wrong. They block nothing."""
    then = "when refold takes the role, the topic's znode takes precedence"
    if state.is_interruptible:
        then = (
            "refold rewrites znodes that it did not write itself: a topic's znode at "
            f"once, a record at its {_NEXT_LOOK}"
        )
    for one in state.znodes.unusable.values():
        report.warn(f"{one.why}; {then}")


def warn_missing_records(report: ProgressReport, state: ClusterState) -> None:
    """Warn about reassignments without an id."""
    if state.without_record:
        report.warn(
            f"{format_partitions(state.without_record)}: reassigned without a record in "
            f"{REASSIGNMENTS}: a stock controller started it, or the record was deleted. "
            f"refold rewrites a deleted record, with another id, at its {_NEXT_LOOK}"
        )


def unreadable_topics(state: ClusterState, topics: Iterable[str]) -> list[str]:
    """Why those of these topics' znodes that cannot be read cannot, and what to do."""
    unreadable = state.unreadable_topics
    return [f"{unreadable[one]}: {_FIX_ADVICE}" for one in topics if one in unreadable]


def warn_unreadable_topics(report: ProgressReport, state: ClusterState) -> None:
    """Warn about unreadable topics. They block no other topic."""
    for text in unreadable_topics(state, sorted(state.unreadable_topics)):
        report.warn(text)
