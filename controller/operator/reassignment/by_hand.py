"""Znodes that somebody changed by hand: what to say of them."""

from collections.abc import Iterable
from typing import Final

from controller.core import znodes
from controller.core.znodes import REASSIGN_PARTITIONS_EXTRA, REASSIGNMENTS
from controller.operator.reassignment.documents import spelt_all
from controller.operator.reassignment.report import Report
from controller.operator.reassignment.view import View

_NEXT_LOOK: Final = "next look: a submission, a cancellation, or minutes"
_MEND: Final = "nothing can be said of this topic, nor submitted for it; mend the znode"
_OF_ENTRIES: Final = (znodes.REASSIGN_PARTITIONS, REASSIGN_PARTITIONS_EXTRA)


def unreadable_entries(view: View) -> list[str]:
    """Why znodes with entries cannot be read, and what to do: nothing can be added to them."""
    advice = "mend or delete it"
    if view.is_interruptible:
        advice = "refold is moving it out of the way: try again"
    unreadable = view.znodes.unreadable
    return [f"{unreadable[path]}: {advice}" for path in _OF_ENTRIES if path in unreadable]


def warn_of_unusable(report: Report, view: View) -> None:
    """Of records that say nothing, or nothing true. They hold nobody up."""
    then = "when refold takes the role the topic's znode counts"
    if view.is_interruptible:
        then = (
            "refold writes again what it did not write itself: a topic's znode at once, a record "
            f"at its {_NEXT_LOOK}"
        )
    for one in view.znodes.unusable.values():
        report.warn(f"{one.why}; {then}")


def warn_of_missing_records(report: Report, view: View) -> None:
    """Of what is on its way and has no identity."""
    if view.without_record:
        report.warn(
            f"{spelt_all(view.without_record)}: under way without a record in {REASSIGNMENTS}: "
            "a stock controller began it, or somebody deleted the record. refold writes a deleted "
            f"record again, with another id, at its {_NEXT_LOOK}"
        )


def unreadable_topics(view: View, topics: Iterable[str]) -> list[str]:
    """Why these topics' znodes cannot be read, those that cannot, and what to do."""
    unreadable = view.unreadable_topics
    return [f"{unreadable[one]}: {_MEND}" for one in topics if one in unreadable]


def warn_of_unreadable_topics(report: Report, view: View) -> None:
    """They hold nobody up: only of themselves nothing can be said."""
    for text in unreadable_topics(view, sorted(view.unreadable_topics)):
        report.warn(text)
