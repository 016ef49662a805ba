"""The connection on real ZooKeeper servers."""

import contextlib
import time
from pathlib import Path

import anyio
import pytest

from controller.core.commands import (
    ReadChildren,
    ReadStats,
    ReadZnodes,
    SyncZnodes,
    WatchSubtree,
    WriteAtomically,
    WriteZnodes,
)
from controller.core.events import (
    ChildrenRead,
    SessionConnected,
    SessionDisconnected,
    SessionExpired,
    WatchFired,
    ZnodesRead,
    ZnodesWritten,
)
from controller.core.operations import (
    BAD_VERSION,
    CONNECTION_LOSS,
    FENCED,
    NO_NODE,
    NODE_EXISTS,
    OK,
    RUNTIME_INCONSISTENCY,
    SESSION_EXPIRED,
    Check,
    Create,
    Delete,
    SetData,
)
from controller.zookeeper.reads import EVENT_DATA_BYTES_MAX
from tests.controller.zookeeper.client import Client, client_of
from tests.controller.zookeeper.ensemble import ensemble
from tests.controller.zookeeper.proxy import proxy_to
from tests.waiting import until_found
from tools.lab import Lab, ZooKeeperServer
from tools.lab.ports import free_port
from tools.setup.jars import fetch, pyspark_jars

pytestmark = pytest.mark.lab


async def create(client: Client, *paths: str, ephemeral: bool = False) -> list[int]:
    """Create znodes in order and return their errors."""
    operations = tuple(Create(path, b"0", ephemeral) for path in paths)
    return await client.errors(WriteZnodes(operations, None), len(paths))


async def test_writes_are_read_with_their_stats(zookeeper: ZooKeeperServer) -> None:
    async with client_of(zookeeper.connect) as client:
        assert await create(client, "/one", "/one/a", "/one/b") == [OK] * 3
        assert await create(client, "/one/mine", ephemeral=True) == [OK]
        writes = (SetData("/one/a", b"1", 0), SetData("/one/a", b"2", 0), Delete("/one/b", 0))
        assert await client.errors(WriteZnodes(writes, None), 3) == [OK, BAD_VERSION, OK]
        read_id = client.submit(ReadZnodes(("/one/a", "/one/b", "/one/mine")))
        (read,) = await client.outcome(read_id, 3)
        assert isinstance(read, ZnodesRead)
        assert (read.errors, read.data) == ([OK, NO_NODE, OK], [b"1", None, b"0"])
        assert read.versions == [1, -1, 0]
        assert read.owners == [0, -1, client.connection.session_id]
        assert read.mzxids[0] > read.czxids[0]
        (stats,) = await client.outcome(client.submit(ReadStats(("/one/a", "/none"))), 2)
        assert isinstance(stats, ZnodesRead)
        assert (stats.errors, stats.data, stats.versions) == ([OK, NO_NODE], [None] * 2, [1, -1])
        (children,) = await client.outcome(client.submit(ReadChildren("/one")))
        assert isinstance(children, ChildrenRead)
        assert children.children == ["a", "mine"]
        assert await client.errors(SyncZnodes("/one"), 1) == [OK]


@pytest.mark.ci
async def test_guarded_writes_are_fenced_singly_or_as_a_whole(zookeeper: ZooKeeperServer) -> None:
    async with client_of(f"{zookeeper.connect}/fence") as client:
        async with client_of(zookeeper.connect) as root:
            await create(root, "/fence")
        count = 5000
        paths = [f"/{n}" for n in range(count)]
        assert set(await create(client, "/controller_epoch", *paths)) == {OK}
        moved = {7, 1500, 1501, 4999}
        for place in sorted(moved):
            await client.errors(WriteZnodes((SetData(f"/{place}", b"x", 0),), None), 1)
        states = tuple(SetData(path, b"y", 0) for path in paths)
        errors = await client.errors(WriteZnodes(states, 0), count)
        assert {place for place, error in enumerate(errors) if error == BAD_VERSION} == moved
        assert errors.count(OK) == count - len(moved)
        assert await client.errors(WriteZnodes(states, 1), count) == [FENCED] * count
        deletes = tuple(Delete(path, -1) for path in paths)
        assert await client.errors(WriteZnodes(deletes, 0), count) == [OK] * count


