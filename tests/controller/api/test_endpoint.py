"""Requests of brokers to the controller, through the endpoint and its front process."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from struct import pack
from typing import Any, Self

import anyio
import pytest

from controller.api import heartbeat
from controller.api.errors import CannotListen
from controller.api.heartbeat import Heartbeat
from controller.api.limits import EndpointLimits
from controller.api.listening import listen
from controller.api.messages import FrontLink, FrontSetup, Listener, LiveBrokerList, RequestReceived
from controller.core.api_requests.alter_partition import (
    AlteredPartition,
    AlterPartitionReceived,
    AlterPartitionResponse,
    ProposedState,
)
from controller.core.api_requests.controlled_shutdown import (
    ControlledShutdownReceived,
    ControlledShutdownResponse,
)
from controller.core.api_requests.producer_ids import AllocateProducerIdsResponse
from controller.core.values import Broker, Endpoint
from tests.controller.api.client import (
    API_VERSIONS,
    METADATA,
    Client,
    allocate_producer_ids,
    alter_partition,
    api_versions,
    metadata_request,
    request_schema,
)
from tests.controller.api.conftest import KNOWN, Serve, ServedEndpoint
from tests.controller.api_keys import ALLOCATE_PRODUCER_IDS, ALTER_PARTITION, CONTROLLED_SHUTDOWN
from tests.waiting import WAIT_SECONDS, until_found
from tools.lab.cluster_view import until
from tools.lab.ports import free_port

NOT_CONTROLLER = 41
INVALID_REQUEST = 42


async def test_request_is_an_event_and_its_answer_is_sent_back(served: ServedEndpoint) -> None:
    served.answers_itself = False
    async with Client(served.port) as broker:
        head = broker.send(ALTER_PARTITION, 1, alter_partition(2))
        (event,) = await served.has_events(1)
        number = event.request
        states = [ProposedState("t", one, 3, (1, 2, 3), 0, 4) for one in range(2)]
        assert event == AlterPartitionReceived(number, 1, 1, 10, states)
        assert served.channels[0].startswith("api:")
        changed = AlteredPartition("t", None, 0, 0, 1, 3, (1, 2, 3), 0, 5)
        served.endpoint.answer(AlterPartitionResponse(number, 0, (changed,)))
        answer = await broker.answer_to(head)
    (topic,) = answer.topics
    assert (topic.topic_name, topic.partitions[0].partition_epoch) == ("t", 5)


async def test_requests_of_one_connection_are_answered_one_after_the_other(
    served: ServedEndpoint,
) -> None:
    served.answers_itself = False
    async with Client(served.port) as broker:
        heads = [broker.send(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids()) for _ in range(3)]
        for count, head in enumerate(heads, 1):
            events = await served.has_events(count)
            assert len(events) == count
            request = events[-1].request
            served.endpoint.answer(AllocateProducerIdsResponse(request, 0, count, 1000))
            assert (await broker.answer_to(head)).producer_id_start == count
    assert len(set(served.channels)) == 1
    assert len({event.request for event in served.events}) == 3


async def test_controlled_shutdown_without_api_versions_and_without_client_id(
    served: ServedEndpoint,
) -> None:
    """Version 0 has a different request header."""
    async with Client(served.port) as broker:
        broker.writer.write(pack(">ihhii", 12, CONTROLLED_SHUTDOWN, 0, 5, 3))
        (event,) = await served.has_events(1)
        assert event == ControlledShutdownReceived(event.request, 0, 3, -1)
        served.endpoint.answer(ControlledShutdownResponse(event.request, 0, (("t", 7),)))
        assert await broker.receive() == pack(">ihi", 5, 0, 1) + b"\0\x01t" + pack(">i", 7)


async def test_controlled_shutdown_as_brokers_send_it_is_answered(served: ServedEndpoint) -> None:
    schema = request_schema(CONTROLLED_SHUTDOWN, 3)
    async with Client(served.port) as broker:
        request = schema.ControlledShutdownRequest(broker_id=3, broker_epoch=99)
        head = broker.send(CONTROLLED_SHUTDOWN, 3, request)
        (event,) = await served.has_events(1)
        assert event == ControlledShutdownReceived(event.request, 3, 3, 99)
        served.endpoint.answer(ControlledShutdownResponse(event.request, NOT_CONTROLLER))
        assert (await broker.answer_to(head)).error_code == NOT_CONTROLLER


async def test_answer_to_a_disconnected_client_is_dropped(serve: Serve) -> None:
    other = Broker(2, KNOWN.epoch, ())
    served = await serve(brokers=(KNOWN, other), waiting_requests_max=1)
    served.answers_itself = False
    async with Client(served.port) as gone:
        gone.send(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
        await served.has_events(1)
    async with Client(served.port) as broker:
        head = broker.send(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids(other.id))
        with anyio.move_on_after(0.3):
            await served.has_events(2)
        assert len(served.events) == 1, "the slot of the first request is still taken"
        served.endpoint.answer(AllocateProducerIdsResponse(served.events[0].request, 0))
        _, second = await served.has_events(2)
        served.endpoint.answer(AllocateProducerIdsResponse(second.request, 0, 5, 1000))
        assert (await broker.answer_to(head)).producer_id_start == 5


OWN_APIS = {
    **{7: (0, 3), 18: (0, 4), 56: (0, 3), 67: (0, 0)},
    **{19: (0, 7), 20: (0, 6), 37: (0, 3), 43: (0, 2), 45: (0, 0), 46: (0, 0), 51: (0, 0)},
    57: (0, 1),
}


@pytest.mark.parametrize("brokers", [(), (KNOWN,)])
async def test_broker_is_offered_only_the_controllers_apis_without_a_broker_to_forward_to(
    serve: Serve, brokers: tuple[Broker, ...]
) -> None:
    served = await serve(brokers=brokers)
    async with Client(served.port, client_id="7") as broker:
        answer = await broker.ask(API_VERSIONS, 3, api_versions())
        assert spans_of(answer) == OWN_APIS
        answer = await broker.ask(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
        assert answer.producer_id_len == 1000


@pytest.mark.parametrize("brokers", [(), (KNOWN,)])
@pytest.mark.parametrize(
    ("api_key", "version", "asked"),
    [(API_VERSIONS, 3, api_versions()), (METADATA, 12, metadata_request())],
)
async def test_client_is_disconnected_without_a_broker_to_forward_to(
    serve: Serve, brokers: tuple[Broker, ...], api_key: int, version: int, asked: Any
) -> None:
    """A response without its APIs would make the client fail. Its next address may be a
    broker's."""
    served = await serve(brokers=brokers)
    async with Client(served.port) as client:
        client.send(api_key, version, asked)
        assert await client.closed()


