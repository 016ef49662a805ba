"""Large requests, many clients, and clients that go away."""

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from kio.schema.errors import ErrorCode

from controller.wire.client_requests import RequestHead, encode_request
from tests.controller.api.client import METADATA, Client, connected
from tests.controller.daemon.scene import OWN_ID, timed
from tests.lab.default_clusters.cluster import DefaultScene
from tests.lab.stock_tools.admin_requests import (
    CREATE_PARTITIONS,
    CREATE_PARTITIONS_VERSION,
    CREATE_TOPICS,
    CREATE_TOPICS_VERSION,
    DELETE_TOPICS,
    DELETE_TOPICS_VERSION,
    METADATA_VERSION,
    create_partitions,
    create_topics,
    delete_topics,
    metadata,
)
from tools.lab.cluster_view import until
from tools.lab.refold import Refold

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]

MANY_TOPICS = 1000
MANY_CLIENTS = 50
DELETED_SECONDS_MAX = 100.0


@pytest.fixture
async def daemon(scene: DefaultScene) -> Refold:
    """In control, and known to the brokers."""
    daemon = await scene.controlling()
    await scene.create_topic(f"known-{scene.own_address.partition(':')[2]}", {0: [1, 2, 3]})
    return daemon


@pytest.fixture
def port(scene: DefaultScene) -> int:
    """Where the daemon listens."""
    return int(scene.own_address.partition(":")[2])


async def test_a_thousand_topics_by_one_request(
    scene: DefaultScene, daemon: Refold, port: int
) -> None:
    names = [f"of-many-{number:04}" for number in range(MANY_TOPICS)]
    async with Client(port) as client:
        answer = await client.ask(
            CREATE_TOPICS, CREATE_TOPICS_VERSION, create_topics(dict.fromkeys(names, 2))
        )
        assert {one.name: one.error_code for one in answer.topics} == dict.fromkeys(
            names, ErrorCode.none
        )
        # The answer says that they have leaders.
        for name in (names[0], names[-1]):
            assert (await scene.view.states(name))[0]["leader"] in (1, 2, 3)
        await timed(lambda: _known(client, names), "a broker knows them")
        answer = await client.ask(DELETE_TOPICS, DELETE_TOPICS_VERSION, delete_topics(names))
        assert {one.error_code for one in answer.responses} == {ErrorCode.none}
        # The answer says that brokers no longer show them; their logs go later.
        assert not await _known(client, names[:1])

    async def gone() -> bool:
        return not await scene.view.topic(names[0]) and not await scene.view.topic(names[-1])

    await until(gone, DELETED_SECONDS_MAX, "their znodes are gone")
    assert await daemon.stop() == 0, daemon.last_words()


async def test_fifty_clients_at_once(scene: DefaultScene, daemon: Refold) -> None:
    """Each creates a topic, adds a partition, looks and deletes: all get their own answers."""

    async def one_client(number: int) -> None:
        name = f"of-client-{number}"
        client = AIOKafkaAdminClient(bootstrap_servers=scene.own_address)
        await client.start()
        try:
            created = await client.create_topics([NewTopic(name, 1, 2)])
            assert [error[:2] for error in created.topic_errors] == [(name, 0)]
            await client.create_partitions({name: NewPartitions(2)})
            cluster = await client.describe_cluster()
            assert cluster["controller_id"] == OWN_ID
            deleted = await client.delete_topics([name])
            assert list(deleted.topic_error_codes) == [(name, 0)]
        finally:
            await client.close()

    await asyncio.gather(*(one_client(number) for number in range(MANY_CLIENTS)))
    assert await daemon.stop() == 0, daemon.last_words()


async def test_a_client_goes_away_in_the_middle(
    scene: DefaultScene, daemon: Refold, port: int
) -> None:
    """What it asked for is done where the request was whole; nobody else notices."""
    async with connected(6, port) as (whole, half, *others):
        whole.send(CREATE_TOPICS, CREATE_TOPICS_VERSION, create_topics({"asked-and-gone": 2}))
        request = create_topics({"half-asked": 2})
        head = RequestHead(CREATE_TOPICS, CREATE_TOPICS_VERSION, 1)
        half.writer.write(encode_request(head, "test", request)[:30])
        for client in (whole, half):
            await client.writer.drain()
            client.writer.close()
        for number, client in enumerate(others):
            wanted = create_topics({f"beside-{number}": 2})
            answer = await client.ask(CREATE_TOPICS, CREATE_TOPICS_VERSION, wanted)
            assert answer.topics[0].error_code == ErrorCode.none
    await scene.until_in_sync("asked-and-gone", 2)
    assert not await scene.replicas_of("half-asked")
    assert await daemon.stop() == 0, daemon.last_words()


