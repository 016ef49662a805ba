"""Which replicas and brokers a throttled reassignment limits (Kafka's calculateProposedMoveMap,
calculateLeaderThrottles, calculateFollowerThrottles). Pure."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from controller.core.values import Assignment
from controller.operator.reassignment.documents import Partition, Targets

LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
TOPIC_KEYS: Final = (LEADER_REPLICAS, FOLLOWER_REPLICAS)

BROKER_KEYS: Final = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
)
BROKER_KEYS_CLEARED: Final = (*BROKER_KEYS, "replica.alter.log.dirs.io.max.bytes.per.second")
"""--verify clears the third one, too, as Kafka's tool does."""

UNTIL_VERIFY: Final = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the "
    "throttle is removed."
)


class Move(NamedTuple):
    """From which brokers a partition moves, and to which it did not have before."""

    sources: tuple[int, ...]
    destinations: tuple[int, ...]


def moves(targets: Targets, assignments: Mapping[Partition, Assignment]) -> dict[Partition, Move]:
    """What moves: the targets, and every assignment that is being changed already."""
    found = {
        partition: Move(one.origin, one.adding)
        for partition, one in assignments.items()
        if one.is_being_reassigned
    }
    for partition, replicas in targets.items():
        sources = assignments[partition].origin
        new = tuple(one for one in replicas if one not in sources)
        found[partition] = Move(sources, new)
    return found


def topic_throttles(moving: Mapping[Partition, Move]) -> dict[str, dict[str, str]]:
    """The throttled replicas of each topic, by key: "0:1,0:2", sorted as text."""
    leaders: dict[str, set[str]] = {}
    followers: dict[str, set[str]] = {}
    for (topic, number), move in moving.items():
        leaders.setdefault(topic, set()).update(f"{number}:{one}" for one in move.sources)
        followers.setdefault(topic, set()).update(f"{number}:{one}" for one in move.destinations)
    return {
        topic: {
            LEADER_REPLICAS: ",".join(sorted(leaders[topic])),
            FOLLOWER_REPLICAS: ",".join(sorted(followers[topic])),
        }
        for topic in sorted(leaders)
    }


def throttled_brokers(moving: Iterable[Move]) -> list[int]:
    """Every broker that takes part."""
    return sorted({one for move in moving for one in (*move.sources, *move.destinations)})


def rates(bytes_per_second: int) -> dict[str, str]:
    """The limits of a broker."""
    return dict.fromkeys(BROKER_KEYS, str(bytes_per_second))
