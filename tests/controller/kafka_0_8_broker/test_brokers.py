"""Running brokers on the simulated ZooKeeper: their records are on the disk, their requests on TCP.

tests/lab/kafka_0_8 has the same on a real ZooKeeper, with processes that are killed.
"""

import asyncio
import errno
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from typer.testing import CliRunner

from controller.core.commands import CommandId, ZooKeeperCommand
from controller.core.events import SessionConnected, SessionExpired
from controller.daemon.errors import DaemonError
from controller.event_log.records import command_record
from controller.kafka_0_8_broker.broker import RunningBroker
from controller.kafka_0_8_broker.connection import Connection
from controller.kafka_0_8_broker.disk import Disk
from controller.kafka_0_8_broker.errors import ClientError, DiskError, NoResponse, Unreachable
from controller.kafka_0_8_broker.inbox import BrokerInbox
from controller.kafka_0_8_broker.messages import FetchRequest, ProduceRequest
from controller.kafka_0_8_broker.segment import RECORD_BYTES_MAX, Segment
from eventstore.errors import LogFull
from eventstore.reader import LogReader
from eventstore.writer import LogWriter
from replay.cli.main import app
from replay.logs.broker_log import broker_configuration_of, broker_event
from replay.logs.decode import UPCASTERS
from replay.world.kafka_0_8.broker_process import BrokerProcess
from tests.controller.daemon.peers import Done, Stored
from tests.controller.kafka_0_8_broker.harness import Brokers, Process, T, header_of
from tests.waiting import until_found
from tools.lab.ports import HOST

pytestmark = pytest.mark.slow


@pytest.fixture
def brokers(tmp_path: Path) -> Brokers:
    """Three brokers that are not started, and topic t with replicas on all of them."""
    found = Brokers(3, tmp_path)
    found.world.create_topic("t", {0: (1, 2, 3)})
    return found


@pytest.fixture
def brokers_of_a_lasting_isr(tmp_path: Path) -> Brokers:
    """As `brokers`, but no stopped follower leaves the ISR during a test."""
    found = Brokers(3, tmp_path, keep_in_sync_time_ms=60_000)
    found.world.create_topic("t", {0: (1, 2, 3)})
    return found


def on_disk(process: Process, name: tuple[str, int] = T) -> list[bytes]:
    """The records in the file of a replica."""
    topic, partition = name
    files = list((process.folder / "records").glob(f"{topic}-{partition}@*.records"))
    if not files:
        return []
    (path,) = files
    segment = Segment(path)
    records = segment.read(0, segment.leo, 1 << 30)
    segment.close()
    return records


def assert_replays(brokers: Brokers) -> None:
    """Every log is decided again in the same way, by `refold replay` and by a world's broker."""
    for process in brokers.processes.values():
        for log in process.runs:
            result = CliRunner().invoke(app, ["replay", str(log)])
            assert result.exit_code == 0, result.output
            assert_world_decides_the_same(log)


def assert_world_decides_the_same(log: Path) -> None:
    """The recorded events of a real run, fed to a broker of the simulated cluster, lead to the same
    commands, byte for byte."""
    with LogReader.open(log, UPCASTERS) as reader:
        stored = list(reader.commands())
        simulated = BrokerProcess(broker_configuration_of(reader.header))
        simulated.start(session=0)
        decided = []
        for record in reader.events():
            event = broker_event(record)
            milliseconds = event.mono_ns // 1_000_000
            decided += simulated.apply(event.event, event.channel, milliseconds, [])
    assert [command_record(one) for one in decided][: len(stored)] == stored
    assert stored


async def test_committed_records_are_on_the_disk_of_each_replica(brokers: Brokers) -> None:
    async with brokers.running():
        await brokers.until_in_sync("t", "1,2,3")
        assert await brokers.client.produce(T, [b"a", b"b"], -1) == 2
        assert [on_disk(one) for one in brokers.processes.values()] == [[b"a", b"b"]] * 3
        assert await brokers.client.consume_all(T) == [b"a", b"b"]
    assert_replays(brokers)


async def test_acks_1_and_0_are_appended_by_the_leader(brokers: Brokers) -> None:
    async with brokers.running():
        assert await brokers.client.produce(T, [b"a"], 1) == 1
        assert await brokers.client.produce(T, [b"b"], 0) is None
        await brokers.until(lambda: on_disk(brokers.processes[1]) == [b"a", b"b"], "both appended")


async def test_consumer_gets_no_uncommitted_records(brokers: Brokers) -> None:
    async with brokers.running():
        await brokers.until_in_sync("t", "1,2,3")
        await brokers.processes[2].stop()
        await brokers.processes[3].stop()
        assert await brokers.client.produce(T, [b"a"], 1) == 1
        assert await brokers.client.consume_all(T) == []
        await brokers.until_in_sync("t", "1")
        assert await brokers.client.consume_all(T) == [b"a"]


