"""Znodes that somebody changed by hand: what to say of them."""

from collections.abc import Iterable
from typing import Final

from controller.core import znodes
from controller.core.reassignment_znodes import REASSIGN_PARTITIONS_EXTRA, REASSIGNMENTS
from controller.operator.reassignment.cluster_state import ClusterState
from controller.operator.reassignment.documents import format_partitions
from controller.operator.reassignment.report import Report

_NEXT_LOOK: Final = "next look: a submission, a cancellation, or minutes"
_FIX_ADVICE: Final = "nothing can be said of this topic, nor submitted for it; mend the znode"
_OF_ENTRIES: Final = (znodes.REASSIGN_PARTITIONS, REASSIGN_PARTITIONS_EXTRA)


def unreadable_entries(state: ClusterState) -> list[str]:
    """Why znodes with entries cannot be read, and what to do: nothing can be added to them."""
    advice = "mend or delete it"
    if state.is_interruptible:
        advice = "refold is moving it out of the way: try again"
    unreadable = state.znodes.unreadable
    return [f"{unreadable[path]}: {advice}" for path in _OF_ENTRIES if path in unreadable]


def warn_unusable_records(report: Report, state: ClusterState) -> None:
    """Of records that say nothing, or nothing true. They hold nobody up."""
    then = "when refold takes the role the topic's znode counts"
    if state.is_interruptible:
        then = (
            "refold writes again what it did not write itself: a topic's znode at once, a record "
            f"at its {_NEXT_LOOK}"
        )
    for one in state.znodes.unusable.values():
        report.warn(f"{one.why}; {then}")


def warn_missing_records(report: Report, state: ClusterState) -> None:
    """Of what is on its way and has no identity."""
    if state.without_record:
        report.warn(
            f"{format_partitions(state.without_record)}: under way without a record in {REASSIGNMENTS}: "
            "a stock controller began it, or somebody deleted the record. refold writes a deleted "
            f"record again, with another id, at its {_NEXT_LOOK}"
        )


def unreadable_topics(state: ClusterState, topics: Iterable[str]) -> list[str]:
    """Why these topics' znodes cannot be read, those that cannot, and what to do."""
    unreadable = state.unreadable_topics
    return [f"{unreadable[one]}: {_FIX_ADVICE}" for one in topics if one in unreadable]


def warn_unreadable_topics(report: Report, state: ClusterState) -> None:
    """They hold nobody up: only of themselves nothing can be said."""
    for text in unreadable_topics(state, sorted(state.unreadable_topics)):
        report.warn(text)
