"""refold.own.controller.znode=wait, with a real ZooKeeper: the daemon waits until ZooKeeper has
deleted the /controller of its previous session (KB 16.5)."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from controller.core import znodes
from replay.stock_clusters.zookeeper_log.source import open_source
from replay.stock_clusters.zookeeper_log.transactions import CloseSession, Create, Delete
from tests.controller.cli.clusters import client, daemon_of, make_cluster
from tests.controller.daemon.lab_cluster import timed
from tests.controller.zookeeper.proxy import Proxy, proxy_to
from tools.lab import Lab, ZooKeeperServer
from tools.lab.cluster_view import ClusterReader
from tools.lab.refold import Refold, run

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

SESSION_MS = 8_000
TICK_MS = 4_000
"""ZooKeeper ends sessions at multiples of this, so up to 4 s after their timeout."""
EXPIRED, DELETED = "its session ended", "deleted"


@pytest.fixture
async def zookeeper(lab: Lab) -> ZooKeeperServer:
    """A ZooKeeper with a cluster without brokers."""
    server = await lab.start_zookeeper(config={"tickTime": str(TICK_MS)})
    async with client(server.connect) as made:
        await make_cluster(made, "")
    return server


@asynccontextmanager
async def active(zookeeper: ZooKeeperServer, connect: str) -> AsyncIterator[Refold]:
    """A daemon that has the role, with refold.own.controller.znode=wait."""
    # The path of its status socket has at most 107 bytes.
    with TemporaryDirectory() as folder:
        config = Path(folder) / "server.properties"
        config.write_text(
            f"zookeeper.session.timeout.ms={SESSION_MS}\nrefold.own.controller.znode=wait\n"
        )
        options = ("--config", str(config))
        async with daemon_of(connect, Path(folder) / "logs", *options) as daemon:
            await daemon.start()
            await until_epoch(zookeeper, 1)
            yield daemon


async def czxid_and_epoch(zookeeper: ZooKeeperServer) -> tuple[int, int]:
    """The czxid of /controller, 0 if it does not exist, and the controller epoch."""
    async with ClusterReader(zookeeper.connect) as view:
        return await view.czxid(znodes.CONTROLLER), await view.controller_epoch()


async def until_epoch(zookeeper: ZooKeeperServer, epoch: int) -> None:
    """Wait until the daemon is controller with this epoch."""

    async def is_reached() -> bool:
        czxid, found = await czxid_and_epoch(zookeeper)
        return czxid > 0 and found == epoch

    await timed(is_reached, f"controller epoch {epoch}")


def ends_of_controller_znodes(zookeeper: ZooKeeperServer) -> dict[int, str]:
    """How each /controller ended, by its czxid, as ZooKeeper's transaction log has it."""
    ends: dict[int, str] = {}
    czxid = owner = 0
    with open_source(zookeeper.folder / "data" / "version-2") as source:
        for one in source.transactions():
            if isinstance(one.content, CloseSession) and one.session == owner:
                ends[czxid], owner = EXPIRED, 0
            for operation in one.operations:
                if isinstance(operation, Delete) and operation.path == znodes.CONTROLLER:
                    ends[czxid], owner = DELETED, 0
                if isinstance(operation, Create) and operation.path == znodes.CONTROLLER:
                    czxid, owner = one.zxid, one.session
    return ends


async def status(daemon: Refold) -> dict[str, Any]:
    code, output = await run("status", str(daemon.log_dir), "--json")
    assert code == 0, output
    return dict(json.loads(output))


async def until_said(daemon: Refold, text: str) -> dict[str, Any]:
    """Wait until the daemon has logged a message with this text, and return the message."""
    found: list[dict[str, Any]] = []

    async def is_said() -> bool:
        assert daemon.running, daemon.last_output()
        found[:] = [one for one in daemon.messages() if text in one["message"]]
        return bool(found)

    await timed(is_said, f"the daemon logs {text!r}")
    return found[0]


# A session that is over, and whose znodes remain --------------------------------------------------


class LateZooKeeper(Proxy):
    """A ZooKeeper that says that a session is over, and deletes its znodes some time later
    (ZOOKEEPER-1740). The real one, to which it forwards, only hears nothing more of the session."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length = await reader.readexactly(4)
        handshake = await reader.readexactly(int.from_bytes(length, "big"))
        if any(handshake[SESSION_ID]):
            writer.write(SESSION_IS_OVER)
            writer.close()
            return
        await self.forward(reader, writer, length + handshake)


SESSION_ID = slice(16, 24)
"""The session that a client asks for in its handshake; 0: a new one."""
_OVER = bytes(4 + 4 + 8) + (16).to_bytes(4, "big") + bytes(16 + 1)
SESSION_IS_OVER = len(_OVER).to_bytes(4, "big") + _OVER
"""The timeout, the session and the password in this answer are 0."""


async def test_daemon_waits_until_zookeeper_deletes_the_controller_znode_of_its_previous_session(
    zookeeper: ZooKeeperServer,
) -> None:
    async with (
        proxy_to(zookeeper.port, LateZooKeeper) as late,
        active(zookeeper, late.address) as daemon,
    ):
        left = await czxid_and_epoch(zookeeper)
        late.cut()
        late.restore()
        warning = await until_said(daemon, "the daemon waits until ZooKeeper has deleted the znode")
        assert (warning["code"], warning["level"]) == ("own_znode_left", "warning")
        found = await status(daemon)
        assert (found["role"], found["term"]) == ("standby", 0)
        assert await czxid_and_epoch(zookeeper) == left
        await until_epoch(zookeeper, left[1] + 1)
        assert (await status(daemon))["role"] == "active"
        assert await daemon.stop() == 0
    assert ends_of_controller_znodes(zookeeper)[left[0]] == EXPIRED


# The session of a killed run ----------------------------------------------------------------------


async def until_just_prolonged(zookeeper: ZooKeeperServer) -> None:
    """Wait until ZooKeeper ends the controller's session only after 9.6 s, if its client is silent
    from now on."""
    async with ClusterReader(zookeeper.connect) as view:
        session = f"0x{await view.owner(znodes.CONTROLLER):x}"

    async def is_long() -> bool:
        return (await second_of_end(zookeeper, session) - time.time()) % 60 > 9.6

    await timed(is_long, "the session lasts for 9.6 s")


async def second_of_end(zookeeper: ZooKeeperServer, session: str) -> int:
    """The second within a minute at which ZooKeeper ends a session."""
    second = 0
    for line in (await zookeeper.four_letter_word("dump")).splitlines():
        if found := re.search(r" expire at .*:(\d\d) ", line):
            second = int(found[1])
        elif line.strip() == session:
            return second
    raise AssertionError(f"ZooKeeper has no session {session}")


async def test_restarted_daemon_waits_until_zookeeper_ends_the_session_of_its_killed_run(
    zookeeper: ZooKeeperServer,
) -> None:
    """The session ends after its timeout has passed for the next run."""
    async with active(zookeeper, zookeeper.connect) as daemon:
        left = await czxid_and_epoch(zookeeper)
        await until_just_prolonged(zookeeper)
        daemon.kill()
        await daemon.ended()
        await daemon.start()
        await until_said(daemon, "session of its previous run to expire")
        assert (await status(daemon))["role"] == "waiting for the end of its previous session"
        assert await czxid_and_epoch(zookeeper) == left
        await until_said(daemon, "elected controller, epoch 2")
        assert await daemon.stop() == 0
    assert ends_of_controller_znodes(zookeeper)[left[0]] == EXPIRED
