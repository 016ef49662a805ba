"""connections.max.reauth.ms with stock brokers, which log in again at the endpoint (KIP-368)."""

import urllib.request
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from controller.core import znodes
from tests.controller.daemon.lab_cluster import timed
from tests.lab.secured.secured_endpoint import create_topic, running_endpoint
from tools.lab.ports import HOST, free_port
from tools.lab.secured import LISTENER

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

SESSION_S = 2


def read_metrics(address: str) -> dict[str, float]:
    """The values of the listener's counts, without those by reason."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    label = f'{{listener="{LISTENER}"}}'
    return {
        line.partition("{")[0]: float(line.rpartition(" ")[2]) for line in lines if label in line
    }


async def test_brokers_log_in_again_on_their_connections(tmp_path: Path) -> None:
    address = f"{HOST}:{free_port()}"
    options = ("--metrics-address", address)
    session_ms = str(SESSION_S * 1000)
    everywhere = {"connections.max.reauth.ms": session_ms}
    async with running_endpoint(tmp_path, *options, everywhere=everywhere) as secured:
        await create_topic(secured, "orders", (1, 2))
        first, _ = secured.lab.brokers

        async def in_sync(*brokers: int) -> bool:
            async with secured.client as client:
                (znode,) = await client.read((znodes.state_path("orders", 0),))
            assert znode is not None
            return set(znodes.read_state("", znode.data, znode.version).isr) == set(brokers)

        for _ in range(2):
            # The leader changes the ISR by AlterPartition, each time after its login has expired.
            first.kill()
            await timed(lambda: in_sync(2), "broker 1 is out of the ISR")
            await first.start()
            await timed(lambda: in_sync(1, 2), "broker 1 is in sync again")
            await anyio.sleep(SESSION_S + 1)  # The logins expire.
        prefix = "kafka_server_socket_server_metrics_"

        async def has_renewed() -> bool:
            found = await to_thread.run_sync(read_metrics, address)
            assert found[prefix + "failed_reauthentication_total"] == 0
            return found[prefix + "successful_reauthentication_total"] > 0

        await timed(has_renewed, "a broker has logged in again")
        found = await to_thread.run_sync(read_metrics, address)
        assert found[prefix + "connection_count"] > 0
        assert found[prefix + "successful_authentication_total"] > 0
        assert await secured.daemon.stop() == 0
