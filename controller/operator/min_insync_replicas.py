"""Asks brokers what they do with min.insync.replicas, which ZooKeeper does not have
(docs/health.md)."""

from collections.abc import Sequence
from typing import Final

import anyio
from msgspec import Struct

from controller.brokers.connection import BrokerConnection
from controller.brokers.errors import ChannelError
from controller.core.releases import Release, release_of
from controller.core.topic_configs import MIN_INSYNC_REPLICAS
from controller.core.values import Broker, Endpoint

_CLIENT_ID: Final = "refold-health"
_ANSWER_MS_MAX: Final = 3_000
_BROKERS_AT_ONCE: Final = 20
_FIRST_BOUNDED: Final[Release] = (3, 7)


class MinInsyncReplicas(Struct, frozen=True):
    """What brokers do with min.insync.replicas.

    `own`: the brokers' own setting, for topics without another one; the largest one if they differ,
    None if it is not known. `is_bounded`: no more than the number of replicas of a partition count,
    as in Kafka 3.7 and later (KAFKA-15583). Earlier brokers refuse producers with acks=all if a
    partition has fewer replicas.
    """

    own: int | None = None
    is_bounded: bool = False


class _Answer(Struct):
    own: int | None
    release: Release


async def ask_brokers(brokers: Sequence[Broker]) -> MinInsyncReplicas:
    """The answers of the brokers that have a listener without TLS and SASL. Those that do not
    answer are passed over."""
    found: list[_Answer] = []
    limit = anyio.CapacityLimiter(_BROKERS_AT_ONCE)

    async def ask(broker: int, endpoint: Endpoint) -> None:
        async with limit:
            answer = await _ask(broker, endpoint)
            if answer is not None:
                found.append(answer)

    async with anyio.create_task_group() as tasks:
        for broker in brokers:
            plain = [one for one in broker.endpoints if one.security_protocol == "PLAINTEXT"]
            if plain:
                tasks.start_soon(ask, broker.id, plain[0])
    return MinInsyncReplicas(
        max((one.own for one in found if one.own is not None), default=None),
        bool(found) and all(one.release >= _FIRST_BOUNDED for one in found),
    )


async def _ask(broker: int, endpoint: Endpoint) -> _Answer | None:
    """None if the broker does not answer."""
    try:
        connection = await BrokerConnection.open(endpoint, _CLIENT_ID, _ANSWER_MS_MAX)
    except ChannelError:
        return None
    try:
        entries = await connection.settings_of(broker, (MIN_INSYNC_REPLICAS,))
    except ChannelError:
        entries = []
    finally:
        connection.close()
    values = [one.value for one in entries if one.value and one.value.isdecimal()]
    own = int(values[0]) if values else None
    return _Answer(own, release_of(connection.highest_versions))