async def test_multi_is_carried_out_completely_or_not_at_all(zookeeper: ZooKeeperServer) -> None:
    async with client_of(zookeeper.connect) as client:
        await create(client, "/multi")
        bad = WriteAtomically((Create("/multi/a"), Check("/multi", 3), Create("/multi/b")))
        assert await client.errors(bad, 3) == [
            RUNTIME_INCONSISTENCY,
            BAD_VERSION,
            RUNTIME_INCONSISTENCY,
        ]
        assert await create(client, "/multi/a", "/multi/a") == [OK, NODE_EXISTS]


async def test_twenty_thousand_znodes_are_reported_in_events_of_bounded_size(
    zookeeper: ZooKeeperServer,
) -> None:
    count = 20_000
    async with client_of(zookeeper.connect) as client:
        await create(client, "/many")
        paths = tuple(f"/many/{n}" for n in range(count))
        creates = tuple(Create(path, path.encode() * 20) for path in paths)
        assert set(await client.errors(WriteZnodes(creates, None), count)) == {OK}
        read = await client.outcome(client.submit(ReadZnodes((*paths, "/many/none"))), count + 1)
        data: list[bytes | None] = []
        for event in read:
            assert isinstance(event, ZnodesRead)
            assert event.offset == len(data)
            assert sum(len(one or b"") for one in event.data) <= EVENT_DATA_BYTES_MAX
            data += event.data
        assert data == [path.encode() * 20 for path in paths] + [None]
        deletes = tuple(Delete(path, 0) for path in paths)
        assert set(await client.errors(WriteZnodes(deletes, None), count)) == {OK}


async def test_watches_report_every_change_within_the_chroot(zookeeper: ZooKeeperServer) -> None:
    async with (
        client_of(zookeeper.connect) as writer,
        client_of(f"{zookeeper.connect}/w") as client,
    ):
        await create(writer, "/w", "/w/a")
        await client.errors(ReadZnodes(("/a", "/late"), watch=True), 2)
        await client.outcome(client.submit(ReadChildren("/", watch=True)))
        for version in range(3):
            await writer.errors(WriteZnodes((SetData("/w/a", b"x", version),), None), 1)
        await create(writer, "/w/late")
        await writer.errors(WriteZnodes((Delete("/w/a", -1),), None), 1)
        last = await client.nth(WatchFired, 7)
        fired = [one for one in client.events if isinstance(one, WatchFired)]
        assert [(one.path, one.change) for one in fired[:3]] == [("/a", "data")] * 3
        assert {(one.path, one.change) for one in fired[3:5]} == {
            ("/late", "created"),
            ("/", "children"),
        }
        assert {(one.path, one.change) for one in fired[5:]} == {
            ("/a", "deleted"),
            ("/", "children"),
        }
        assert last.zxid > 0, "this server is 3.9"


@pytest.mark.ci
async def test_changes_during_a_network_cut_are_reported_after_it(
    zookeeper: ZooKeeperServer,
) -> None:
    async with (
        client_of(zookeeper.connect) as writer,
        proxy_to(zookeeper.port) as proxy,
        client_of(proxy.address, 8000) as client,
    ):
        await create(writer, "/cut", "/cut/a", "/cut/b", "/cut/same")
        await create(client, "/cut/mine", ephemeral=True)
        paths = ("/cut/a", "/cut/b", "/cut/c", "/cut/same")
        await client.errors(ReadStats(paths, watch=True), 4)
        await client.outcome(client.submit(ReadChildren("/cut", watch=True)))
        proxy.cut()
        await client.nth(SessionDisconnected)
        assert await create(client, "/cut/d") == [CONNECTION_LOSS]
        writes = (SetData("/cut/a", b"x", -1), Delete("/cut/b", -1), Create("/cut/c"))
        assert await writer.errors(WriteZnodes(writes, None), 3) == [OK] * 3
        proxy.restore()
        connected = await client.nth(SessionConnected, 2)
        assert connected.renewed
        assert connected.session_id == client.connection.session_id
        await client.errors(SyncZnodes("/"), 1)
        fired = {(one.path, one.change) for one in client.events if isinstance(one, WatchFired)}
        assert fired == {
            ("/cut/a", "data"),
            ("/cut/b", "deleted"),
            ("/cut/c", "created"),
            ("/cut", "children"),
        }
        before = len(client.events)
        await writer.errors(WriteZnodes((SetData("/cut/same", b"x", -1),), None), 1)
        await client.nth(WatchFired, 5)
        assert client.events[before] == WatchFired("/cut/same", "data", client.events[before].zxid)  # type: ignore[union-attr]
        assert await create(client, "/cut/mine") == [NODE_EXISTS]


