"""The probable cause of a rollback that the daemon of this log did not do itself."""

from collections.abc import Sequence
from typing import Literal

from controller.core.znodes import REASSIGN_CANCEL, REASSIGN_PARTITIONS, REASSIGN_PARTITIONS_EXTRA
from replay.why.facts import CancelZnodeObserved, MoveCancellation, ReassignmentRequested
from replay.why.move_builder import MoveBuilder
from replay.why.noted_facts import API


def probable_cause(
    move: MoveBuilder,
    until: int | None,
    asked: Sequence[ReassignmentRequested],
    cancel: Sequence[CancelZnodeObserved],
) -> MoveCancellation | None:
    """The request, entry or cancellation that probably undid a move; `until` is the event at which
    the next move begins.

    `asked` are the requests for the partition, `cancel` the facts about /admin/reassign_cancel.
    """
    ended = move.ended
    assert ended is not None, "a rolled back move has ended"
    asked = [
        one
        for one in asked
        if one.seq >= move.first.seq and (until is None or one.seq < until) and not one.error
    ]
    ends = [one for one in asked if one.target is None or set(one.target) == set(move.origin)]
    # The answer to a request follows its result.
    near = [one for one in ends if one.because is not None and one.because == ended.because]
    if near:
        return _of_request(near[0])
    in_effect = _cancel_in_effect(move, cancel)
    if in_effect is not None:
        return in_effect
    others = [one for one in asked if one.route == REASSIGN_PARTITIONS_EXTRA]
    found = ends or others
    return _of_request(found[-1]) if found else None


def _cancel_in_effect(
    move: MoveBuilder, cancel: Sequence[CancelZnodeObserved]
) -> MoveCancellation | None:
    if move.route not in ("", REASSIGN_PARTITIONS):
        return None
    assert move.ended is not None, "a rolled back move has ended"
    is_over = move.ended is move.first
    found: CancelZnodeObserved | None = None
    for one in cancel:
        if one.seq > move.ended.seq and not (is_over and found is None):
            break
        if one.how in ("created", "found"):
            found = found or one
        elif one.how == "removed":
            found = None
    return cancellation_of(found) if found is not None else None


def cancellation_of(known: CancelZnodeObserved) -> MoveCancellation:
    """/admin/reassign_cancel, as a controller learned of it."""
    is_created = known.how == "created"
    how: Literal["created", "found"] = "created" if is_created else "found"
    return MoveCancellation(REASSIGN_CANCEL, how, known.seq, known.wall_ns, known.czxid)


def _of_request(asked: ReassignmentRequested) -> MoveCancellation:
    seq = asked.because.seq if asked.because is not None and asked.route == API else asked.seq
    return MoveCancellation(asked.by, "asked", seq, asked.wall_ns, asks_for=asked.target)
