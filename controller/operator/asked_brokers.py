"""Asks running brokers for what ZooKeeper does not have: settings, and the versions of the APIs."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import anyio
from msgspec import Struct

from controller.brokers.connection import BrokerConnection
from controller.brokers.errors import ChannelError
from controller.brokers.security import PLAIN, BrokerSecurity
from controller.core.values import Broker

_CLIENT_ID: Final = "refold"
_RESPONSE_MS_MAX: Final = 3_000
_BROKERS_AT_ONCE: Final = 20

_Result = TypeVar("_Result")


class AskedBroker(Struct, frozen=True, kw_only=True):
    """A broker as any client sees it: the highest version that it supports of each API, by key, and
    its values of some settings. `fault`: why something of it is unknown, or empty."""

    broker: int
    highest_versions: tuple[tuple[int, int], ...] = ()
    settings: dict[str, str] = {}
    fault: str = ""


async def ask_brokers(
    brokers: Sequence[Broker], keys: Sequence[str], security: BrokerSecurity = PLAIN
) -> tuple[AskedBroker, ...]:
    """The API versions of each broker, and its values of these settings. A broker is asked on the
    listener that `security` has, or else on its first one without TLS and SASL."""
    return await of_each(brokers, lambda one: _ask(one, keys, security))


async def of_each(
    brokers: Sequence[Broker], probe: Callable[[Broker], Awaitable[_Result]]
) -> tuple[_Result, ...]:
    """The result of a probe for each broker, a few at once."""
    found: dict[int, _Result] = {}
    limit = anyio.CapacityLimiter(_BROKERS_AT_ONCE)

    async def limited(broker: Broker) -> None:
        async with limit:
            found[broker.id] = await probe(broker)

    async with anyio.create_task_group() as tasks:
        for broker in brokers:
            tasks.start_soon(limited, broker)
    return tuple(found[broker.id] for broker in brokers)


async def _ask(broker: Broker, keys: Sequence[str], security: BrokerSecurity) -> AskedBroker:
    endpoint = security.reachable(broker.endpoints)
    if endpoint is None:
        fault = "has no listener without TLS and SASL: give a broker's settings with --config"
        return AskedBroker(broker=broker.id, fault=fault)
    try:
        connection = await BrokerConnection.open(endpoint, _CLIENT_ID, _RESPONSE_MS_MAX, security)
    except ChannelError as error:
        return AskedBroker(broker=broker.id, fault=str(error))
    highest = tuple(connection.highest_versions)
    try:
        entries = await connection.settings_of(broker.id, keys)
    except ChannelError as error:
        return AskedBroker(broker=broker.id, highest_versions=highest, fault=str(error))
    finally:
        connection.close()
    values = {one.name: one.value or "" for one in entries}
    return AskedBroker(broker=broker.id, highest_versions=highest, settings=values)
