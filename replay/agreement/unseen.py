"""Divergences for which a log does not show enough to say that the controller decided otherwise."""

import sys
from collections.abc import Callable, Container, Sequence
from typing import Final

from replay.agreement.results import AgreementResult, Divergence
from replay.description.phrases import counted

_NEVER_SHOWN: Final = ("AllocateProducerIds", "AlterPartitionReassignments", "UpdateFeatures")
"""The beginnings of the names of controller events that only a request log shows."""
_WRITTEN_FOR_THEM: Final = ("assignment", "feature", "producer_ids", "reassign_partitions")
"""The kinds of decisions that show such an event."""

Term = tuple[int, int]
"""A broker, and its controller epoch."""


def term_of(one: Divergence) -> Term:
    """The term of the controller that decided."""
    return one.controller, one.epoch


def may_be_requested(one: Divergence) -> bool:
    """Whether the reason may be a request that has no line in controller.log either."""
    is_written_for_it = one.verdict == "missing" and one.kind in _WRITTEN_FOR_THEM
    return one.cause.startswith(_NEVER_SHOWN) or is_written_for_it


def unseen_of(
    result: AgreementResult, is_unseen: Callable[[Divergence], bool], lost: dict[Term, int]
) -> list[Divergence]:
    """The unseen divergences of a result.

    After one of them it is unknown what the controller knows, so the later ones of its term belong
    to them as well. `lost` has the record of the first one of each term, and is extended.
    """
    found = []
    for one in result.divergences:
        if one.explained:
            continue
        if is_unseen(one):
            lost[term_of(one)] = min(one.seq, lost.get(term_of(one), one.seq))
        if one.seq >= lost.get(term_of(one), sys.maxsize):
            found.append(one)
    return found


def leave_out(result: AgreementResult, divergences: Sequence[Divergence]) -> int:
    """Remove divergences from a result, and return their number."""
    for one in divergences:
        side = result if one.subject == "decision" else result.requests
        side.count(one.kind, one.cause, one.verdict, -1)
        result.divergences.remove(one)
    return len(divergences)


def leave_unjudged(result: AgreementResult, with_request_log: Container[int]) -> None:
    """Count divergences as not judged that requests to controllers without a request log may
    explain, and note the first one of each term."""
    lost: dict[Term, int] = {}

    def is_unseen(one: Divergence) -> bool:
        return one.controller not in with_request_log and may_be_requested(one)

    found = unseen_of(result, is_unseen, lost)
    decisions = [one for one in found if one.subject == "decision"]
    for (controller, epoch), seq in lost.items():
        count = sum(term_of(one) == (controller, epoch) for one in decisions)
        result.notes.append(
            f"not judged: {counted(count, 'decision')} of broker {controller} in epoch {epoch}, "
            f"from record {seq} on: the reason is a request, and the broker has no request log"
        )
    leave_out(result, found)
    result.unjudged += len(decisions)
    result.requests.unjudged += len(found) - len(decisions)
