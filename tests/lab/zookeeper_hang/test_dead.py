"""ZooKeeper is dead (KB 16.3): the daemon acts on nothing, says so, and continues by itself
when ZooKeeper runs again."""

import asyncio
import json
from collections.abc import Iterator
from tempfile import TemporaryDirectory

import pytest

from controller.core.canonical import kind_of
from controller.core.commands import BrokerRequest
from eventstore.reader import LogReader
from replay.logs.decode import UPCASTERS
from tests.controller.daemon.lab_cluster import OWN_ID, timed
from tests.lab.zookeeper_hang.conftest import LONG_MS, SHORT_MS, HangCluster
from tools.lab.refold import run

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

DEAD_SECONDS = 14.0
"""Beyond the daemon's session, and long enough for the first report of the silence."""


def requests_while_disconnected(cluster: HangCluster) -> list[str]:
    """The kinds of requests to brokers that the daemon decided while it had no connection."""
    (log,) = cluster.logs()
    requests = {kind_of(one) for one in BrokerRequest.__args__}
    found, is_connected = [], False
    with LogReader.open(log, UPCASTERS) as reader:
        for event, commands in reader.records():
            if event.kind == "session_connected":
                is_connected = True
            elif event.kind in ("session_disconnected", "session_expired"):
                is_connected = False
            if not is_connected:
                found += [one.kind for one in commands if one.kind in requests]
    return found


@pytest.fixture
def status_socket() -> Iterator[str]:
    """A short path, since a socket's path is limited."""
    with TemporaryDirectory() as folder:
        yield f"{folder}/refold.sock"


async def status(status_socket: str) -> dict[str, object]:
    code, output = await run("status", status_socket, "--json")
    assert code == 0, output
    return dict(json.loads(output))


def quorum(cluster: HangCluster) -> list[int]:
    """The places of the servers without which the ensemble is dead."""
    count = len(cluster.lab.zookeepers)
    return list(range(count - (count // 2 + 1), count)) if count > 1 else [0]


@pytest.mark.parametrize("session_ms", [SHORT_MS, LONG_MS], ids=["beyond", "within"])
async def test_daemon_acts_on_nothing_while_zookeeper_is_dead_and_goes_on_after_it(
    hang_cluster: HangCluster, status_socket: str, session_ms: int
) -> None:
    """`beyond` its session and `within` it. A leader dies meanwhile."""
    cluster = hang_cluster
    await cluster.start_brokers(6_000, LONG_MS)
    daemon = await cluster.active(session_ms, **{"refold.status.socket": status_socket})
    await cluster.create_topic("t", {0: [1, 2], 1: [2, 1]})
    await cluster.until_in_sync("t", 2)
    epoch = await cluster.view.controller_epoch()
    dead = [cluster.lab.zookeepers[place] for place in quorum(cluster)]
    async with cluster.without_session():
        for server in dead:
            server.kill()
        cluster.lab.brokers[0].kill()
        await asyncio.sleep(DEAD_SECONDS)  # ZooKeeper is dead for this time.
        found = await status(status_socket)
        zookeeper = found["zookeeper"]
        assert isinstance(zookeeper, dict)
        assert (zookeeper["is_connected"], zookeeper["fault"] != "") == (False, True)
        is_over = session_ms == SHORT_MS
        assert (found["role"], zookeeper["session"] == "") == (
            ("standby", True) if is_over else ("active", False)
        )
        messages = [one["message"] for one in daemon.messages()]
        assert any("the daemon acts on nothing meanwhile" in one for one in messages)
        assert any("ZooKeeper has not answered for 1" in one for one in messages)
        await asyncio.gather(*(server.start() for server in dead))
    await cluster.until_controller(OWN_ID, daemon)
    await cluster.until_led("t", {0: 2, 1: 2})
    assert (await cluster.view.controller_epoch() > epoch) is is_over

    async def says_so() -> bool:
        return any(
            one["message"].startswith("ZooKeeper answers after") for one in daemon.messages()
        )

    await timed(says_so, "the daemon reports the end of the silence")
    assert requests_while_disconnected(cluster) == []
    await cluster.lab.brokers[0].start()
    await cluster.until_in_sync("t", 2)
    assert await daemon.stop() == 0
