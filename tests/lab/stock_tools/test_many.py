"""Large requests, many clients, and clients that disconnect."""

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from kio.schema.errors import ErrorCode

from controller.wire.client_requests import RequestHead, encode_request
from tests.controller.api.client import METADATA, Client, connected
from tests.controller.daemon.lab_cluster import OWN_ID, timed
from tests.lab.default_clusters.cluster import DefaultLabCluster
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
async def daemon(lab_cluster: DefaultLabCluster) -> Refold:
    """A daemon that is controller and known to the brokers."""
    daemon = await lab_cluster.controlling()
    await lab_cluster.create_topic(
        f"known-{lab_cluster.daemon_address.partition(':')[2]}", {0: [1, 2, 3]}
    )
    return daemon


@pytest.fixture
def port(lab_cluster: DefaultLabCluster) -> int:
    """The port of the daemon."""
    return int(lab_cluster.daemon_address.partition(":")[2])


async def test_one_request_creates_and_deletes_a_thousand_topics(
    lab_cluster: DefaultLabCluster, daemon: Refold, port: int
) -> None:
    names = [f"of-many-{number:04}" for number in range(MANY_TOPICS)]
    async with Client(port) as client:
        answer = await client.ask(
            CREATE_TOPICS, CREATE_TOPICS_VERSION, create_topics(dict.fromkeys(names, 2))
        )
        assert {one.name: one.error_code for one in answer.topics} == dict.fromkeys(
            names, ErrorCode.none
        )
        # The response means that the topics have leaders.
        for name in (names[0], names[-1]):
            assert (await lab_cluster.view.states(name))[0]["leader"] in (1, 2, 3)
        await timed(lambda: _known(client, names), "a broker knows them")
        answer = await client.ask(DELETE_TOPICS, DELETE_TOPICS_VERSION, delete_topics(names))
        assert {one.error_code for one in answer.responses} == {ErrorCode.none}
        # The response means that brokers no longer list the topics; files are deleted later.
        assert not await _known(client, names[:1])

    async def deleted() -> bool:
        return not await lab_cluster.view.topic(names[0]) and not await lab_cluster.view.topic(
            names[-1]
        )

    await until(deleted, DELETED_SECONDS_MAX, "the znodes are deleted")
    assert await daemon.stop() == 0, daemon.last_output()


async def test_fifty_clients_get_their_answers(
    lab_cluster: DefaultLabCluster, daemon: Refold
) -> None:
    """Each client creates a topic, adds a partition, describes and deletes."""

    async def one_client(number: int) -> None:
        name = f"of-client-{number}"
        client = AIOKafkaAdminClient(bootstrap_servers=lab_cluster.daemon_address)
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
    assert await daemon.stop() == 0, daemon.last_output()


async def test_client_that_disconnects_affects_no_other(
    lab_cluster: DefaultLabCluster, daemon: Refold, port: int
) -> None:
    """A complete request is executed; other clients are not affected."""
    async with connected(6, port) as (whole, half, *others):
        whole.send(CREATE_TOPICS, CREATE_TOPICS_VERSION, create_topics({"sent-completely": 2}))
        request = create_topics({"sent-by-half": 2})
        head = RequestHead(CREATE_TOPICS, CREATE_TOPICS_VERSION, 1)
        half.writer.write(encode_request(head, "test", request)[:30])
        for client in (whole, half):
            await client.writer.drain()
            client.writer.close()
        for number, client in enumerate(others):
            request = create_topics({f"of-other-client-{number}": 2})
            answer = await client.ask(CREATE_TOPICS, CREATE_TOPICS_VERSION, request)
            assert answer.topics[0].error_code == ErrorCode.none
    await lab_cluster.until_in_sync("sent-completely", 2)
    assert not await lab_cluster.replicas_of("sent-by-half")
    assert await daemon.stop() == 0, daemon.last_output()


async def test_waiting_request_does_not_delay_others(
    lab_cluster: DefaultLabCluster, daemon: Refold, port: int
) -> None:
    """A topic whose only broker is dead gets no leader: the client waits until the time-out, and
    the topic of another client is created meanwhile."""
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
    assert await daemon.stop() == 0, daemon.last_output()


async def test_every_broker_knows_an_answered_change(
    lab_cluster: DefaultLabCluster, daemon: Refold, port: int
) -> None:
    """Every broker knows what was created, altered and deleted."""
    async with AsyncExitStack() as stack:
        ports = [port, *(one.port for one in lab_cluster.lab.brokers)]
        tool, *others = [await stack.enter_async_context(Client(one)) for one in (port, *ports)]
        for number in range(10):
            name = f"answered-{number}"
            answer = await tool.ask(
                CREATE_TOPICS, CREATE_TOPICS_VERSION, create_topics({name: 3}, partitions=3)
            )
            assert answer.topics[0].error_code == ErrorCode.none
            assert [await _led(client, name) for client in others] == [3] * 4
            await tool.ask(CREATE_PARTITIONS, CREATE_PARTITIONS_VERSION, create_partitions(name, 5))
            assert [await _led(client, name) for client in others] == [5] * 4
            await tool.ask(DELETE_TOPICS, DELETE_TOPICS_VERSION, delete_topics([name]))
            assert [await _led(client, name) for client in others] == [0] * 4
    assert await daemon.stop() == 0, daemon.last_output()


async def test_paused_broker_delays_no_client(
    lab_cluster: DefaultLabCluster, daemon: Refold, port: int
) -> None:
    paused = lab_cluster.lab.brokers[2]
    async with connected(6, port) as clients:
        for client in clients:
            await client.ask(METADATA, METADATA_VERSION, metadata())
        paused.pause()
        try:
            async with asyncio.timeout(8):
                for client in clients:
                    await client.ask(METADATA, METADATA_VERSION, metadata())
            async with asyncio.timeout(5):
                request = create_topics({"without-the-paused-broker": {0: [1, 2]}})
                answer = await clients[0].ask(CREATE_TOPICS, CREATE_TOPICS_VERSION, request)
            assert answer.topics[0].error_code == ErrorCode.none
        finally:
            paused.resume()
    assert await daemon.stop() == 0, daemon.last_output()


async def test_waiting_requests_are_answered_when_the_daemon_stops(
    lab_cluster: DefaultLabCluster, daemon: Refold, port: int
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
        await until(lambda: _all_made(lab_cluster, len(clients)), 20.0, "all topics have a znode")
        assert await daemon.stop() == 0, daemon.last_output()
        for head, client in zip(heads, clients, strict=True):
            answer = await client.answer_to(head)
            assert answer.topics[0].error_code == ErrorCode.request_timed_out


async def _all_made(lab_cluster: DefaultLabCluster, count: int) -> bool:
    return all([await lab_cluster.view.topic(f"ended-{number}") for number in range(count)])


async def _led(client: Client, topic: str) -> int:
    """The number of partitions of a topic that have a leader, by a broker's metadata."""
    seen = await client.ask(METADATA, METADATA_VERSION, metadata())
    found = [one for one in seen.topics if one.name == topic and not one.error_code]
    return sum(part.leader_id > 0 for one in found for part in one.partitions)


async def _known(client: Client, names: list[str]) -> bool:
    """Whether the broker to which the daemon forwards lists all topics with leaders."""
    seen = await client.ask(METADATA, METADATA_VERSION, metadata())
    led = {one.name for one in seen.topics if all(part.leader_id > 0 for part in one.partitions)}
    return led.issuperset(names)
