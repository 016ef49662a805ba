"""Conditions for a submission, checked before anything is written. Pure."""

from collections.abc import Iterator
from typing import Final

from controller.core import znodes
from controller.core.topic_configs import MIN_INSYNC_REPLICAS
from controller.core.values import format_brokers
from controller.core.znodes import (
    REASSIGN_CANCEL,
    REASSIGNMENT_REQUESTS,
    REASSIGNMENTS,
)
from controller.operator.reassignment.cluster_state import (
    KAFKA_API,
    NO_RECORD,
    ClusterState,
    ControllerKind,
)
from controller.operator.reassignment.damaged_znodes import unreadable_entries, unreadable_topics
from controller.operator.reassignment.documents import (
    Partition,
    Targets,
    format_partition,
    format_partitions,
)
from controller.operator.reassignment.errors import ReassignmentRefused

_WAIT: Final = "wait until the reassignment completes"
_BY_API: Final = f"{_WAIT}, or end it with --cancel and a file over --bootstrap-server"
_HOW_TO_END: Final = {
    znodes.REASSIGN_PARTITIONS: f"{_WAIT}, end it with --cancel, or use --execute-extra",
    KAFKA_API: _BY_API,
    NO_RECORD: _BY_API,
}
_CHANGE_BY_SAME_ROUTE: Final = f"{_WAIT}, or change its target by the same route"
_CHANGED_ONLY: Final = (REASSIGNMENTS, REASSIGNMENT_REQUESTS)
"""Routes that only change the target of a reassignment in progress."""


CANCEL_EXISTS: Final = (
    f"{REASSIGN_CANCEL} exists: no reassignment can be submitted until it is removed "
    "with --remove-cancel"
)


def check_submission(state: ClusterState, targets: Targets, may_change: tuple[str, ...]) -> None:
    """Check whether targets may be requested now; raises ReassignmentRefused with all problems.

    A partition that is being reassigned is only allowed if its route is in `may_change`.
    """
    problems = [*_cluster_problems(state), *_target_problems(state, targets)]
    problems += _route_problems(state, targets, may_change)
    if REASSIGNMENTS in may_change:
        problems += [
            f"{one}: decrease that first, or use --execute"
            for one in below_min_insync(state, targets)
        ]
    if problems:
        raise ReassignmentRefused("\n".join(problems))


def check_is_refold(state: ClusterState, what: str, *, by_brokers: bool = True) -> None:
    """Check that refold acts on the znodes of KIP-236. Raises ReassignmentRefused if a stock
    broker is controller, or a refold without KIP-236. `by_brokers`: Kafka's APIs offer the same
    operation."""
    broker = state.controller.broker
    if state.controller.kind is ControllerKind.STOCK:
        otherwise = ", or use --bootstrap-server without --zookeeper" if by_brokers else ""
        raise ReassignmentRefused(
            f"broker {broker}, a stock controller, has the role: it does not support "
            f"{what}. Let refold take the role{otherwise}"
        )
    if state.controller.kind is ControllerKind.REFOLD and not state.znodes.kip_236_active:
        raise ReassignmentRefused(
            f"broker {broker}, a refold controller, has the role but does not read "
            f"{what}: it runs with kip-236.enable=false or under Kafka's rules, or has "
            "just taken the role"
        )


def _cluster_problems(state: ClusterState) -> Iterator[str]:
    if state.znodes.cancel_exists:
        yield CANCEL_EXISTS
    yield from unreadable_entries(state)


def _target_problems(state: ClusterState, targets: Targets) -> Iterator[str]:
    topics = dict.fromkeys(topic for topic, _ in targets)
    yield from unreadable_topics(state, topics)
    missing = [
        one
        for one in targets
        if one not in state.assignments and one[0] not in state.unreadable_topics
    ]
    if missing:
        names = format_partitions(missing)
        yield f"The proposed assignment contains non-existent partitions: {names}"
    going = sorted(topics.keys() & state.deleted)
    if going:
        yield f"topics that are being deleted: {','.join(going)}"
    # A current replica may be on a broker that is down, as in Kafka (validateReplicas).
    asked = {
        one
        for partition, replicas in targets.items()
        for one in replicas
        if one not in state.origin(partition)
    }
    own = state.controller.broker if state.controller.kind is ControllerKind.REFOLD else None
    if own is not None and any(own in replicas for replicas in targets.values()):
        yield f"Broker {own} is the controller, which holds no replicas."
    unknown = sorted(one for one in asked if one not in state.brokers and one != own)
    if unknown:
        yield f"The proposed assignment contains non-existent brokerIDs: {format_brokers(unknown)}"


def below_min_insync(state: ClusterState, targets: Targets) -> Iterator[str]:
    """Partitions with too few replicas to be reassigned by a request (KB 14.5.2)."""
    if not state.is_interruptible:
        return
    for partition in sorted(targets):
        least = state.least_in_sync.get(partition[0], 1)
        replicas = len(state.origin(partition))
        if 0 < replicas < least and state.route(partition) not in _CHANGED_ONLY:
            yield (
                f"{format_partition(partition)} has fewer replicas ({replicas}) than "
                f"{MIN_INSYNC_REPLICAS}={least} of its topic"
            )


def _route_problems(
    state: ClusterState, targets: Targets, may_change: tuple[str, ...]
) -> Iterator[str]:
    held: dict[str, list[Partition]] = {}
    for partition in targets:
        route = state.route(partition)
        if route and route not in may_change:
            held.setdefault(route, []).append(partition)
    is_stock = state.controller.kind is ControllerKind.STOCK
    for route, partitions in held.items():
        names = ", ".join(map(format_partition, sorted(partitions)))
        advice = _BY_API if is_stock else _HOW_TO_END.get(route, _CHANGE_BY_SAME_ROUTE)
        yield f"{names}: already being reassigned, by {route}: {advice}"
