"""Asks brokers what they do with min.insync.replicas, which ZooKeeper does not have
(docs/health.md)."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from controller.brokers.security import PLAIN, BrokerSecurity
from controller.core.releases import Release, release_of
from controller.core.topic_configs import MIN_INSYNC_REPLICAS
from controller.core.values import Broker
from controller.operator import asked_brokers

_FIRST_BOUNDED: Final[Release] = (3, 7)


class MinInsyncReplicas(Struct, frozen=True):
    """The brokers' handling of min.insync.replicas.

    `own`: the brokers' own setting, for topics without another one; the largest one if they differ,
    None if it is not known. `is_bounded`: no more than the number of replicas of a partition count,
    as in Kafka 3.7 and later (KAFKA-15583). Earlier brokers refuse producers with acks=all if a
    partition has fewer replicas.
    """

    own: int | None = None
    is_bounded: bool = False


async def ask_brokers(
    brokers: Sequence[Broker], security: BrokerSecurity = PLAIN
) -> MinInsyncReplicas:
    """The responses of the brokers that can be asked. Those that do not answer are passed over."""
    answers = await asked_brokers.ask_brokers(brokers, (MIN_INSYNC_REPLICAS,), security)
    releases = [release_of(one.highest_versions) for one in answers if one.highest_versions]
    values = [one.settings.get(MIN_INSYNC_REPLICAS, "") for one in answers]
    return MinInsyncReplicas(
        max((int(one) for one in values if one.isdecimal()), default=None),
        bool(releases) and all(one >= _FIRST_BOUNDED for one in releases),
    )
