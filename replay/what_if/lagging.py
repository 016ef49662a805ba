"""Followers that were not in the ISR although their brokers ran.

The simulated cluster cannot know how much a follower has to copy, or how slow its disk was. The log
shows how long it took.
"""

from collections.abc import Sequence
from typing import Final

from controller.core.values import NO_LEADER
from controller.core.znodes import Name
from replay.what_if.causes import (
    JOINS_MS,
    BrokerBounced,
    BrokerRegistered,
    BrokerUnregistered,
    CopyingReplica,
    ExternalCause,
    ReplicaLagged,
)
from replay.what_if.history import (
    ClusterHistory,
    PartitionChange,
    PartitionSnapshot,
    RegistrationChange,
    ZnodeChange,
    is_leaderless,
)
from replay.world.inputs import FailLogDirectory

_SOON_MS: Final = 30_000
"""A follower that leaves the ISR less than this before its broker is gone has failed already."""
_AT_ONCE_MS: Final = 2_000
"""A follower that joins the ISR faster than this is left to the simulated cluster."""

_Replica = tuple[int, Name]


def replica_lags(history: ClusterHistory, causes: Sequence[ExternalCause]) -> list[ExternalCause]:
    """The followers that fell out of the ISR of a leader that stayed, while their brokers ran."""
    gone = [one for one in causes if isinstance(one.what, BrokerUnregistered)]
    failures = _failures(causes)
    before: dict[Name, PartitionSnapshot] = {}
    running: dict[int, None] = {}
    deleted: dict[str, None] = {}
    found: list[ExternalCause] = []
    for change in history.changes:
        if isinstance(change, RegistrationChange):
            change.apply(running)
            continue
        if isinstance(change, ZnodeChange):
            change.apply_deletion(deleted)
        if not isinstance(change, PartitionChange):
            continue
        now, was = change.now, before.get(change.name)
        if now is None:
            before.pop(change.name, None)
            continue
        before[change.name] = now
        if was is None or was.leader != now.leader or change.name[0] in deleted:
            continue
        for broker in was.isr:
            has_left = broker not in now.isr and broker in now.assignment.target
            if not has_left or broker not in running or _ends(gone, broker, change.at_ms):
                continue
            if _has_failed(failures, (broker, change.name), change.at_ms):
                continue
            until_ms = _joins_again(history, change.name, broker, change.seq)
            lag = ReplicaLagged(broker, *change.name, until_ms)
            found.append(ExternalCause(change.seq, change.at_ms, lag))
    return found


def copying_replicas(
    history: ClusterHistory, causes: Sequence[ExternalCause]
) -> list[CopyingReplica]:
    """The followers that had to copy much after their broker started or they were assigned.

    Without a leader a follower cannot copy: such a time does not show that it is slow.
    """
    lagging = {
        (one.what.broker, (one.what.topic, one.what.partition)): one.seq
        for one in causes
        if isinstance(one.what, ReplicaLagged)
    }
    failures = _failures(causes)
    running: dict[int, tuple[int, int]] = {}
    since: dict[_Replica, tuple[int, int]] = {}
    now: dict[Name, PartitionSnapshot] = {}
    found: list[CopyingReplica] = []

    def stop_copying(key: _Replica, at_ms: int) -> None:
        """A replica copied until now, and would have joined the ISR later."""
        begun = since.pop(key, None)
        if begun is not None:
            found.append(CopyingReplica(key[0], *key[1], begun[1], at_ms + JOINS_MS, begun[0]))

    def outside(name: Name, at_ms: int) -> None:
        partition = now[name]
        for broker in partition.assignment.replicas:
            key = (broker, name)
            if broker in partition.isr:
                begun = since.pop(key, None)
                if begun is not None and at_ms - begun[1] > _AT_ONCE_MS:
                    found.append(CopyingReplica(broker, *name, begun[1], at_ms, begun[0]))
            elif broker not in running:
                stop_copying(key, at_ms)
            elif is_leaderless(partition, running):
                if key in since and at_ms - since[key][1] <= _AT_ONCE_MS:
                    if partition.leader == NO_LEADER:
                        stop_copying(key, at_ms)
                    # The broker of the leader is gone, and failed before: nothing was to copy.
                    since.pop(key, None)
            elif key in since or key in lagging or _has_failed(failures, key, at_ms):
                pass
            else:
                after, began_ms = running[broker]
                since[key] = (after if began_ms == at_ms else 0, at_ms)

    for change in history.changes:
        if isinstance(change, RegistrationChange):
            if change.is_registered:
                running[change.broker] = (change.seq, change.at_ms)
            else:
                running.pop(change.broker, None)
            for name, partition in now.items():
                if change.broker in partition.assignment.replicas:
                    outside(name, change.at_ms)
        elif isinstance(change, PartitionChange):
            if change.now is None:
                now.pop(change.name, None)
            else:
                now[change.name] = change.now
                outside(change.name, change.at_ms)
    for (broker, name), (after, from_ms) in since.items():
        found.append(CopyingReplica(broker, *name, from_ms, None, after))
    return found


def _failures(causes: Sequence[ExternalCause]) -> list[tuple[FailLogDirectory, int | None]]:
    """The failures of log directories, with the time of the start that repairs each one."""
    found: list[tuple[FailLogDirectory, int | None]] = []
    for cause in causes:
        if isinstance(cause.what, FailLogDirectory):
            starts = [
                one.at_ms
                for one in causes
                if isinstance(one.what, BrokerRegistered | BrokerBounced)
                and one.what.broker == cause.what.broker
                and one.at_ms > cause.at_ms
            ]
            repaired_ms = None if cause.what.survives_restart else min(starts, default=None)
            found.append((cause.what, repaired_ms))
    return found


def _has_failed(
    failures: Sequence[tuple[FailLogDirectory, int | None]], replica: _Replica, at_ms: int
) -> bool:
    """Whether a replica is in a log directory that has failed."""
    broker, name = replica
    return any(
        one.broker == broker
        and name in one.partitions
        and one.at_ms <= at_ms
        and (repaired_ms is None or at_ms < repaired_ms)
        for one, repaired_ms in failures
    )


def _ends(gone: Sequence[ExternalCause], broker: int, at_ms: int) -> bool:
    """Whether a broker is about to be gone."""
    return any(
        isinstance(one.what, BrokerUnregistered)
        and one.what.broker == broker
        and one.at_ms - _SOON_MS <= at_ms <= one.what.gone_ms + _AT_ONCE_MS
        for one in gone
    )


def _joins_again(history: ClusterHistory, name: Name, broker: int, seq: int) -> int | None:
    for one in history.changes:
        if one.seq <= seq:
            continue
        if isinstance(one, RegistrationChange) and one.broker == broker and not one.is_registered:
            return one.at_ms
        if not isinstance(one, PartitionChange) or one.name != name:
            continue
        if one.now is None or broker in one.now.isr:
            return one.at_ms
    return None