async def test_standby_that_cannot_forward_logs_no_warning(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    served = await serve(brokers=())
    async with Client(served.port) as client:
        client.send(API_VERSIONS, 3, api_versions())
        assert await client.closed()
    async with Client(
        served.port
    ) as broker:  # The front reports its closed connections before this answer.
        await broker.ask(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
    assert not caplog.text


async def test_api_versions_is_answered_in_every_version(with_broker: ServedEndpoint) -> None:
    async with Client(with_broker.port) as client:
        for version in range(5):
            answer = await client.ask(API_VERSIONS, version, api_versions(version))
            assert answer.error_code == 0
            assert {56, 67} <= spans_of(answer).keys()


async def test_unsupported_version_of_api_versions_is_answered_with_the_supported_ones(
    with_broker: ServedEndpoint,
) -> None:
    async with Client(with_broker.port) as client:
        client.writer.write(pack(">ihhihB", 11, API_VERSIONS, 99, 5, -1, 0))
        expected = pack(">ihi", 5, 35, 1) + pack(">hhh", API_VERSIONS, 0, 4)
        assert await client.receive() == expected
        assert (await client.ask(API_VERSIONS, 3, api_versions())).error_code == 0


@pytest.mark.parametrize("name", ["", "-a", "a-", "a b", "ä"])
async def test_client_software_without_a_valid_name_is_rejected(
    with_broker: ServedEndpoint, name: str
) -> None:
    schema = request_schema(API_VERSIONS, 3)
    named = {"client_software_name": name, "client_software_version": "1.0-a"}
    async with Client(with_broker.port) as client:
        answer = await client.ask(API_VERSIONS, 3, schema.ApiVersionsRequest(**named))
        assert (answer.error_code, answer.api_keys) == (INVALID_REQUEST, ())
        assert (await client.ask(API_VERSIONS, 3, api_versions())).error_code == 0


def spans_of(answer: Any) -> dict[int, tuple[int, int]]:
    """The offered versions by API key."""
    return {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}


async def test_all_listeners_are_served(serve: Serve) -> None:
    served = await serve(names=("INTERNAL", "EXTERNAL"))
    for port in served.ports.values():
        async with Client(port) as broker:
            answer = await broker.ask(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
            assert answer.producer_id_len == 1000


def fronts() -> set[int]:
    """The front processes of this process. Other tests may have left a JVM."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {
        int(one)
        for one in children
        if b"controller.api.front" in Path(f"/proc/{one}/cmdline").read_bytes()
    }


async def test_signal_to_the_daemons_process_group_does_not_end_the_front(
    served: ServedEndpoint,
) -> None:
    """The daemon stops it when it hands its role back."""
    async with Client(served.port) as broker:
        # The port is open before the front runs.
        await broker.ask(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
        (front,) = fronts()
        assert os.getpgid(front) != os.getpgid(0)


async def test_front_that_exits_is_replaced(served: ServedEndpoint) -> None:
    async with Client(served.port) as broker:
        await broker.ask(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
        (front,) = fronts()
        os.kill(front, signal.SIGKILL)
        assert await broker.closed()
    async with Client(served.port) as broker:
        answer = await broker.ask(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
        assert answer.producer_id_len == 1000
    first, second = served.events
    assert first.request < second.request
    assert served.channels[0] != served.channels[1]


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon waits 4 s for a front that hangs, not 10 s."""
    assert heartbeat.UNRESPONSIVE_S_MAX == 10
    monkeypatch.setattr(heartbeat, "UNRESPONSIVE_S_MAX", 4.0)


async def test_front_that_hangs_is_replaced(
    short_patience: None, served: ServedEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    async with Client(served.port) as broker:
        await broker.ask(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
        (front,) = fronts()
        os.kill(front, signal.SIGSTOP)
        broker.send(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await broker.receive()
    async with Client(served.port) as broker:
        answer = await broker.ask(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
        assert answer.producer_id_len == 1000
    assert (
        "the endpoint's front process did not answer for 4 s and was killed; it is restarted"
        in caplog.text
    )


async def test_delayed_daemon_does_not_consider_its_front_hung(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The front's answers during the delay are read afterwards."""
    monkeypatch.setattr(heartbeat, "UNRESPONSIVE_S_MAX", 0.05)
    watched = Heartbeat(interval_s=0.01)
    watched.answered()

    def ask() -> None:
        time.sleep(0.1)  # The daemon is delayed.
        asyncio.get_running_loop().call_soon(watched.answered)

    with anyio.move_on_after(0.5) as waiting:
        await watched.until_unresponsive(ask)
    assert waiting.cancelled_caught


DAEMON = """
import asyncio, sys
from controller.api.endpoint import ApiEndpoint
from controller.api.limits import EndpointLimits
from controller.api.listening import listen
from controller.core.values import Broker, Endpoint
listeners = listen([Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", int(sys.argv[1]))])
endpoint = ApiEndpoint(
    lambda event, channel: None, listeners, broker_id=1, limits=EndpointLimits(), broker_settings={}
)
asyncio.run(endpoint.run())
"""


async def test_front_exits_when_its_daemon_is_killed() -> None:
    port = free_port()
    daemon = subprocess.Popen([sys.executable, "-c", DAEMON, str(port)])
    try:
        async with RetryingClient(port, client_id="7") as client:
            await client.ask(API_VERSIONS, 3, api_versions())
            daemon.kill()
            assert await client.closed()
    finally:
        daemon.kill()
        daemon.wait()


async def test_front_without_a_daemon_exits_silently() -> None:
    """The number of the broker's clients does not matter."""
    endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", free_port())
    (listening,) = listen([endpoint])
    descriptor = listening.socket.fileno()
    ours, theirs = socket.socketpair()
    front = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "controller.api.front", str(theirs.fileno()), str(os.getpid())),
        pass_fds=[theirs.fileno(), descriptor],
        stderr=asyncio.subprocess.PIPE,
    )
    theirs.close()
    listening.socket.close()
    link = await FrontLink.open(ours)
    link.send(FrontSetup(1, (Listener(descriptor, endpoint),), EndpointLimits(), 1, {}))
    link.send(LiveBrokerList((KNOWN,)))
    async with Client(endpoint.port) as idle, Client(endpoint.port) as waiting:
        waiting.send(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
        assert isinstance(await link.receive(), RequestReceived)
        await link.close()
        assert await idle.closed()
    _, complaints = await front.communicate()
    assert (front.returncode, complaints) == (0, b"")


class RetryingClient(Client):
    """A client that waits until the endpoint listens."""

    async def __aenter__(self) -> Self:
        connect = super().__aenter__

        async def connected() -> bool:
            with suppress(ConnectionRefusedError):
                await connect()
                return True
            return False

        await until(connected, WAIT_SECONDS, "the endpoint listens")
        return self


async def test_front_that_cannot_be_started_is_retried(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    executable = sys.executable
    monkeypatch.setattr(sys, "executable", "/no/python")
    served = await serve()
    async with Client(served.port) as broker:
        head = broker.send(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
        await until_found(lambda: "cannot be started" in caplog.text, "the error is logged")
        monkeypatch.setattr(sys, "executable", executable)
        assert (await broker.answer_to(head)).producer_id_len == 1000


def test_error_of_an_address_in_use_names_the_address() -> None:
    wanted = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 0)
    (first,) = listen([wanted])
    with first.socket:
        port = first.socket.getsockname()[1]
        with pytest.raises(CannotListen, match=rf"cannot listen on PLAINTEXT://127.0.0.1:{port}"):
            listen([Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", port)])


async def test_front_process_has_no_password_in_its_environment(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFOLD_ZOOKEEPER_PASSWORD", "hidden-1")
    monkeypatch.setenv("KEYSTORE", "hidden-2")
    served = await serve()
    async with Client(served.port) as client:
        await client.ask(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    commands = {one: Path(f"/proc/{one}/cmdline").read_bytes() for one in children}
    fronts = [one for one, line in commands.items() if b"controller.api.front" in line]
    assert fronts
    for front in fronts:
        variables = Path(f"/proc/{front}/environ").read_bytes()
        assert b"PATH=" in variables
        assert b"hidden" not in variables