async def test_one_that_waits_holds_nobody_up(
    scene: DefaultScene, daemon: Refold, port: int
) -> None:
    """A topic whose only broker does not live gets no leader: its client waits for the time-out,
    another's topic is made meanwhile."""
    dead = 99
    async with Client(port) as waiting, Client(port) as other:
        seconds = timedelta(seconds=5)
        head = waiting.send(
            CREATE_TOPICS,
            CREATE_TOPICS_VERSION,
            create_topics({"without-a-broker": {0: [dead]}}, timeout=seconds),
        )
        loop = asyncio.get_running_loop()
        began = loop.time()
        answer = await other.ask(
            CREATE_TOPICS, CREATE_TOPICS_VERSION, create_topics({"meanwhile": 3})
        )
        assert answer.topics[0].error_code == ErrorCode.none
        assert loop.time() - began < seconds.total_seconds() - 1
        answer = await waiting.answer_to(head)
        assert answer.topics[0].error_code == ErrorCode.request_timed_out
        assert loop.time() - began > seconds.total_seconds() - 0.1
        deletion = delete_topics(["without-a-broker"])
        await other.ask(DELETE_TOPICS, DELETE_TOPICS_VERSION, deletion)
    assert await daemon.stop() == 0, daemon.last_words()


async def test_who_is_answered_may_ask_any_broker(
    scene: DefaultScene, daemon: Refold, port: int
) -> None:
    """Of what was created, grown and deleted each of them knows by then."""
    async with AsyncExitStack() as stack:
        ports = [port, *(one.port for one in scene.lab.brokers)]
        tool, *anybody = [await stack.enter_async_context(Client(one)) for one in (port, *ports)]
        for number in range(10):
            name = f"asked-at-once-{number}"
            answer = await tool.ask(
                CREATE_TOPICS, CREATE_TOPICS_VERSION, create_topics({name: 3}, partitions=3)
            )
            assert answer.topics[0].error_code == ErrorCode.none
            assert [await _led(client, name) for client in anybody] == [3] * 4
            await tool.ask(CREATE_PARTITIONS, CREATE_PARTITIONS_VERSION, create_partitions(name, 5))
            assert [await _led(client, name) for client in anybody] == [5] * 4
            await tool.ask(DELETE_TOPICS, DELETE_TOPICS_VERSION, delete_topics([name]))
            assert [await _led(client, name) for client in anybody] == [0] * 4
    assert await daemon.stop() == 0, daemon.last_words()


async def test_a_broker_that_hangs_holds_up_no_client_and_no_answer(
    scene: DefaultScene, daemon: Refold, port: int
) -> None:
    hangs = scene.lab.brokers[2]
    async with connected(6, port) as clients:
        for client in clients:
            await client.ask(METADATA, METADATA_VERSION, metadata())
        hangs.pause()
        try:
            async with asyncio.timeout(8):
                for client in clients:
                    await client.ask(METADATA, METADATA_VERSION, metadata())
            async with asyncio.timeout(5):
                wanted = create_topics({"beside-one-that-hangs": {0: [1, 2]}})
                answer = await clients[0].ask(CREATE_TOPICS, CREATE_TOPICS_VERSION, wanted)
            assert answer.topics[0].error_code == ErrorCode.none
        finally:
            hangs.resume()
    assert await daemon.stop() == 0, daemon.last_words()


async def test_who_waits_when_the_daemon_is_ended_is_answered(
    scene: DefaultScene, daemon: Refold, port: int
) -> None:
    async with connected(5, port) as clients:
        heads = [
            client.send(
                CREATE_TOPICS,
                CREATE_TOPICS_VERSION,
                create_topics({f"ended-{number}": {0: [99]}}),
            )
            for number, client in enumerate(clients)
        ]
        await until(lambda: _all_made(scene, len(clients)), 20.0, "all are begun")
        assert await daemon.stop() == 0, daemon.last_words()
        for head, client in zip(heads, clients, strict=True):
            answer = await client.answer_to(head)
            assert answer.topics[0].error_code == ErrorCode.request_timed_out


async def _all_made(scene: DefaultScene, count: int) -> bool:
    return all([await scene.view.topic(f"ended-{number}") for number in range(count)])


async def _led(client: Client, topic: str) -> int:
    """How many partitions of a topic have a leader, by what a broker says."""
    seen = await client.ask(METADATA, METADATA_VERSION, metadata())
    found = [one for one in seen.topics if one.name == topic and not one.error_code]
    return sum(part.leader_id > 0 for one in found for part in one.partitions)


async def _known(client: Client, names: list[str]) -> bool:
    """Whether the broker behind the daemon shows all of them, with leaders."""
    seen = await client.ask(METADATA, METADATA_VERSION, metadata())
    led = {one.name for one in seen.topics if all(part.leader_id > 0 for part in one.partitions)}
    return led.issuperset(names)
