"""What undid a move, where the controller that undid it has not recorded the log."""

from collections.abc import Sequence
from typing import Literal

from controller.core.znodes import REASSIGN_CANCEL, REASSIGN_PARTITIONS, REASSIGN_PARTITIONS_EXTRA
from replay.why.facts import CancelKnown, Cancellation, ReassignmentAsked
from replay.why.move_draft import Draft
from replay.why.moves import API


def cause_of(
    draft: Draft,
    until: int | None,
    asked: Sequence[ReassignmentAsked],
    cancel: Sequence[CancelKnown],
) -> Cancellation | None:
    """The request, the entry or the cancellation that fits; `until` is where the next move begins.

    `asked` is what was asked for of the partition, `cancel` what is known of the cancellation.
    """
    ended = draft.ended
    assert ended is not None, "what was rolled back has ended"
    asked = [
        one
        for one in asked
        if one.seq >= draft.first.seq and (until is None or one.seq < until) and not one.error
    ]
    ends = [one for one in asked if one.target is None or set(one.target) == set(draft.origin)]
    # The answer to a request comes after what it led to.
    near = [one for one in ends if one.because is not None and one.because == ended.because]
    if near:
        return _of_request(near[0])
    standing = _standing_cancel(draft, cancel)
    if standing is not None:
        return standing
    others = [one for one in asked if one.via == REASSIGN_PARTITIONS_EXTRA]
    found = ends or others
    return _of_request(found[-1]) if found else None


def _standing_cancel(draft: Draft, cancel: Sequence[CancelKnown]) -> Cancellation | None:
    if draft.route not in ("", REASSIGN_PARTITIONS):
        return None
    assert draft.ended is not None, "what was rolled back has ended"
    is_over = draft.ended is draft.first
    found: CancelKnown | None = None
    for one in cancel:
        if one.seq > draft.ended.seq and not (is_over and found is None):
            break
        if one.how in ("created", "found"):
            found = found or one
        elif one.how == "removed":
            found = None
    if found is None:
        return None
    is_created = found.how == "created"
    how: Literal["created", "found"] = "created" if is_created else "found"
    return Cancellation(REASSIGN_CANCEL, how, found.seq, found.wall_ns, found.czxid)


def _of_request(asked: ReassignmentAsked) -> Cancellation:
    seq = asked.because.seq if asked.because is not None and asked.via == API else asked.seq
    return Cancellation(asked.via, "asked", seq, asked.wall_ns, asks_for=asked.target)