@pytest.mark.ci
@pytest.mark.parametrize("jars", ["kafka-3.3.2", "kafka-3.9.1", ""], ids=["3.6.3", "3.8.4", "3.9"])
async def test_subtree_is_watched_until_its_watch_ends(tmp_path: Path, jars: str) -> None:
    server = ZooKeeperServer(tmp_path, fetch(jars) if jars else pyspark_jars())
    with contextlib.closing(server):
        await server.start()
        await _watch_subtree(server)


async def _watch_subtree(server: ZooKeeperServer) -> None:
    async with client_of(server.connect) as client:
        await create(client, "/top", "/top/a")
        await client.outcome(client.submit(ReadChildren("/top", watch=True)))
        assert await client.errors(WatchSubtree("/"), 1) == [OK]
        assert await create(client, "/top/a/b") == [OK]
        await client.errors(WriteZnodes((SetData("/top/a/b", b"1", -1),), None), 1)
        assert await create(client, "/top/c") == [OK]
        fired = [(one.path, one.change) for one in client.events if isinstance(one, WatchFired)]
        assert fired == [
            ("/top/a/b", "created"),
            ("/top/a/b", "data"),
            ("/top/c", "created"),
            ("/top", "children"),
        ], "all before the reply to the write"
        assert await client.errors(WatchSubtree("/", ends=True), 1) == [OK]
        await client.errors(WriteZnodes((SetData("/top/a/b", b"2", -1),), None), 1)
        assert await create(client, "/top/d") == [OK]
        later = [(one.path, one.change) for one in client.events if isinstance(one, WatchFired)]
        assert later[4:] == [("/top", "children")]


async def test_long_network_cut_ends_the_session(zookeeper: ZooKeeperServer) -> None:
    async with client_of(zookeeper.connect) as writer, proxy_to(zookeeper.port) as proxy:
        async with client_of(proxy.address, 2000) as client:
            old = client.connection.session_id
            await create(client, "/mine", ephemeral=True)
            proxy.cut()
            expired = await client.nth(SessionExpired)
            assert expired.session_id == old
            assert client.channels[client.events.index(expired)] == f"zookeeper:{old:x}"
            assert await create(client, "/mine", ephemeral=True) == [CONNECTION_LOSS]
            proxy.restore()
            connected = await client.nth(SessionConnected, 2)
            assert not connected.renewed
            assert connected.session_id != old
            # Either the server has ended the session, or the client has closed it before it started
            # a new one.
            assert await create(client, "/mine", ephemeral=True) == [OK]
        assert await create(writer, "/mine") == [OK]
        await writer.errors(WriteZnodes((Delete("/mine", -1),), None), 1)


async def test_paused_event_loop_does_not_end_the_session(zookeeper: ZooKeeperServer) -> None:
    async with client_of(zookeeper.connect, 4000) as client:
        await create(client, "/held", ephemeral=True)
        time.sleep(3)  # Longer than a server waits for a ping.
        assert (await client.nth(SessionConnected, 2)).renewed
        assert await create(client, "/held") == [NODE_EXISTS]
        assert not [one for one in client.events if isinstance(one, SessionExpired)]


async def test_close_deletes_ephemeral_znodes_at_once(zookeeper: ZooKeeperServer) -> None:
    async with client_of(zookeeper.connect, 60_000) as client:
        await create(client, "/short", ephemeral=True)
    assert "/short" not in await zookeeper.ephemerals()


@pytest.mark.ci
async def test_session_survives_a_killed_and_restarted_server(lab: Lab) -> None:
    server = await lab.start_zookeeper()
    async with client_of(server.connect, 40_000) as client:
        await create(client, "/mine", ephemeral=True)
        assert set(await create(client, *(f"/{n}" for n in range(2000)))) == {OK}
        server.pause()
        command = client.submit(WriteZnodes(tuple(Create(f"/x{n}") for n in range(2000)), None))
        server.kill()
        lost = await client.outcome(command, 2000)
        assert {error for one in lost for error in one.errors} == {CONNECTION_LOSS}  # type: ignore[union-attr]
        disconnected = await client.nth(SessionDisconnected)
        assert client.events.index(disconnected) > client.events.index(lost[-1])
        await server.start()
        assert (await client.nth(SessionConnected, 2, seconds=40)).renewed
        (children,) = await client.outcome(client.submit(ReadChildren("/")))
        assert isinstance(children, ChildrenRead)
        assert {"mine", "0", "1999"} <= set(children.children), "acknowledged writes are stored"
        assert "x0" not in children.children, "no write is repeated"


