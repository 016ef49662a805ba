"""A standby, a shadow and a cancelled reassignment (KIP-236), each in a secured cluster."""

import json
from pathlib import Path

import pytest

from controller.core import znodes
from tests.controller.daemon.lab_cluster import timed
from tests.lab.secured.secured_cluster import OWN_ID
from tests.lab.secured.secured_endpoint import SecuredEndpoint, create_topic, running_endpoint
from tools.lab.ports import HOST, free_port
from tools.lab.refold import Refold, run
from tools.lab.secured import LISTENER
from tools.shadow.incident import ShadowProcess

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]


async def until_reported(daemon: Refold, code: str) -> None:
    async def reported() -> bool:
        assert daemon.running, daemon.last_output()
        return any(one.get("code") == code for one in daemon.messages())

    await timed(reported, f"refold reports {code}")


async def test_standby_takes_the_role_in_a_secured_cluster(tmp_path: Path) -> None:
    async with running_endpoint(tmp_path, "--standby") as secured:
        await create_topic(secured, "orders", (1, 2))
        standby = Refold(
            secured.files.zookeeper_connect,
            OWN_ID,
            tmp_path / "standby" / "logs",
            *("--config", str(secured.config), "--standby", "--log-format", "json"),
            listeners=f"{LISTENER}://{HOST}:{free_port()}",
        )
        await standby.start()
        try:
            await until_reported(standby, "standby_ready")
            # A broker would take the role, too.
            for one in secured.lab.brokers:
                one.pause()
            secured.daemon.kill()
            await secured.daemon.ended()
            await until_reported(standby, "failover_done")
            for one in secured.lab.brokers:
                one.resume()
            first, _ = secured.lab.brokers
            await first.stop()

            async def moved() -> bool:
                async with secured.client as client:
                    (znode,) = await client.read((znodes.state_path("orders", 0),))
                assert znode is not None
                return znodes.read_state("", znode.data, znode.version).leader == 2

            await timed(moved, "the standby has moved the leader")
            assert await standby.stop() == 0
        finally:
            await standby.kill_if_running()


async def test_shadow_follows_a_secured_cluster(secured: SecuredEndpoint, tmp_path: Path) -> None:
    assert await secured.daemon.stop() == 0
    await secured.until_controller(1, 2)
    shadow = ShadowProcess(tmp_path / "shadow", ["--config", str(secured.config)])
    await shadow.start()
    first, _ = secured.lab.brokers
    await first.stop()
    await first.start()
    # 3: nothing was judged.
    assert await shadow.stop() in (0, 3), shadow.messages()
    assert shadow.summary()["differs"] == 0


async def test_reassignment_is_cancelled_in_a_secured_cluster(
    secured: SecuredEndpoint, tmp_path: Path
) -> None:
    await create_topic(secured, "orders", (1,))
    moves = tmp_path / "moves.json"
    moved = {"topic": "orders", "partition": 0, "replicas": [2]}
    moves.write_text(json.dumps({"version": 1, "partitions": [moved]}))
    access = (
        *("--zookeeper", secured.files.zookeeper_connect),
        *("--zk-tls-config-file", str(secured.config)),
    )
    _, second = secured.lab.brokers
    second.pause()
    try:
        status, output = await run(
            "reassign", *access, "--execute", "--reassignment-json-file", str(moves)
        )
        assert status == 0, output
        status, output = await run("reassign", *access, "--cancel", "--wait")
        assert status == 0, output
    finally:
        second.resume()
    async with secured.client as client:
        (znode,) = await client.read((znodes.topic_path("orders"),))
    assert znode is not None
    assert json.loads(znode.data)["partitions"] == {"0": [1]}
