"""What a submission must fulfil before anything is written. Pure."""

from collections.abc import Iterator
from typing import Final

from controller.core import znodes
from controller.core.topic_configs import MIN_INSYNC_REPLICAS
from controller.core.znodes import (
    REASSIGN_CANCEL,
    REASSIGNMENT_REQUESTS,
    REASSIGNMENTS,
)
from controller.operator.reassignment.by_hand import unreadable_entries, unreadable_topics
from controller.operator.reassignment.documents import Partition, Targets, listed, spelt, spelt_all
from controller.operator.reassignment.errors import Refused
from controller.operator.reassignment.view import KAFKA_API, NO_RECORD, Role, View

_BY_API: Final = "wait for it, or end it with --cancel and a file over --bootstrap-server"
_HOW_TO_END: Final = {
    znodes.REASSIGN_PARTITIONS: "wait for it, end it with --cancel, or use --execute-extra",
    KAFKA_API: _BY_API,
    NO_RECORD: _BY_API,
}
_CHANGE_IT: Final = "wait for it, or change it by the same route"
_CHANGED_ONLY: Final = (REASSIGNMENTS, REASSIGNMENT_REQUESTS)
"""Routes by which what is under way gets another target, and is not begun."""


CANCEL_STANDS: Final = (
    f"{REASSIGN_CANCEL} stands: no reassignment can be submitted until it is removed with "
    "--remove-cancel"
)


def check_submission(view: View, targets: Targets, may_change: tuple[str, ...]) -> None:
    """Whether targets may be asked for now; raises Refused with everything that stands against it.

    A partition that is on its way may be named only where its route is one of `may_change`.
    """
    problems = [*_cluster_problems(view), *_target_problems(view, targets)]
    problems += _route_problems(view, targets, may_change)
    if REASSIGNMENTS in may_change:
        problems += [
            f"{one}: lower that first, or use --execute" for one in below_min_insync(view, targets)
        ]
    if problems:
        raise Refused("\n".join(problems))


def check_is_refold(view: View, what: str, *, by_brokers: bool = True) -> None:
    """Nobody else acts on the znodes of KIP-236. Raises Refused where a stock broker controls, or
    a refold that is told to leave them alone. `by_brokers`: Kafka's APIs can do the same."""
    broker = view.controller.broker
    if view.controller.role is Role.STOCK:
        otherwise = ", or use --bootstrap-server without --zookeeper" if by_brokers else ""
        raise Refused(
            f"broker {broker}, a stock controller, has the role: it does not know {what}. Let "
            f"refold take the role{otherwise}"
        )
    if view.controller.role is Role.REFOLD and not view.znodes.are_served:
        raise Refused(
            f"broker {broker}, a refold controller, has the role and does not look at {what}: it "
            "runs with kip-236.enable=false or under Kafka's rules, or has just taken the role"
        )


def _cluster_problems(view: View) -> Iterator[str]:
    if view.znodes.cancel_stands:
        yield CANCEL_STANDS
    yield from unreadable_entries(view)


def _target_problems(view: View, targets: Targets) -> Iterator[str]:
    topics = dict.fromkeys(topic for topic, _ in targets)
    yield from unreadable_topics(view, topics)
    missing = [
        one
        for one in targets
        if one not in view.assignments and one[0] not in view.unreadable_topics
    ]
    if missing:
        names = spelt_all(missing)
        yield f"The proposed assignment contains non-existent partitions: {names}"
    going = sorted(topics.keys() & view.deleted)
    if going:
        yield f"topics that are being deleted: {','.join(going)}"
    # A replica that stays may be on a broker that is down, as in Kafka (validateReplicas).
    asked = {
        one
        for partition, replicas in targets.items()
        for one in replicas
        if one not in view.origin(partition)
    }
    own = view.controller.broker if view.controller.role is Role.REFOLD else None
    if own is not None and any(own in replicas for replicas in targets.values()):
        yield f"Broker {own} is the controller, which holds no replicas."
    unknown = sorted(one for one in asked if one not in view.brokers and one != own)
    if unknown:
        yield f"The proposed assignment contains non-existent brokerIDs: {listed(unknown)}"


def below_min_insync(view: View, targets: Targets) -> Iterator[str]:
    """Partitions with too few replicas to be moved by a request (KB 14.5.2)."""
    if not view.is_interruptible:
        return
    for partition in sorted(targets):
        least = view.least_in_sync.get(partition[0], 1)
        replicas = len(view.origin(partition))
        if 0 < replicas < least and view.route(partition) not in _CHANGED_ONLY:
            yield (
                f"{spelt(partition)} has fewer replicas ({replicas}) than "
                f"{MIN_INSYNC_REPLICAS}={least} of its topic"
            )


def _route_problems(view: View, targets: Targets, may_change: tuple[str, ...]) -> Iterator[str]:
    held: dict[str, list[Partition]] = {}
    for partition in targets:
        route = view.route(partition)
        if route and route not in may_change:
            held.setdefault(route, []).append(partition)
    is_stock = view.controller.role is Role.STOCK
    for route, partitions in held.items():
        names = ", ".join(map(spelt, sorted(partitions)))
        advice = _BY_API if is_stock else _HOW_TO_END.get(route, _CHANGE_IT)
        yield f"{names}: being reassigned already, by {route}: {advice}"
