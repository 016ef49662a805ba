"""Kafka's quota of an address in /config/ips, and its dynamic limits of connections, count at
refold's endpoint."""

import pytest

from controller.core import znodes
from controller.core.operations import OK, Create, Delete
from tests.controller.api.client import Client
from tests.controller.daemon.lab_cluster import timed
from tests.lab.secured.secured_endpoint import SecuredEndpoint
from tools.lab.secured import CLIENT, CLIENT_PASSWORD

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

UNWANTED = "127.0.0.9"


async def test_address_without_connections_is_refused_and_others_are_not(
    secured: SecuredEndpoint,
) -> None:
    async with Client(secured.port, UNWANTED) as waiting:
        quota = znodes.write_config({"connection_creation_rate": "0"})
        async with secured.client as client:
            assert await client.write((Create(f"{znodes.IP_CONFIGS}/{UNWANTED}", quota),)) == OK

        async def is_refused() -> bool:
            async with Client(secured.port, UNWANTED) as unwanted:
                return bool(await unwanted.closed())

        await timed(is_refused, "the address is refused")
        assert not waiting.reader.at_eof(), "only new connections count"
    (await secured.connect(secured.port, CLIENT, CLIENT_PASSWORD)).close()
    assert await secured.daemon.stop() == 0


async def test_dynamic_limit_of_all_brokers_counts_without_a_restart(
    secured: SecuredEndpoint,
) -> None:
    limit = znodes.write_config({"max.connections.per.ip.overrides": f"{UNWANTED}:0"})
    path = znodes.broker_config_path(None)
    async with secured.client as client:
        assert await client.write((Create(path, limit),)) == OK

    async def is_refused() -> bool:
        async with Client(secured.port, UNWANTED) as unwanted:
            return bool(await unwanted.closed())

    await timed(is_refused, "the address is refused")
    (await secured.connect(secured.port, CLIENT, CLIENT_PASSWORD)).close()
    async with secured.client as client:
        assert await client.write((Delete(path, -1),)) == OK

    async def is_accepted() -> bool:
        return not await is_refused()

    await timed(is_accepted, "the address is accepted again")
    assert await secured.daemon.stop() == 0
