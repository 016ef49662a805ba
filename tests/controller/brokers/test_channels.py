"""Channels to a scripted broker: the requests that it receives and the reported events."""

import gc
import logging
import socket
from collections.abc import Callable
from struct import pack

import anyio
import pytest
from anyio.lowlevel import checkpoint
from msgspec import structs

from controller.brokers.channels import BrokerChannels
from controller.core.commands import (
    CloseChannel,
    CommandId,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    OpenChannel,
    ProbeBroker,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from controller.core.events import (
    ANSWERS,
    REFUSES,
    SILENT,
    BrokerProbed,
    BrokerResponded,
    ChannelFault,
    VersionsOffered,
)
from controller.core.values import Assignment, Endpoint, LeaderAndIsr
from controller.wire.encoding import BatchEncoder
from tests.controller.brokers.conftest import ReportedEvents, flexible, no_errors
from tests.scripted_broker import Received, ScriptedBroker

TOPIC_ID = bytes(range(16))
LEADERSHIP = LeaderAndIsr(1, 0, (1,), 0, 3)


def leader_and_isr(version: int = 7, topic: str = "t", partitions: int = 1) -> LeaderAndIsrRequest:
    states = tuple(
        LeaderAndIsrPartition(topic, TOPIC_ID, number, LEADERSHIP, Assignment((1,)), False)
        for number in range(partitions)
    )
    return LeaderAndIsrRequest(1, 10, version, 1000, 3, states, ())


def update_metadata() -> UpdateMetadataRequest:
    partition = UpdateMetadataPartition("t", TOPIC_ID, 0, LEADERSHIP, (1,), ())
    return UpdateMetadataRequest(1, 10, 8, 1000, 3, (partition,), ())


def answered(command: CommandId, error: int = 0, epoch: int = 10) -> BrokerResponded:
    return BrokerResponded(command, 1, epoch, error, [])


class Gate:
    """A script that holds every response back until it is opened."""

    def __init__(self) -> None:
        self.opened = anyio.Event()

    async def __call__(self, received: Received) -> bytes | None:
        await self.opened.wait()
        return no_errors(received)


class Sequence:
    """A script that calls other scripts in turn, and then answers successfully."""

    def __init__(self, *steps: Callable[[Received], bytes | None]) -> None:
        self.steps = list(steps)

    async def __call__(self, received: Received) -> bytes | None:
        return self.steps.pop(0)(received) if self.steps else no_errors(received)


def close(received: Received) -> None:
    return None


async def test_requests_are_sent_in_order_with_one_in_flight(
    channels: BrokerChannels, broker: ScriptedBroker, reported: ReportedEvents
) -> None:
    requests = [leader_and_isr(), update_metadata(), leader_and_isr(topic="u")]
    async with broker.listening():
        channels.open(OpenChannel(1, 10, broker.endpoint))
        for number, request in enumerate(requests):
            channels.send(CommandId(7, number), request)
        await reported.wait(3)
    assert reported.events == [answered(CommandId(7, number)) for number in range(3)]
    assert set(reported.channels) == {"broker:1:10"}
    assert [one.api_key for one in broker.received] == [4, 6, 4]
    assert b"u" in broker.received[2].frame
    assert b"\0\x041000\0" in broker.received[0].frame
    assert broker.unanswered_max == 1


async def test_no_request_leaves_without_a_permit(
    start: Callable[..., BrokerChannels], broker: ScriptedBroker, reported: ReportedEvents
) -> None:
    """The ZooKeeper session may have ended while the process was suspended."""
    permitted = anyio.Event()
    channels = start(permit=permitted.wait)
    async with broker.listening():
        channels.open(OpenChannel(1, 10, broker.endpoint))
        channels.send(CommandId(7, 0), leader_and_isr())
        await anyio.sleep(0.2)  # A request without a permit would arrive.
        assert broker.received == []
        permitted.set()
        await reported.wait(1)
    assert [one.api_key for one in broker.received] == [4]


async def test_requests_wait_until_the_broker_listens(
    channels: BrokerChannels, broker: ScriptedBroker, reported: ReportedEvents
) -> None:
    """Brokers register before they accept connections."""
    channels.open(OpenChannel(1, 10, broker.endpoint))
    channels.send(CommandId(7, 0), leader_and_isr())
    await anyio.sleep(0.3)  # The broker does not listen yet.
    async with broker.listening():
        await reported.wait(1)
    assert reported.events == [answered(CommandId(7, 0))]


async def test_absence_and_return_of_a_broker_are_reported_once_each(
    channels: BrokerChannels, broker: ScriptedBroker, reported: ReportedEvents
) -> None:
    channels.open(OpenChannel(1, 10, broker.endpoint))
    channels.send(CommandId(7, 0), leader_and_isr())
    (fault,) = await reported.wait(1)
    assert isinstance(fault, ChannelFault)
    assert fault.kind == "unreachable"
    assert fault.text.startswith(f"broker 1: 127.0.0.1:{broker.port} (PLAINTEXT)")
    async with broker.listening():
        await reported.wait(3)
    assert reported.events[1:] == [
        ChannelFault(1, 10, "recovered", ""),
        answered(CommandId(7, 0)),
    ]


async def test_answer_with_an_error_code_is_an_answer_and_not_retried(
    channels: BrokerChannels, broker: ScriptedBroker, reported: ReportedEvents
) -> None:
    topic = TOPIC_ID + b"\x02" + pack(">ih", 0, 11) + b"\0\0"
    broker.script = Sequence(
        lambda received: flexible(received, pack(">h", 11) + b"\x02" + topic + b"\0")
    )
    async with broker.listening():
        channels.open(OpenChannel(1, 10, broker.endpoint))
        channels.send(CommandId(7, 0), leader_and_isr())
        channels.send(CommandId(7, 1), update_metadata())
        await reported.wait(2)
    assert reported.events == [
        BrokerResponded(CommandId(7, 0), 1, 10, 11, [(TOPIC_ID.hex(), 0, 11)]),
        answered(CommandId(7, 1)),
    ]
    assert len(broker.received) == 2


async def test_closed_channel_drops_its_queue_and_ignores_the_answer_in_flight(
    channels: BrokerChannels, broker: ScriptedBroker, reported: ReportedEvents
) -> None:
    """A restarted broker gets no request for its earlier epoch (KB 12.1.4)."""
    gate = broker.script = Gate()
    async with broker.listening():
        channels.open(OpenChannel(1, 10, broker.endpoint))
        channels.send(CommandId(7, 0), leader_and_isr())
        channels.send(CommandId(7, 1), leader_and_isr(topic="dropped"))
        await broker.has_received(1)
        channels.close(CloseChannel(1, 10))
        channels.open(OpenChannel(1, 11, broker.endpoint))
        channels.send(CommandId(8, 0), update_metadata())
        gate.opened.set()
        await reported.wait(1)
    assert reported.events == [answered(CommandId(8, 0), epoch=11)]
    assert reported.channels == ["broker:1:11"]
    assert [one.api_key for one in broker.received] == [4, 6]


async def test_late_close_does_not_close_the_channel_of_a_newer_epoch(
    channels: BrokerChannels, broker: ScriptedBroker, reported: ReportedEvents
) -> None:
    async with broker.listening():
        channels.open(OpenChannel(1, 11, broker.endpoint))
        channels.close(CloseChannel(1, 10))
        channels.send(CommandId(8, 0), update_metadata())
        await reported.wait(1)
    assert reported.events == [answered(CommandId(8, 0), epoch=11)]


async def test_request_without_a_channel_is_dropped_and_logged(
    channels: BrokerChannels, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        channels.send(CommandId(7, 3), leader_and_isr())
    (record,) = caplog.records
    assert "dropped LeaderAndIsr to broker 1" in record.getMessage()
    assert record.__dict__["command"] == (7, 3)


async def test_lower_offered_version_is_sent_and_reported_once(
    channels: BrokerChannels, broker: ScriptedBroker, reported: ReportedEvents
) -> None:
    """The configured protocol version is higher than the brokers'."""
    broker.offered[4] = (0, 5)
    async with broker.listening():
        channels.open(OpenChannel(1, 10, broker.endpoint))
        channels.send(CommandId(7, 0), leader_and_isr(version=7))
        channels.send(CommandId(8, 0), leader_and_isr(version=7))
        events = await reported.wait(3)
    assert [one.version for one in broker.received] == [5, 5]
    [fault] = [one for one in events if isinstance(one, ChannelFault)]
    assert (fault.broker, fault.kind) == (1, "version")
    assert "inter.broker.protocol.version" in fault.text


@pytest.mark.parametrize("offered", [(8, 9), (0, 2), None])
async def test_version_that_the_broker_does_not_support_is_reported_with_the_broker(
    channels: BrokerChannels,
    broker: ScriptedBroker,
    reported: ReportedEvents,
    offered: tuple[int, int] | None,
) -> None:
    del broker.offered[4]
    if offered is not None:
        broker.offered[4] = offered
    async with broker.listening():
        channels.open(OpenChannel(1, 10, broker.endpoint))
        channels.send(CommandId(7, 0), leader_and_isr())
        (fault,) = await reported.wait(1)
        assert isinstance(fault, ChannelFault)
        assert (fault.broker, fault.kind) == (1, "version")
        assert "LeaderAndIsr" in fault.text
        assert offered is None or "inter.broker.protocol.version" in fault.text
        broker.offered[4] = (0, 7)
        broker.disconnect()
        await reported.wait(3)
    assert [type(one) for one in reported.events[1:]] == [ChannelFault, BrokerResponded]


async def test_broker_that_closes_the_connection_at_a_request_is_reported_once(
    channels: BrokerChannels, broker: ScriptedBroker, reported: ReportedEvents
) -> None:
    broker.script = Sequence(close, close, close)
    async with broker.listening():
        channels.open(OpenChannel(1, 10, broker.endpoint))
        channels.send(CommandId(7, 0), leader_and_isr())
        await reported.wait(3)
    fault, recovered, answer = reported.events
    assert isinstance(fault, ChannelFault)
    assert fault.kind == "closed"
    assert "inter.broker.protocol.version" in fault.text
    assert recovered == ChannelFault(1, 10, "recovered", "")
    assert answer == answered(CommandId(7, 0))
    assert len(broker.received) == 4


async def test_api_versions_are_reported_once_before_the_first_response(
    channels: BrokerChannels, broker: ScriptedBroker, reported: ReportedEvents
) -> None:
    async with broker.listening():
        channels.open(OpenChannel(1, 10, broker.endpoint))
        channels.send(CommandId(7, 0), leader_and_isr())
        await reported.wait(1)
        assert reported.order == [VersionsOffered, BrokerResponded]
        broker.disconnect()
        channels.send(CommandId(7, 1), leader_and_isr())
        await reported.wait(2)
    highest = [(api_key, last) for api_key, (_, last) in sorted(broker.offered.items())]
    assert reported.offered == [VersionsOffered(1, 10, highest)]


async def test_single_lost_connection_is_not_reported(
    channels: BrokerChannels, broker: ScriptedBroker, reported: ReportedEvents
) -> None:
    broker.script = Sequence(close)
    async with broker.listening():
        channels.open(OpenChannel(1, 10, broker.endpoint))
        channels.send(CommandId(7, 0), leader_and_isr())
        await reported.wait(1)
    assert reported.events == [answered(CommandId(7, 0))]


async def test_incomplete_answer_is_a_lost_connection(
    channels: BrokerChannels, broker: ScriptedBroker, reported: ReportedEvents
) -> None:
    async def half_a_frame(received: Received) -> bytes | None:
        writer = broker.writers[-1]
        writer.write(pack(">i", 100) + no_errors(received))
        broker.script = Sequence()
        return None

    broker.script = half_a_frame
    async with broker.listening():
        channels.open(OpenChannel(1, 10, broker.endpoint))
        channels.send(CommandId(7, 0), leader_and_isr())
        await reported.wait(1)
    assert reported.events == [answered(CommandId(7, 0))]


@pytest.mark.parametrize(
    "garbage",
    [
        lambda received: flexible(received, b"\xff" * 30),
        lambda received: b"\1",
        lambda received: pack(">i", 77) + b"\0\0\0\1\0",
    ],
    ids=["body", "short header", "another correlation id"],
)
async def test_unreadable_answer_is_reported_as_a_version_fault(
    channels: BrokerChannels,
    broker: ScriptedBroker,
    reported: ReportedEvents,
    garbage: Callable[[Received], bytes],
) -> None:
    broker.script = Sequence(garbage)
    async with broker.listening():
        channels.open(OpenChannel(1, 10, broker.endpoint))
        channels.send(CommandId(7, 0), leader_and_isr())
        fault, _, answer = await reported.wait(3)
    assert isinstance(fault, ChannelFault)
    assert fault.kind == "version"
    assert "LeaderAndIsr version 7" in fault.text
    assert answer == answered(CommandId(7, 0))


async def test_broker_that_never_answers_is_reported_and_retried(
    start: Callable[..., BrokerChannels], broker: ScriptedBroker, reported: ReportedEvents
) -> None:
    gate = broker.script = Gate()
    channels = start(socket_timeout_ms=600)
    async with broker.listening():
        channels.open(OpenChannel(1, 10, broker.endpoint))
        channels.send(CommandId(7, 0), leader_and_isr())
        (fault,) = await reported.wait(1)
        assert isinstance(fault, ChannelFault)
        assert fault.kind == "unreachable"
        assert "no response to LeaderAndIsr version 7" in fault.text
        gate.opened.set()
        await reported.wait(3)
    assert reported.events[2] == answered(CommandId(7, 0))


async def test_interrupted_split_request_continues_at_its_part_and_has_one_answer(
    start: Callable[..., BrokerChannels], broker: ScriptedBroker, reported: ReportedEvents
) -> None:
    error = TOPIC_ID + b"\x02" + pack(">ih", 0, 56) + b"\0\0"
    broker.script = Sequence(
        lambda received: flexible(received, pack(">h", 0) + b"\x02" + error + b"\0"), close
    )
    channels = start(body_bytes_max=500)
    async with broker.listening():
        channels.open(OpenChannel(1, 10, broker.endpoint))
        channels.send(CommandId(7, 0), leader_and_isr(partitions=16))
        await reported.wait(1)
    assert reported.events == [
        BrokerResponded(CommandId(7, 0), 1, 10, 0, [(TOPIC_ID.hex(), 0, 56)])
    ]
    first, *rest = [one.frame[14:] for one in broker.received]
    assert first not in rest
    assert rest[0] == rest[1]


async def test_encoded_bodies_are_freed_with_their_requests(
    channels: BrokerChannels, broker: ScriptedBroker, reported: ReportedEvents
) -> None:
    async with broker.listening():
        channels.open(OpenChannel(1, 10, broker.endpoint))
        for number in range(3):
            channels.send(CommandId(7, number), update_metadata())
        await reported.wait(3)
    gc.collect()
    assert not [one for one in gc.get_objects() if isinstance(one, BatchEncoder)]


async def test_long_queue_is_logged_once(
    start: Callable[..., BrokerChannels], broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    channels = start(queued_bytes_max=150)
    channels.open(OpenChannel(1, 10, broker.endpoint))
    shared, own = update_metadata(), leader_and_isr(partitions=10)
    for number in range(10):
        channels.send(CommandId(7, number), shared)
    assert not caplog.records
    channels.send(CommandId(7, 10), own)
    channels.send(CommandId(7, 11), own)
    (record,) = caplog.records
    assert record.__dict__["backlog_bytes"] == 440


# Probes -------------------------------------------------------------------------------------------


async def test_probe_finds_a_broker_that_answers_without_a_channel(
    channels: BrokerChannels, broker: ScriptedBroker, reported: ReportedEvents
) -> None:
    async with broker.listening():
        channels.probe(ProbeBroker(1, 10, broker.endpoint))
        await reported.wait(1)
    assert reported.events == [BrokerProbed(1, 10, ANSWERS, "")]
    assert reported.channels == ["probe:1:10"]
    assert broker.received == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_probe_finds_that_no_process_listens(
    channels: BrokerChannels, broker: ScriptedBroker, reported: ReportedEvents, host: str
) -> None:
    channels.probe(ProbeBroker(1, 10, structs.replace(broker.endpoint, host=host)))
    (probed,) = await reported.wait(1)
    assert isinstance(probed, BrokerProbed)
    assert (probed.result, str(broker.port) in probed.text) == (REFUSES, True)


async def test_probe_of_a_suspended_broker_ends_after_a_while(
    start: Callable[..., BrokerChannels], reported: ReportedEvents
) -> None:
    """Its system accepts connections, and nothing answers."""
    channels = start(socket_timeout_ms=200)
    await checkpoint()
    with socket.create_server(("127.0.0.1", 0)) as suspended:
        endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", *suspended.getsockname())
        for _ in range(3):
            channels.probe(ProbeBroker(1, 10, endpoint))
        (probed,) = await reported.wait(1)
        await anyio.sleep(0.3)  # The end of another probe would be reported.
    assert isinstance(probed, BrokerProbed)
    assert probed.result == SILENT
    assert len(reported.events) == 1, "one probe at a time"


async def test_probe_of_an_unknown_host_is_no_refusal(
    channels: BrokerChannels, reported: ReportedEvents
) -> None:
    channels.probe(ProbeBroker(1, 10, Endpoint("PLAINTEXT", "PLAINTEXT", "nosuch.invalid", 9092)))
    (probed,) = await reported.wait(1)
    assert isinstance(probed, BrokerProbed)
    assert probed.result == SILENT
