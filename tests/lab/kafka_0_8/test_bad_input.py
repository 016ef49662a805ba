"""Content that no broker can use, in every znode of the design: it is named in a message, and
nothing else is harmed. Also: commands of administrators and broker processes that are refused."""

import json
from pathlib import Path

import anyio
import pytest

from controller.core.operations import Create, Delete, SetData, WriteOperation
from controller.kafka_0_8.admin import AdminError
from controller.kafka_0_8_broker import administration
from tools.demo.kafka_0_8.brokers import Brokers
from tools.demo.kafka_0_8.scenes import ORDERS
from tools.lab.broker_0_8 import Broker08

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]

START = b'{"request":"start-replica","topic":"%s","partition":0}'
GARBAGE = {
    "not-utf-8": b"\xff\xfe",
    "empty": b"",
    "text": b"all of them",
    "twice": b"1,1",
    "negative": b"-1",
    "json": b'{"replicas":[1]}',
}


def messages(broker: Broker08) -> list[str]:
    """The log messages of a broker, with their subjects."""
    found = []
    for line in broker.log.read_text().splitlines():
        document = json.loads(line)
        found.append(f"{document.get('subject', '')} {document['message']}")
    return found


async def write(brokers: Brokers, *operations: WriteOperation) -> None:
    """Write as any client of ZooKeeper can."""
    assert await brokers.zookeeper.write(operations) == 0


async def until_reported(brokers: Brokers, broker: int, *words: str) -> None:
    """Wait until one message of a broker has all these words."""

    async def reported() -> bool:
        said = messages(brokers.broker(broker))
        return any(all(word in one for word in words) for one in said)

    await brokers.until(reported, f"broker {broker} reports {words}")


async def assert_unharmed(brokers: Brokers) -> None:
    """Topic orders continues: all replicas are in sync, and records are committed."""
    await brokers.until_all_in_sync(*ORDERS)
    for name in ORDERS:
        end = await brokers.client.produce(name, [b"unharmed"], -1)
        assert end is not None
        assert await brokers.client.consume_all(name, end - 1) == [b"unharmed"]


async def test_unusable_replicas_are_reported(brokers: Brokers) -> None:
    for topic, content in GARBAGE.items():
        path = f"/brokers/topics/{topic}"
        await write(
            brokers,
            *(Create(path), Create(f"{path}/0"), Create(f"{path}/0/replicas", content)),
            Create(f"/brokers/state/1/request-{topic}", START % topic.encode()),
        )
        await until_reported(brokers, 1, f"{path}/0/replicas cannot be read as a list of broker")
    await assert_unharmed(brokers)
    await brokers.broker(1).stop()
    await brokers.broker(1).start()
    await assert_unharmed(brokers)
    for topic in GARBAGE:
        await administration.delete_topic(brokers.zookeeper, topic)
    await brokers.until_drained(1)


async def test_unknown_broker_among_the_replicas_is_reported(brokers: Brokers) -> None:
    path = "/brokers/topics/unknown"
    await write(
        brokers,
        *(Create(path), Create(f"{path}/0"), Create(f"{path}/0/replicas", b"1,99")),
        Create("/brokers/state/1/request-unknown", START % b"unknown"),
    )
    await until_reported(brokers, 1, "/brokers/state/99", "is on a broker that does not exist")
    assert await brokers.client.produce(("unknown", 0), [b"a"], -1) == 1
    await assert_unharmed(brokers)


@pytest.mark.parametrize("content", [b"\xff", b"", b"close everything", b'{"request":"explode"}'])
async def test_unusable_request_is_reported_and_deleted(brokers: Brokers, content: bytes) -> None:
    path = f"/brokers/state/2/request-{len(content)}"
    await write(brokers, Create(path, content))
    await until_reported(brokers, 2, path, "the request is deleted")
    await brokers.until_drained(2)
    await assert_unharmed(brokers)


async def test_unusable_reassignment_is_reported(brokers: Brokers) -> None:
    parent = "/brokers/partitions_reassigned/orders"
    for partition, content, words in (
        (0, b"\xff", "cannot be read"),
        (1, b"", "the list is empty"),
        (2, b"1,99", "broker 99 is unknown"),
    ):
        path = f"{parent}/{partition}"
        if not await brokers.zookeeper.exists(parent):
            await write(brokers, Create(parent))
        await write(brokers, Create(path, content))
        leader = await brokers.leader(ORDERS[partition])
        assert leader is not None
        await until_reported(brokers, leader, path, words)
        await write(brokers, Delete(path, -1))
    await assert_unharmed(brokers)


async def test_unusable_leader_is_reported_until_it_is_corrected(brokers: Brokers) -> None:
    name, path = ORDERS[0], "/brokers/topics/orders/0/leader"
    await write(brokers, Delete(path, -1), Create(path, b"nobody"))
    for broker in (1, 2, 3):
        await until_reported(brokers, broker, f"{path} cannot be read as a broker id")
    for other in ORDERS[1:]:
        assert await brokers.client.produce(other, [b"a"], -1)
    await write(brokers, Delete(path, -1))
    await brokers.until_all_in_sync(name)
    await assert_unharmed(brokers)


