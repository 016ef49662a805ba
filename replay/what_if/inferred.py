"""Requests of clients as causes: those to a stock controller, which ZooKeeper's log does not have,
are inferred from what it wrote; those that a controller rejected are no causes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import structs

from controller.core.error_codes import (
    ELECTION_NOT_NEEDED,
    ELIGIBLE_LEADERS_NOT_AVAILABLE,
    NONE,
    PREFERRED_LEADER_NOT_AVAILABLE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from controller.core.znodes import Name
from replay.what_if.causes import BrokerUnregistered, ExternalCause
from replay.what_if.history import (
    ClusterHistory,
    PartitionChange,
    PartitionSnapshot,
    RegistrationChange,
    ZnodeChange,
    is_unclean,
)
from replay.world.inputs import (
    CancelReassignment,
    DeleteTopic,
    ElectLeaders,
    Input,
    Reassign,
    Target,
)

Rejected = frozenset[Name] | None
"""The partitions of a request that the controller rejected; None: the whole request."""

_REPEATED: Final = (
    NONE,
    ELECTION_NOT_NEEDED,
    ELIGIBLE_LEADERS_NOT_AVAILABLE,
    PREFERRED_LEADER_NOT_AVAILABLE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
"""The errors of partitions with which a request is repeated: it was not rejected, or the simulated
controller rejects it, too. For a topic that is being deleted, it ends a reassignment by znode."""

_SHUTDOWN_MS: Final = 10_000
"""How long a controlled shutdown takes at most."""

_KNOWN_WITHIN_MS: Final = 5_000
"""A request that the log has is at most so much older than what it led to."""

_DELETED_WITHIN_MS: Final = 30_000
"""The deletion of a topic begins at most so much later than its request, after queued events."""


def inferred_requests(
    history: ClusterHistory, causes: Sequence[ExternalCause], allows_unclean: Iterable[str]
) -> list[ExternalCause]:
    """The requests that no cause explains yet. `allows_unclean` are the topics whose configuration
    once set whether unclean elections are allowed."""
    allowed = frozenset(allows_unclean)
    before: dict[Name, PartitionSnapshot] = {}
    running: dict[int, None] = {}
    found: list[ExternalCause] = []
    for change in history.changes:
        if isinstance(change, RegistrationChange):
            change.apply(running)
        if not isinstance(change, PartitionChange):
            continue
        was, now = before.pop(change.name, None), change.now
        if now is None:
            continue
        before[change.name] = now
        if was is None:
            continue
        for cause in _requests(change, was, now, running):
            is_allowed = isinstance(cause.what, ElectLeaders) and not cause.is_certain
            if not (is_allowed and change.name[0] in allowed) and not _is_known(causes, cause):
                found.append(cause)
    return found


def _requests(
    change: PartitionChange,
    was: PartitionSnapshot,
    now: PartitionSnapshot,
    running: dict[int, None],
) -> Iterator[ExternalCause]:
    """The inputs that one change shows. An election of the preferred leader may also be the
    controller's own rebalance, so it happens in every future."""
    name, at_ms = change.name, change.at_ms
    target = now.assignment.target
    if is_unclean(was, now):
        yield ExternalCause(change.seq, at_ms, ElectLeaders(at_ms, (name,), "unclean"))
    elif _is_preferred(was, now, running):
        yield ExternalCause(change.seq, at_ms, ElectLeaders(at_ms, (name,)), is_certain=True)
    if now.assignment.is_being_reassigned and target != was.assignment.target:
        act: Input = Reassign(at_ms, (Target(*name, target),))
        yield ExternalCause(change.seq, at_ms, act)
    is_over = was.assignment.is_being_reassigned and not now.assignment.is_being_reassigned
    if is_over and now.assignment.replicas == was.assignment.origin:
        yield ExternalCause(change.seq, at_ms, CancelReassignment(at_ms, (name,)))


def _is_preferred(was: PartitionSnapshot, now: PartitionSnapshot, running: dict[int, None]) -> bool:
    """Whether the preferred replica was elected, although the leader was well."""
    is_well = was.leader in running and was.leader in now.isr
    is_preferred = now.leader != was.leader and (now.leader,) == now.assignment.origin[:1]
    return is_well and is_preferred and not was.assignment.is_being_reassigned


