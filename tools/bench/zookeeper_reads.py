"""Compares reading znodes with refold's multiRead, with getData, and with kazoo if installed.

    python -m tools.bench.zookeeper_reads HOST:PORT [--znodes 20000]

Bias: one client on an idle server on the same machine, znodes of the size of a partition state.
kazoo decodes into its own objects; refold returns the bytes. The znodes are created below
/bench-refold, which is deleted at the end.
"""

import argparse
import asyncio
import importlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio

from controller.core.commands import CommandId, ReadZnodes, WriteZnodes, ZooKeeperCommand
from controller.core.events import Event, SessionConnected, ZnodesRead, ZnodesWritten
from controller.core.operations import NO_NODE, NODE_EXISTS, OK, Create, Delete, SetData
from controller.core.values import ANY_VERSION
from controller.zookeeper.connection import ZooKeeperConnection
from controller.zookeeper.servers import parse_connect_string
from controller.zookeeper.session import SessionSettings

ROOT = "/bench-refold"
STATE = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2,3],"recovery":0}'


class CommandClient:
    """Awaits the outcomes of commands, for benchmarks."""

    def __init__(self, connect: str, bulk: bool) -> None:
        self.connected = anyio.Event()
        where = parse_connect_string(connect)
        settings = SessionSettings(chroot=where.chroot, bulk=bulk)
        self.connection = ZooKeeperConnection(where, self._on_event, settings=settings)
        self._waiting: dict[CommandId, tuple[int, anyio.Event, list[int]]] = {}
        self._data: dict[CommandId, list[bytes | None]] = {}

    def _on_event(self, event: Event, channel: str) -> None:
        if isinstance(event, SessionConnected):
            self.connected.set()
        if isinstance(event, ZnodesRead | ZnodesWritten):
            count, done, errors = self._waiting[event.command]
            errors += event.errors
            if isinstance(event, ZnodesRead) and event.command in self._data:
                self._data[event.command] += event.data
            if len(errors) == count:
                done.set()

    async def call(self, command: ZooKeeperCommand, count: int) -> list[int]:
        """Execute a command with `count` items; returns their errors."""
        return await self._outcome(CommandId(1, len(self._waiting)), command, count)

    async def read(self, paths: tuple[str, ...]) -> list[bytes | None]:
        """The data of znodes; None for a znode that does not exist."""
        command_id = CommandId(1, len(self._waiting))
        self._data[command_id] = []
        await self._outcome(command_id, ReadZnodes(paths), len(paths))
        return self._data.pop(command_id)

    async def _outcome(
        self, command_id: CommandId, command: ZooKeeperCommand, count: int
    ) -> list[int]:
        done = anyio.Event()
        errors: list[int] = []
        self._waiting[command_id] = (count, done, errors)
        self.connection.submit(command_id, command)
        await done.wait()
        return errors


@asynccontextmanager
async def client_of(connect: str, *, bulk: bool = True) -> AsyncIterator[CommandClient]:
    """A connected client; its session is closed at the end."""
    client = CommandClient(connect, bulk)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.connection.run)
        try:
            with anyio.fail_after(20):
                await client.connected.wait()
            yield client
        finally:
            await client.connection.close()


async def timed(name: str, count: int, work: Callable[[], Awaitable[object]]) -> float:
    """Run once and print the rate; returns items per second."""
    wall, cpu = time.perf_counter(), time.process_time()
    await work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{name:44} {count / wall:10,.0f} /s   {wall:6.3f} s, {cpu:6.3f} s CPU time")  # noqa: T201
    return count / wall


async def plain_reads(connect: str, paths: tuple[str, ...]) -> float:
    """getData with one request per znode, as the session does with servers before 3.6."""
    async with client_of(connect, bulk=False) as client:
        return await timed(
            "refold, getData", len(paths), lambda: client.call(ReadZnodes(paths), len(paths))
        )


async def kazoo_reads(connect: str, paths: tuple[str, ...]) -> float | None:
    """kazoo's get_async of all paths; None if kazoo is not installed."""
    try:
        kazoo = importlib.import_module("kazoo.client")
    except ImportError:
        print("kazoo is not installed: pip install kazoo")  # noqa: T201
        return None
    client = kazoo.KazooClient(hosts=connect)
    client.start()
    try:

        def read() -> None:
            for one in [client.get_async(path) for path in paths]:
                one.get()

        return await timed("kazoo, get_async", len(paths), lambda: asyncio.to_thread(read))
    finally:
        client.stop()


async def compare(connect: str, count: int) -> None:
    """Create, write and read `count` znodes; print rates and ratios."""
    epoch = f"{ROOT}/controller_epoch"
    paths = tuple(f"{ROOT}/topic-{n // 50:05}-partition-{n % 50}" for n in range(count))
    async with client_of(connect) as client, client_of(f"{connect}{ROOT}") as guarded:
        await client.call(WriteZnodes((Create(ROOT), Create(epoch)), None), 2)
        try:
            errors = await client.call(
                WriteZnodes(tuple(Create(path, STATE) for path in paths), None), count
            )
            assert set(errors) <= {OK, NODE_EXISTS}, set(errors)
            relative = (path.removeprefix(ROOT) for path in paths)
            writes = tuple(SetData(path, STATE, ANY_VERSION) for path in relative)
            await timed(
                "refold, guarded setData in multis",
                count,
                lambda: guarded.call(WriteZnodes(writes, 0), count),
            )
            paged = await timed(
                "refold, multiRead", count, lambda: client.call(ReadZnodes(paths), count)
            )
            plain = await plain_reads(connect, paths)
            kazoo = await kazoo_reads(connect, paths)
            print(f"multiRead is {paged / plain:.1f} times getData", end="")  # noqa: T201
            print(f", {paged / kazoo:.1f} times kazoo" if kazoo else "")  # noqa: T201
        finally:
            deletes = tuple(Delete(path, ANY_VERSION) for path in (*paths, epoch, ROOT))
            errors = await client.call(WriteZnodes(deletes, None), len(deletes))
            assert set(errors) <= {OK, NO_NODE}, set(errors)


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("connect", help="HOST:PORT of a ZooKeeper server for the benchmark")
    parser.add_argument("--znodes", type=int, default=20_000)
    options = parser.parse_args()
    anyio.run(compare, options.connect, options.znodes)


if __name__ == "__main__":
    main()
