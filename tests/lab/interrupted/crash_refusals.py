"""Requests that refold rejects after a crash, and the one situation in which that is right.

refold makes a request of each entry of the extra znode that it has moved to
/admin/reassign_partitions. If refold is killed between the beginnings of two entries, a stock
controller completes the reassignment of the first one, and deletes /admin/reassign_partitions,
which it cannot read. Nothing distinguishes the request of the second entry from a forged one
(docs/kip-236-design.md#requests): refold rejects it and names the znode. In every other cell a
rejection is a violation.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from controller.core.procedures.reassignment.assignments import STORE
from controller.core.values import format_brokers
from controller.core.znodes import REASSIGN_PARTITIONS, REQUEST_PREFIX
from tests.lab.interrupted.crash_procedures import CONFLICT, Procedure, Successor, Topic
from tests.lab.interrupted.failpoint import Counted

REFUSED = "reassignment_refused"

Refusals = Mapping[str, Sequence[str]]
"""By topic the messages that a reassignment of its partition is rejected."""


def refusals_of(messages: Iterable[Mapping[str, Any]], topics: Iterable[Topic]) -> Refusals:
    """By topic the messages that a reassignment of its partition is rejected."""
    found: dict[str, list[str]] = {f"{one.name}-0": [] for one in topics}
    for one in messages:
        if one.get("code") == REFUSED and one.get("subject") in found:
            found[one["subject"]].append(str(one["message"]))
    return {name.removesuffix("-0"): texts for name, texts in found.items() if texts}


def accepted(
    refusals: Refusals,
    procedure: Procedure,
    successor: Successor,
    counted: Sequence[Counted],
    topics: int,
) -> set[str]:
    """The topics whose partitions may keep their originals because their requests were rejected.
    `counted` includes the command before which refold was killed."""
    if len(refusals) > _not_begun(procedure, successor, counted, topics):
        return set()
    return {
        topic
        for topic, texts in refusals.items()
        if all(_names_request(one, procedure) for one in texts)
    }


def _not_begun(
    procedure: Procedure, successor: Successor, counted: Sequence[Counted], topics: int
) -> int:
    """The number of partitions that had not begun, if the crash was between two beginnings and a
    stock controller followed; 0 in every other cell."""
    begun = sum(1 for one in counted[:-1] if one.rule == STORE)
    is_between = bool(counted) and counted[-1].rule == STORE and 0 < begun < topics
    if procedure != CONFLICT or successor is not Successor.STOCK or not is_between:
        return 0
    return topics - begun


def _names_request(refusal: str, procedure: Procedure) -> bool:
    """Whether a message says which request is rejected, for which target and why."""
    head = f"the reassignment to {format_brokers(procedure.second_target)}, requested by "
    why = f" is rejected: {REASSIGN_PARTITIONS} has no such entry"
    return refusal.startswith(f"{head}{REQUEST_PREFIX}") and refusal.endswith(why)