def _is_known(causes: Sequence[ExternalCause], inferred: ExternalCause) -> bool:
    """Whether the log has a request of this kind, shortly before."""
    return any(
        type(one.what) is type(inferred.what)
        and 0 <= inferred.at_ms - one.at_ms <= _KNOWN_WITHIN_MS
        and _names(one.what) & _names(inferred.what)
        for one in causes
    )


def _names(what: object) -> frozenset[Name]:
    if isinstance(what, Reassign):
        return frozenset((one.topic, one.partition) for one in what.targets)
    return frozenset(getattr(what, "partitions", ()))


def without_rejected_deletions(
    history: ClusterHistory, causes: Sequence[ExternalCause]
) -> list[ExternalCause]:
    """The causes without requests for the deletion of topics that no deletion followed: the
    simulated controller would not reject them for want of an authorization."""
    begun = [
        one
        for one in history.changes
        if isinstance(one, ZnodeChange) and one.data is not None and one.deleted_topic
    ]
    return [
        cause
        for cause in causes
        if not isinstance(cause.what, DeleteTopic)
        or any(
            one.deleted_topic == cause.what.topic
            and one.seq >= cause.seq
            and one.at_ms - cause.at_ms <= _DELETED_WITHIN_MS
            for one in begun
        )
    ]


def rejected_partitions(error: int, errors: Mapping[Name, int]) -> Rejected:
    """The rejected partitions, by the errors of a response and of its partitions."""
    if error != NONE:
        return None
    return frozenset(name for name, code in errors.items() if code not in _REPEATED)


def without_rejected_requests(
    causes: Sequence[ExternalCause], rejected: Mapping[int, Rejected]
) -> list[ExternalCause]:
    """The causes without the reassignments, cancellations and elections that the controller
    rejected, by the event of the request."""
    found: list[ExternalCause] = []
    for cause in causes:
        what = cause.what
        names = rejected.get(cause.seq, frozenset())
        if isinstance(what, Reassign | CancelReassignment | ElectLeaders) and names != frozenset():
            if names is None:
                continue
            accepted = _without_partitions(what, names)
            if accepted is None:
                continue
            cause = structs.replace(cause, what=accepted)
        found.append(cause)
    return found


def _without_partitions(
    what: Reassign | CancelReassignment | ElectLeaders, names: frozenset[Name]
) -> Input | None:
    """The request without some of its partitions; None: nothing is left. A request for all
    partitions stays."""
    if isinstance(what, Reassign):
        targets = tuple(one for one in what.targets if (one.topic, one.partition) not in names)
        return structs.replace(what, targets=targets) if targets else None
    partitions = tuple(one for one in what.partitions if one not in names)
    if what.partitions and not partitions:
        return None
    return structs.replace(what, partitions=partitions)


def with_shutdown_requests(
    history: ClusterHistory, causes: Sequence[ExternalCause]
) -> list[ExternalCause]:
    """The causes, with controlled shutdowns at the time at which the controller began with them: it
    removes the broker from the ISRs then. This is the time of those whose request no event shows.
    """
    found: list[ExternalCause] = []
    for cause in causes:
        gone = cause.what
        if isinstance(gone, BrokerUnregistered) and gone.is_controlled:
            first = _leaves_isrs(history, gone) if cause.seq == gone.gone_seq else None
            if first is not None:
                cause = ExternalCause(first.seq, first.at_ms, gone, cause.seq)
        found.append(cause)
    return found


def _leaves_isrs(history: ClusterHistory, gone: BrokerUnregistered) -> PartitionChange | None:
    """The first change that removes a broker from an ISR, before its registration ended. A broker
    that has just registered may have left the ISRs before, when it failed. The deletion of a topic
    empties its ISRs."""
    before: dict[Name, PartitionSnapshot] = {}
    deleted: dict[str, None] = {}
    found: PartitionChange | None = None
    for change in history.changes:
        if change.seq > gone.gone_seq:
            break
        if isinstance(change, RegistrationChange):
            if change.broker == gone.broker and change.is_registered:
                found = None
            continue
        if isinstance(change, ZnodeChange):
            change.apply_deletion(deleted)
        if not isinstance(change, PartitionChange) or change.now is None:
            continue
        was = before.get(change.name)
        before[change.name] = change.now
        has_left = was is not None and gone.broker in was.isr and gone.broker not in change.now.isr
        is_of_shutdown = has_left and change.name[0] not in deleted
        if found is None and is_of_shutdown and gone.gone_ms - change.at_ms <= _SHUTDOWN_MS:
            found = change
    return found
