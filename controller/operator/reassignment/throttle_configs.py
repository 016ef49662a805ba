"""The configurations of a topic that name its throttled replicas. Pure."""

from collections.abc import Mapping
from typing import Final

from controller.core.znodes import parse_natural

LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
TOPIC_KEYS: Final = (LEADER_REPLICAS, FOLLOWER_REPLICAS)


def brokers_of_throttled_replicas(config: Mapping[str, str]) -> frozenset[int]:
    """The brokers that the throttled replicas of a topic name, as in "0:1,0:2". The wildcard "*"
    names none."""
    listed = ",".join(config.get(one, "") for one in TOPIC_KEYS).split(",")
    brokers = (parse_natural(one.partition(":")[2].strip()) for one in listed)
    return frozenset(one for one in brokers if one is not None)
