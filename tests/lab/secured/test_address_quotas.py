"""Kafka's quota of an address in /config/ips counts at refold's endpoint."""

import pytest

from controller.core import znodes
from controller.core.operations import OK, Create
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