async def test_next_leader_has_the_committed_records(brokers: Brokers) -> None:
    async with brokers.running():
        await brokers.until_in_sync("t", "1,2,3")
        await brokers.client.produce(T, [b"a"], -1)
        await brokers.processes[1].stop()
        assert await brokers.client.produce(T, [b"b"], -1) == 2
        assert await brokers.client.consume_all(T) == [b"a", b"b"]
        brokers.processes[1].start()
        await brokers.until(lambda: on_disk(brokers.processes[1]) == [b"a", b"b"], "caught up")
    assert_replays(brokers)


async def test_requests_wait_in_the_queue_of_a_bounced_broker(brokers: Brokers) -> None:
    async with brokers.running():
        await brokers.until_in_sync("t", "1,2,3")
        await brokers.client.produce(T, [b"a"], -1)
        await brokers.processes[3].stop()
        brokers.world.delete_topic("t")
        brokers.world.create_topic("u", {0: (1, 3)})
        assert len(brokers.world.children("/brokers/state/3")) == 2
        assert on_disk(brokers.processes[3]) == [b"a"]
        brokers.processes[3].start()
        await brokers.until_in_sync("u", "1,3")
        await brokers.until(lambda: not brokers.world.children("/brokers/state/3"), "all handled")
        assert [on_disk(one) for one in brokers.processes.values()] == [[], [], []]
        assert await brokers.client.produce(("u", 0), [b"b"], -1) == 1
    assert_replays(brokers)


async def test_partition_moves_with_its_records(brokers: Brokers) -> None:
    brokers.world.create_topic("m", {0: (1, 2)})
    name = ("m", 0)
    async with brokers.running():
        await brokers.client.produce(name, [b"x" * 700_000] * 3, -1)
        brokers.world.reassign(name, (3,))
        await brokers.until_in_sync("m", "3")
        await brokers.until(lambda: not on_disk(brokers.processes[1], name), "replica 1 is closed")
        assert await brokers.client.consume_all(name) == [b"x" * 700_000] * 3
    assert_replays(brokers)


async def test_expired_session_starts_the_broker_again(brokers: Brokers) -> None:
    async with brokers.running():
        await brokers.until_in_sync("t", "1,2,3")
        await brokers.client.produce(T, [b"a"], -1)
        brokers.processes[1].zookeeper.expire()
        assert await brokers.client.produce(T, [b"b"], -1) == 2
        await brokers.until_in_sync("t", "1,2,3")
        assert await brokers.client.consume_all(T) == [b"a", b"b"]
    assert_replays(brokers)


