"""The assignment of replicas to brokers.

New partitions: Kafka's AdminUtils.assignReplicasToBrokers. The first replicas are assigned round
robin from a random broker. The others follow at a random distance, which grows with every round.
With racks, the brokers are ordered so that racks alternate, and a rack gets a second replica only
when every rack has one.

Reassignments: the assignment after a change of target (KIP-236).
"""

from collections.abc import Sequence

from controller.core.error_codes import (
    INVALID_PARTITIONS,
    INVALID_REPLICATION_FACTOR,
    UNKNOWN_SERVER_ERROR,
)
from controller.core.errors import RequestRefused
from controller.core.values import NO_LEADER, Assignment, Broker


def check_counts(brokers: Sequence[Broker], partitions: int, replication_factor: int) -> None:
    """Check that these brokers can hold the numbers of partitions and replicas.

    Raises RequestRefused.
    """
    if partitions <= 0:
        raise RequestRefused(INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        text = "Replication factor must be larger than 0."
        raise RequestRefused(INVALID_REPLICATION_FACTOR, text)
    if replication_factor > len(brokers):
        text = (
            f"Replication factor: {replication_factor} larger than available brokers: "
            f"{len(brokers)}."
        )
        raise RequestRefused(INVALID_REPLICATION_FACTOR, text)
    if lacks_racks(brokers):
        raise RequestRefused(UNKNOWN_SERVER_ERROR)


def lacks_racks(brokers: Sequence[Broker]) -> bool:
    """Whether some brokers have a rack and others have none: Kafka assigns nothing to them."""
    with_rack = sum(one.rack is not None for one in brokers)
    return 0 < with_rack < len(brokers)


def assign_replicas(
    brokers: Sequence[Broker],
    partitions: int,
    replication_factor: int,
    start: int,
    shift: int,
    first_partition: int = 0,
) -> list[tuple[int, ...]]:
    """The replicas of each new partition; `first_partition` is the first of them.

    `brokers` are sorted by id. `start` is the index of the broker that partition 0 begins with,
    `shift` the distance of second replicas: both are random, or the same index where the topic has
    partitions already. `check_counts` must have accepted the counts.
    """
    racks = {one.id: one.rack for one in brokers if one.rack is not None}
    ids = _rack_alternated(racks) if racks else [one.id for one in brokers]
    assigned = []
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % len(ids) == 0:
            shift += 1
        first = (partition + start) % len(ids)
        if racks:
            assigned.append(_across_racks(ids, racks, first, shift, replication_factor))
        else:
            others = (_follower(first, shift, j, len(ids)) for j in range(replication_factor - 1))
            assigned.append((ids[first], *(ids[place] for place in others)))
    return assigned


def _follower(first: int, shift: int, turn: int, count: int) -> int:
    """The index of a further replica (AdminUtils.replicaIndex)."""
    return (first + 1 + (shift + turn) % (count - 1)) % count


def _rack_alternated(racks: dict[int, str]) -> list[int]:
    """One broker of each rack in turn, racks and brokers sorted (getRackAlternatedBrokerList)."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    turns = max(map(len, by_rack.values()))
    return [
        by_rack[rack][turn]
        for turn in range(turns)
        for rack in sorted(by_rack)
        if turn < len(by_rack[rack])
    ]


def _across_racks(
    ids: list[int], racks: dict[int, str], first: int, shift: int, replication_factor: int
) -> tuple[int, ...]:
    """The replicas of one partition: each broker once, and no rack twice while another has none."""
    rack_count = len(set(racks.values()))
    replicas = [ids[first]]
    used = {racks[ids[first]]}
    turn = 0
    while len(replicas) < replication_factor:
        broker = ids[_follower(first, shift * rack_count, turn, len(ids))]
        turn += 1
        is_new_rack = racks[broker] not in used or len(used) == rack_count
        if is_new_rack and broker not in replicas:
            replicas.append(broker)
            used.add(racks[broker])
    return tuple(replicas)


# Changes of a reassignment's target (KIP-236) ---------------------------------------------------
#
# `assigned` are the present replicas, `top` is the number of replicas before the reassignment,
# `target` the new target (KB 14.6; docs/kip-236-design.md#the-drop-set).


def replicas_to_drop(
    assigned: tuple[int, ...],
    leader: int,
    isr: tuple[int, ...],
    top: int,
    target: tuple[int, ...],
    originals: tuple[int, ...],
) -> tuple[int, ...]:
    """The intermediate replicas that are dropped at once.

    These replicas are not in the new target and not originals. They are also not among the first
    `top` of: the leader, the other replicas in sync, the replicas out of sync. The leader is never
    dropped.
    """
    first = () if leader == NO_LEADER else (leader,)
    existing = list(dict.fromkeys((*first, *isr, *assigned)))
    kept = (*existing[:top], *target, *originals)
    return tuple(one for one in assigned if one not in kept)


def changed_assignment(
    assigned: tuple[int, ...],
    dropped: tuple[int, ...],
    target: tuple[int, ...],
    originals: tuple[int, ...],
) -> Assignment:
    """The assignment between the originals and the new target.

    A kept intermediate replica is both added and removed: a stock controller that resumes the
    reassignment also takes the originals for the origin.
    """
    kept = [one for one in assigned if one not in dropped]
    replicas = tuple(dict.fromkeys((*target, *kept)))
    return Assignment(
        replicas,
        tuple(one for one in replicas if one not in originals),
        tuple(one for one in replicas if one not in target),
    )