async def test_session_survives_a_paused_server(lab: Lab) -> None:
    server = await lab.start_zookeeper()
    async with client_of(server.connect, 3000) as client:
        server.pause()
        command = client.submit(WriteZnodes((Create("/a"),), None))
        (lost,) = await client.outcome(command)
        assert isinstance(lost, ZnodesWritten)
        assert lost.errors == [CONNECTION_LOSS]
        assert "nothing heard" in (await client.nth(SessionDisconnected)).cause
        server.resume()
        await client.nth(SessionConnected, 2)
        assert await create(client, "/b") == [OK]


async def test_server_paused_beyond_the_timeout_ends_the_session(lab: Lab) -> None:
    server = await lab.start_zookeeper()
    async with client_of(server.connect, 2000) as client:
        await create(client, "/mine", ephemeral=True)
        server.pause()
        await client.nth(SessionExpired)
        server.resume()
        connected = await client.nth(SessionConnected, 2)
        assert not connected.renewed
        assert await create(client, "/mine", ephemeral=True) == [OK]


async def test_dead_server_of_the_list_is_skipped(zookeeper: ZooKeeperServer) -> None:
    dead = f"127.0.0.1:{free_port()},127.0.0.1:{free_port()}"
    for _ in range(3):
        async with client_of(f"{dead},{zookeeper.connect}") as client:
            assert (await client.nth(SessionConnected)).server == zookeeper.connect


async def test_connection_without_any_server_reports_the_reason_and_can_be_closed() -> None:
    client = Client(f"127.0.0.1:{free_port()}", 4000)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.connection.run)
        fault = await until_found(lambda: client.connection.fault, "the connection has a fault", 5)
        assert "no connection to 127.0.0.1:" in fault
        with anyio.fail_after(5):
            await client.connection.close()
    assert client.events == []


async def test_session_moves_to_another_server_of_the_ensemble(tmp_path: Path) -> None:
    servers = ensemble(tmp_path)
    try:
        for one in servers:
            await one.start(wait=False)
        for one in servers:
            await one.ready()
        async with client_of(",".join(one.connect for one in servers), 10_000) as client:
            await create(client, "/mine", ephemeral=True)
            first = (await client.nth(SessionConnected)).server
            next(one for one in servers if one.connect == first).kill()
            second = await client.nth(SessionConnected, 2)
            assert second.renewed
            assert second.server != first
            assert SESSION_EXPIRED not in await create(client, "/a")
    finally:
        for one in servers:
            one.close()


async def test_old_server_can_be_read_and_watched(lab: Lab) -> None:
    server = await lab.start_zookeeper("3.5.9")
    async with (
        client_of(server.connect) as writer,
        proxy_to(server.port) as proxy,
        client_of(proxy.address, 8000) as client,
    ):
        paths = tuple(f"/{n}" for n in range(2000))
        assert set(await create(writer, *paths)) == {OK}
        read = await client.outcome(client.submit(ReadZnodes((*paths, "/x"), watch=True)), 2001)
        errors = [error for one in read for error in one.errors]  # type: ignore[union-attr]
        assert errors == [OK] * 2000 + [NO_NODE]
        await client.errors(ReadStats(("/late",), watch=True), 1)
        await writer.errors(WriteZnodes((SetData("/1", b"x", 0),), None), 1)
        assert await client.nth(WatchFired, 1) == WatchFired("/1", "data", -1)
        proxy.cut()
        await client.nth(SessionDisconnected)
        await writer.errors(WriteZnodes((Delete("/2", 0), Create("/late")), None), 2)
        proxy.restore()
        assert (await client.nth(SessionConnected, 2)).renewed
        await client.nth(WatchFired, 3)
        fired = {(one.path, one.change) for one in client.events if isinstance(one, WatchFired)}
        assert fired == {("/1", "data"), ("/2", "deleted"), ("/late", "created")}
