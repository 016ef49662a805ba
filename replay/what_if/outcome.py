"""How partitions fared, and where two outcomes differ."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from controller.core.znodes import Name
from replay.description.phrases import broker_list
from replay.names import partition_name
from replay.what_if.history import (
    Change,
    PartitionChange,
    PartitionSnapshot,
    RegistrationChange,
    is_leaderless,
    is_unclean,
)

TOLERANCE_MS: Final = 1_000
"""Offline times that differ less than this do not differ: a simulated broker needs another time to
start, and a simulated network has another latency."""


class PartitionOutcome(Struct, frozen=True):
    """How a partition is at the end, and what happened to it.

    - `leader`: -1 for none; `isr`: sorted
    - `target`: the replicas that an unfinished reassignment leads to; empty: none
    - `offline_ms`: how long it had no leader that was registered
    - `elections`: how often its leader changed
    - `unclean`: how often a leader outside of the ISR was elected, which loses records
    - `lost_all`, `lost_leader`: records of the simulated producers with acks=all and acks=1 that
      were acknowledged and that the partition does not have at the end; None for a log, which has
      no records
    """

    leader: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    target: tuple[int, ...] = ()
    offline_ms: int = 0
    elections: int = 0
    unclean: int = 0
    lost_all: int | None = None
    lost_leader: int | None = None


Outcome = Mapping[Name, PartitionOutcome]


class OutcomeAspect(StrEnum):
    """The respects in which two outcomes can differ."""

    EXISTS = "exists"
    LEADER = "leader"
    ISR = "isr"
    REPLICAS = "replicas"
    REASSIGNMENT = "reassignment"
    OFFLINE = "offline"
    UNCLEAN = "unclean elections"
    LOST = "lost records"


class OutcomeDifference(Struct, frozen=True):
    """A difference of one partition, as text."""

    partition: str
    what: OutcomeAspect
    base: str
    other: str


def outcome_of(
    changes: Iterable[Change],
    begin_ms: int,
    end_ms: int,
    lost: Mapping[Name, tuple[int, int]] | None = None,
) -> Outcome:
    """The outcome at `end_ms` of what happened since `begin_ms`. `lost` has the lost records by
    partition."""
    partitions: dict[Name, PartitionSnapshot] = {}
    brokers: dict[int, None] = {}
    since: dict[Name, int] = {}
    offline: dict[Name, int] = {}
    elections: dict[Name, int] = {}
    unclean: dict[Name, int] = {}

    def note_state(name: Name, at_ms: int) -> None:
        """Begin or end the time in which a partition is offline."""
        now, at_ms = partitions.get(name), max(at_ms, begin_ms)
        is_offline = now is not None and now.state is not None and is_leaderless(now, brokers)
        if is_offline:
            since.setdefault(name, at_ms)
        elif name in since:
            offline[name] = offline.get(name, 0) + at_ms - since.pop(name)

    for change in changes:
        if change.at_ms > end_ms:
            continue
        if isinstance(change, PartitionChange):
            name, now = change.name, change.now
            was = partitions.get(name)
            if now is None:
                partitions.pop(name, None)
            else:
                partitions[name] = now
                if was is not None and was.leader != now.leader and change.at_ms > begin_ms:
                    elections[name] = elections.get(name, 0) + 1
                    unclean[name] = unclean.get(name, 0) + is_unclean(was, now)
            note_state(name, change.at_ms)
        elif isinstance(change, RegistrationChange):
            change.apply(brokers)
            for name, one in partitions.items():
                if one.leader == change.broker:
                    note_state(name, change.at_ms)
    for name, began_ms in since.items():
        offline[name] = offline.get(name, 0) + end_ms - began_ms
    return {
        name: PartitionOutcome(
            now.leader,
            tuple(sorted(now.isr)),
            now.assignment.replicas,
            now.assignment.target if now.assignment.is_being_reassigned else (),
            offline.get(name, 0),
            elections.get(name, 0),
            unclean.get(name, 0),
            *((None, None) if lost is None else lost.get(name, (0, 0))),
        )
        for name, now in sorted(partitions.items())
    }


def differences(base: Outcome, other: Outcome) -> list[OutcomeDifference]:
    """Where two outcomes differ, by partition."""
    found: list[OutcomeDifference] = []
    for name in sorted(base.keys() | other.keys()):
        partition = partition_name(*name)
        of_base, of_other = base.get(name), other.get(name)
        if of_base is None or of_other is None:
            differing: Iterable[OutcomeAspect] = (OutcomeAspect.EXISTS,)
        else:
            differing = _differing_aspects(of_base, of_other)
        found += [
            OutcomeDifference(partition, what, text_of(what, of_base), text_of(what, of_other))
            for what in differing
        ]
    return found


def _differing_aspects(base: PartitionOutcome, other: PartitionOutcome) -> Iterable[OutcomeAspect]:
    if base.leader != other.leader:
        yield OutcomeAspect.LEADER
    if base.isr != other.isr:
        yield OutcomeAspect.ISR
    if sorted(base.replicas) != sorted(other.replicas):
        yield OutcomeAspect.REPLICAS
    if base.target != other.target:
        yield OutcomeAspect.REASSIGNMENT
    if base.unclean != other.unclean:
        yield OutcomeAspect.UNCLEAN
    if abs(base.offline_ms - other.offline_ms) >= TOLERANCE_MS:
        yield OutcomeAspect.OFFLINE
    is_known = base.lost_all is not None and other.lost_all is not None
    if is_known and _loses(base) != _loses(other):
        yield OutcomeAspect.LOST


def _loses(one: PartitionOutcome) -> tuple[bool, bool]:
    """Whether records are lost, by acks. How many there are depends on the simulated load only."""
    return bool(one.lost_all), bool(one.lost_leader)


def text_of(what: OutcomeAspect, one: PartitionOutcome | None) -> str:
    """The value in an outcome of something that differs; None: the partition does not exist."""
    if what is OutcomeAspect.EXISTS or one is None:
        return "no" if one is None else "yes"
    match what:
        case OutcomeAspect.LEADER:
            return "none" if one.leader < 0 else str(one.leader)
        case OutcomeAspect.ISR:
            return broker_list(one.isr)
        case OutcomeAspect.REPLICAS:
            return broker_list(one.replicas)
        case OutcomeAspect.REASSIGNMENT:
            return f"under way to {broker_list(one.target)}" if one.target else "none under way"
        case OutcomeAspect.UNCLEAN:
            return str(one.unclean)
        case OutcomeAspect.OFFLINE:
            return f"{one.offline_ms / 1000:.1f} s"
        case _ if one.lost_all is None:
            return "not known"
        case _:
            return f"{one.lost_all} acks=all, {one.lost_leader} acks=1"
