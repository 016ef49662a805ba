"""Znodes of reassignments that somebody changed by hand: what to say of them."""

from typing import Final

from controller.core import znodes
from controller.core.reassignment_znodes import REASSIGN_PARTITIONS_EXTRA
from controller.operator.reassignment.report import Report
from controller.operator.reassignment.view import View

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
    then = "refold puts that right when it takes the role"
    if view.is_interruptible:
        then = "refold writes it again at its next look: a submission, a cancellation, or minutes"
    for one in view.znodes.unusable.values():
        report.warn(f"{one.why}; {then}")