@pytest.mark.parametrize(
    "garbage", [b"\xff\xff\xff\xff", b"\0\0\0\1\xc1", b"GET / HTTP/1.1\r\n\r\n"]
)
async def test_garbage_closes_only_its_connection(
    brokers: Brokers, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with brokers.running():
        await brokers.until_in_sync("t", "1,2,3")
        port = brokers.processes[1].configuration.port
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(garbage)
        assert await reader.read() == b""
        writer.close()
        assert await brokers.client.produce(T, [b"a"], -1) == 1
    assert any("the connection is closed" in one for one in caplog.messages)


async def test_error_to_the_client_names_the_partition_that_cannot_be_used(
    brokers: Brokers,
) -> None:
    async with brokers.running():
        with pytest.raises(ClientError, match="nope-0: it does not exist"):
            await brokers.client.produce(("nope", 0), [b"a"], -1)
        with pytest.raises(ClientError, match="no records at this offset"):
            await brokers.client.consume(T, 9)


async def test_records_of_several_requests_are_appended_in_order(brokers: Brokers) -> None:
    records = [bytes([one]) * RECORD_BYTES_MAX for one in range(9)]
    async with brokers.running():
        assert await brokers.client.produce(T, records, -1) == 9
        assert await brokers.client.consume_all(T) == records


async def test_records_before_a_failed_request_are_counted(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, produced = Connection.ask, 0

    async def ask_twice(connection: Connection, message: Any, seconds: float) -> Any:
        nonlocal produced
        produced += isinstance(message, ProduceRequest)
        if produced == 3:
            raise NoResponse("the broker does not respond")
        return await ask(connection, message, seconds)

    monkeypatch.setattr(Connection, "ask", ask_twice)
    async with brokers.running():
        with pytest.raises(ClientError, match="before, 6 of 9 records were acknowledged"):
            await brokers.client.produce(T, [b"x" * RECORD_BYTES_MAX] * 9, 1)


async def test_record_that_is_too_long_is_not_sent(brokers: Brokers) -> None:
    with pytest.raises(
        ClientError, match="t-0: record 2 of 2 has 1048577 bytes, but at most 104857"
    ):
        await brokers.client.produce(T, [b"a", b"x" * (RECORD_BYTES_MAX + 1)], -1)


async def test_lost_response_is_reported_and_the_request_not_repeated(
    brokers_of_a_lasting_isr: Brokers,
) -> None:
    brokers = brokers_of_a_lasting_isr
    brokers.client = type(brokers.client)(brokers, 1.0)  # type: ignore[arg-type]
    async with brokers.running():
        await brokers.until_in_sync("t", "1,2,3")
        await brokers.processes[2].stop()
        await brokers.processes[3].stop()
        with pytest.raises(ClientError, match="the records may have been appended"):
            await brokers.client.produce(T, [b"a"], -1)
        await brokers.until(lambda: on_disk(brokers.processes[1]) == [b"a"], "appended once")


async def test_connection_without_a_broker_is_unreachable(brokers: Brokers) -> None:
    port = brokers.processes[1].configuration.port
    for address in (f"{HOST}:{port}", f"{HOST}:99999", f"{'x' * 300}:1"):
        with pytest.raises(Unreachable, match="no connection to"):
            await Connection.open(address, 1.0)


async def test_stopped_broker_ends_waiting_requests(brokers_of_a_lasting_isr: Brokers) -> None:
    brokers = brokers_of_a_lasting_isr
    async with brokers.running():
        await brokers.until_in_sync("t", "1,2,3")
        address = f"{HOST}:{brokers.processes[1].configuration.port}"
        await brokers.processes[2].stop()
        await brokers.processes[3].stop()
        async with await Connection.open(address, 1.0) as connection:
            waiting = asyncio.create_task(connection.ask(ProduceRequest(1, *T, -1, [b"a"]), 9.0))
            await brokers.until(lambda: on_disk(brokers.processes[1]) == [b"a"], "appended")
            await brokers.processes[1].stop()
            with pytest.raises(NoResponse, match="closed the connection"):
                await waiting
            with pytest.raises(Unreachable):
                await connection.ask(FetchRequest(2, -1, *T, 0, 0), 1.0)


async def test_every_command_follows_its_cause_in_the_log(brokers: Brokers) -> None:
    async with brokers.running():
        await brokers.until_in_sync("t", "1,2,3")
        await brokers.client.produce(T, [b"a"], -1)
    for process in brokers.processes.values():
        stored = 0
        for one in process.trace:
            if isinstance(one, Stored):
                stored = one.seq
            elif isinstance(one, Done):
                assert one.id.cause <= stored
        assert any(isinstance(one, Done) for one in process.trace)


async def test_event_that_cannot_be_stored_is_not_acted_on(brokers: Brokers) -> None:
    def is_full() -> None:
        raise LogFull(leader.log.folder, "the disk is full")

    async with brokers.running():
        await brokers.until_in_sync("t", "1,2,3")
        leader = brokers.processes[1]
        leader.log.before_append = is_full
        with suppress(ClientError):
            # The leader ends with its connections, or the next leader is asked.
            await brokers.client.produce(T, [b"a"], -1)
        await leader.ended()
        assert isinstance(leader.fault, DaemonError)
        text = "cannot append to the log, the broker ended its session"
        assert str(leader.fault).startswith(text)
        assert on_disk(leader) == []
        await brokers.client.produce(T, [b"b"], -1)
        assert [on_disk(brokers.processes[one])[-1:] for one in (2, 3)] == [[b"b"], [b"b"]]


class SilentZooKeeper:
    """A connection that never answers. `submitted`: the commands that were sent."""

    def __init__(self) -> None:
        self.submitted: list[ZooKeeperCommand] = []

    def submit(self, command_id: CommandId, command: ZooKeeperCommand) -> None:
        self.submitted.append(command)

    async def run(self) -> None:
        await anyio.sleep_forever()

    async def close(self) -> None:
        """Nothing to close."""


async def test_nothing_is_sent_for_a_session_that_has_ended(tmp_path: Path) -> None:
    """Commands of an ended session would be carried out in the next one."""
    process = Brokers(1, tmp_path).processes[1]
    zookeeper, inbox, disk = SilentZooKeeper(), BrokerInbox(), Disk(tmp_path / "records")
    log = LogWriter.create(tmp_path / "log", header_of(process.configuration))
    broker = RunningBroker(process.configuration, inbox, zookeeper, log, disk, 6000)
    inbox.put(SessionConnected(1, 6000, "world", False), "session")
    inbox.put(SessionExpired(1), "session")
    with log:
        running = asyncio.create_task(broker.run())
        await until_found(lambda: log.tip.last_seq >= 2, "both events are in the log")
        assert zookeeper.submitted == []
        inbox.put(SessionConnected(2, 6000, "world", False), "session")
        await until_found(lambda: zookeeper.submitted, "a command is sent")
        broker.stop()
        await running


async def test_full_disk_ends_the_broker(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_full(segment: Segment, records: list[bytes]) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with brokers.running():
        await brokers.until_in_sync("t", "1,2,3")
        leader = brokers.processes[1]
        monkeypatch.setattr(Segment, "append", is_full)
        await brokers.client.produce(T, [b"a"], 0)
        await leader.ended()
        monkeypatch.undo()
        assert isinstance(leader.fault, DiskError)
        assert re.search(
            r"t-0@\d+\.records: No space left on device; check the disk and the permissions$",
            str(leader.fault),
        )
        await brokers.until_in_sync("t", "2,3")