async def test_unusable_epoch_is_reported_and_written_over(brokers: Brokers) -> None:
    (found,) = await brokers.zookeeper.read(("/brokers/epoch",))
    assert found is not None
    await write(brokers, SetData("/brokers/epoch", b"many", -1))
    await write(brokers, Delete("/brokers/topics/orders/0/leader", -1))
    await until_reported(brokers, 1, "/brokers/epoch has unreadable content, 'many'")
    await assert_unharmed(brokers)
    (restored,) = await brokers.zookeeper.read(("/brokers/epoch",))
    assert restored is not None
    assert int(restored.data) > int(found.data)


async def test_unknown_znodes_are_skipped_and_shown(brokers: Brokers) -> None:
    unknown = (
        "/brokers/ids/nobody",
        "/brokers/state/3/note",
        "/brokers/state/everyone",
        "/brokers/topics/orders/0/note",
        "/brokers/topics/orders/first",
        "/brokers/partitions_reassigned/nothing",
    )
    await write(brokers, *map(Create, unknown))
    found = await brokers.status()
    assert [one for one in found.problems if one in unknown] == list(unknown)
    assert {"nobody", "everyone"}.isdisjoint((*found.brokers, *found.queues))
    await until_reported(brokers, 3, "/brokers/state/3/note is not named request-NNNNNNNNNN")
    await brokers.broker(3).stop()
    await brokers.broker(3).start()
    await until_reported(brokers, 3, "/brokers/topics/orders/first is not named by a partition")
    await assert_unharmed(brokers)
    await write(brokers, *(Delete(one, -1) for one in unknown))


async def test_empty_isr_is_reported_once_and_shown(brokers: Brokers) -> None:
    path = "/brokers/topics/orders/0/ISR"
    (found,) = await brokers.zookeeper.read((path,))
    assert found is not None
    await write(brokers, SetData(path, b"", -1), Delete("/brokers/topics/orders/0/leader", -1))
    await until_reported(brokers, 1, f"{path} cannot be read as broker ids")
    problem = (await brokers.status()).problems[path]
    assert problem.startswith("cannot be read as broker ids and a leader epoch such as 1,2;7")
    await anyio.sleep(3)  # A second report would be logged.
    assert sum(path in one for one in messages(brokers.broker(1))) == 1
    await write(brokers, SetData(path, found.data, -1))
    await assert_unharmed(brokers)


async def test_topic_with_unusable_replicas_prevents_no_deletion(brokers: Brokers) -> None:
    zookeeper = brokers.zookeeper
    await administration.add_brokers(zookeeper, [4])
    for topic in ("broken", "other"):
        await administration.create_topic(zookeeper, topic, {0: (1,)})
        await brokers.until_in_sync((topic, 0), {1})
    await write(brokers, SetData("/brokers/topics/broken/0/replicas", b"everywhere", -1))
    await administration.delete_topic(zookeeper, "other")
    why = "it may have a replica of broken-0, because /brokers/topics/broken/0/replicas cannot be"
    with pytest.raises(AdminError, match=why):
        await administration.remove_brokers(zookeeper, [4])
    await administration.delete_topic(zookeeper, "broken")
    await brokers.until_drained(1)
    assert not brokers.has_records(1, ("broken", 0))
    await administration.remove_brokers(zookeeper, [4])
    assert list((await brokers.status()).queues) == ["1", "2", "3"]
    await assert_unharmed(brokers)


async def assert_exits(broker: Broker08, words: str) -> None:
    """A broker that is started exits with one message that has these words."""
    await broker.start(wait=False)
    await broker.ended(30)
    assert "Traceback" not in broker.log.read_text()
    assert words in messages(broker)[-1]


async def test_second_process_with_the_same_data_or_port_is_refused(
    brokers: Brokers, tmp_path: Path
) -> None:
    first = brokers.broker(1)
    second = Broker08(1, tmp_path / "second", brokers.stage.lab.zookeepers[0], {}, None)
    second.data, data = first.data, second.data
    await assert_exits(second, f"process {first.pid} writes this log: end it first")
    second.data, second.port = data, first.port
    await assert_exits(second, "use another --port, or end the process that uses it")
    await assert_unharmed(brokers)


async def test_id_that_is_registered_at_another_address_is_refused(
    brokers: Brokers, tmp_path: Path
) -> None:
    first = brokers.broker(1)
    second = Broker08(1, tmp_path / "second", brokers.stage.lab.zookeepers[0], {}, None)
    address = f"127.0.0.1:{first.port}"
    await assert_exits(second, f"broker id 1 is in use: /brokers/ids/1 is registered at {address}")
    assert second.logs() == []
    await assert_unharmed(brokers)


async def test_broker_starts_when_zookeeper_answers(brokers: Brokers) -> None:
    zookeeper, broker = brokers.stage.lab.zookeepers[0], brokers.broker(3)
    await broker.stop()
    zookeeper.pause()
    await broker.start(wait=False)
    await until_reported(brokers, 3, "the broker starts when ZooKeeper answers: no session within")
    zookeeper.resume()
    await brokers.until_all_in_sync(*ORDERS)
    await assert_unharmed(brokers)


async def test_unreadable_high_watermarks_prevent_the_start(brokers: Brokers) -> None:
    broker = brokers.broker(2)
    await broker.stop()
    file = broker.data / "records" / "high-watermarks.json"
    before = file.read_bytes()
    file.write_bytes(b"[[")
    await assert_exits(broker, f"{file} cannot be read as high watermarks")
    file.write_bytes(before)
    await broker.start()
    await assert_unharmed(brokers)
