"""Probes brokers for stuck registrations (ZOOKEEPER-1740; KB 16.5) without a daemon.

`controller.core.procedures.brokers.registration_checks` has the rule. Only a registration has the
address of a broker, so for a broker that has none the caller names the addresses to try.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import anyio
from msgspec import Struct

from controller.brokers.connection import BrokerConnection, probe
from controller.brokers.errors import ChannelError
from controller.brokers.security import PLAIN, BrokerSecurity
from controller.core.events import ANSWERS
from controller.core.procedures.brokers.registration_checks import shows_stuck
from controller.core.values import Broker, Endpoint

_CLIENT_ID: Final = "refold"
_PROBE_MS_MAX: Final = 5_000
_PROBES_AT_ONCE: Final = 20
_ID_SETTING: Final = "broker.id"


class StuckRegistration(Struct, frozen=True):
    """The result of one probe of a broker, as `SuspectRegistration` has it."""

    broker: int
    is_registered: bool
    address: str


async def probe_registrations(
    registered: Sequence[Broker],
    lost: Mapping[int, Sequence[Endpoint]],
    security: BrokerSecurity = PLAIN,
) -> list[StuckRegistration]:
    """The brokers whose registration looks stuck now, by id. `lost`: brokers that are not
    registered, and addresses at which they may answer."""
    found: list[StuckRegistration] = []
    limit = anyio.CapacityLimiter(_PROBES_AT_ONCE)
    theirs = {(one.host, one.port) for broker in registered for one in broker.endpoints}

    async def of_registered(broker: Broker, endpoint: Endpoint) -> None:
        async with limit:
            result, _ = await probe(endpoint, _CLIENT_ID, _PROBE_MS_MAX, security)
        if shows_stuck(result, is_registered=True):
            found.append(StuckRegistration(broker.id, True, _address(endpoint)))

    async def of_lost(broker: int, endpoint: Endpoint) -> None:
        async with limit:
            result = ANSWERS if await _is_at(broker, endpoint, security) else ""
        if shows_stuck(result, is_registered=False):
            found.append(StuckRegistration(broker, False, _address(endpoint)))

    async with anyio.create_task_group() as tasks:
        for one in registered:
            if (endpoint := security.reachable(one.endpoints)) is not None:
                tasks.start_soon(of_registered, one, endpoint)
        for broker, endpoints in lost.items():
            for endpoint in endpoints:
                if (endpoint.host, endpoint.port) not in theirs:
                    tasks.start_soon(of_lost, broker, endpoint)
    # One for each broker, also if it answers at several addresses.
    return list({one.broker: one for one in sorted(found, key=_order, reverse=True)}.values())[::-1]


async def _is_at(broker: int, endpoint: Endpoint, security: BrokerSecurity) -> bool:
    """Whether a broker with this id answers: each refuses to describe another one."""
    try:
        connection = await BrokerConnection.open(endpoint, _CLIENT_ID, _PROBE_MS_MAX, security)
    except ChannelError:
        return False
    try:
        await connection.settings_of(broker, (_ID_SETTING,))
    except ChannelError:
        return False
    finally:
        connection.close()
    return True


def _address(endpoint: Endpoint) -> str:
    return f"{endpoint.host}:{endpoint.port}"


def _order(one: StuckRegistration) -> tuple[int, str]:
    return one.broker, one.address
