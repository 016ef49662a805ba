"""Answers of real brokers to the requests, in every version that inter.broker.protocol.version
2.6 and 3.9 use. A stale controller epoch changes nothing in the broker. Its response for each
partition shows that it has decoded the whole request."""

from pathlib import Path

import anyio
import pytest

from controller.brokers.channels import BrokerChannels
from controller.core.commands import (
    BrokerRequest,
    CommandId,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    OpenChannel,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from controller.core.events import BrokerResponded
from controller.core.releases import release_of
from controller.core.values import Assignment, Broker, Endpoint, LeaderAndIsr
from tests.controller.brokers.conftest import ReportedEvents
from tools.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]

STALE_EPOCH = -1
"""Lower than the epoch that a broker knows before any controller has sent a request."""

STALE_CONTROLLER_EPOCH = 11
STALE_BROKER_EPOCH = 77
TOPIC_ID = bytes(range(16))
ANY_BROKER_EPOCH = -1
"""Brokers do not check it."""

LEADERSHIP = LeaderAndIsr(1, 4, (1,), 5, 0)
PARTITIONS = [("tópic", 0), ("tópic", 1), ("u", 7)]


def leader_and_isr(version: int) -> LeaderAndIsrRequest:
    states = tuple(
        LeaderAndIsrPartition(
            topic, TOPIC_ID, number, LEADERSHIP, Assignment((1, 2), (2,), ()), False
        )
        for topic, number in PARTITIONS
    )
    leaders = ((1, "localhost", 9092),)
    return LeaderAndIsrRequest(1, ANY_BROKER_EPOCH, version, 1000, STALE_EPOCH, states, leaders)


def update_metadata(version: int, broker_epoch: int = ANY_BROKER_EPOCH) -> UpdateMetadataRequest:
    states = tuple(
        UpdateMetadataPartition(topic, TOPIC_ID, number, LEADERSHIP, (1, 2), (2,))
        for topic, number in PARTITIONS
    )
    endpoints = (Endpoint("PLAINTEXT", "PLAINTEXT", "localhost", 9092),)
    brokers = (Broker(1, 5, endpoints, "rack"), Broker(2, 6, endpoints))
    return UpdateMetadataRequest(1, broker_epoch, version, 1000, STALE_EPOCH, states, brokers)


def stop_replica(version: int) -> StopReplicaRequest:
    states = tuple(StopReplicaPartition(topic, number, 4, False) for topic, number in PARTITIONS)
    return StopReplicaRequest(1, ANY_BROKER_EPOCH, version, 1000, STALE_EPOCH, states)


def errors_by_name() -> list[tuple[str, int, int]]:
    return [(topic, number, STALE_CONTROLLER_EPOCH) for topic, number in PARTITIONS]


def errors_by_topic_id() -> list[tuple[str, int, int]]:
    return [(TOPIC_ID.hex(), number, STALE_CONTROLLER_EPOCH) for _, number in PARTITIONS]


@pytest.mark.ci
@pytest.mark.parametrize("protocol", ["2.6", "3.9"])
async def test_stale_controller_epoch_is_rejected_in_every_version(
    lab: Lab, channels: BrokerChannels, reported: ReportedEvents, protocol: str
) -> None:
    await lab.start_zookeeper()
    (broker,) = await lab.start_brokers(1, inter_broker_protocol=protocol)
    endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", broker.port)
    channels.open(OpenChannel(1, 10, endpoint))
    requests: list[BrokerRequest] = [leader_and_isr(version) for version in (3, 4, 5, 6, 7)]
    requests += [update_metadata(version) for version in (5, 6, 7, 8)]
    requests += [stop_replica(version) for version in (1, 2, 3, 4)]
    for ordinal, request in enumerate(requests):
        channels.send(CommandId(1, ordinal), request)
    with anyio.fail_after(60):
        events = await reported.wait(len(requests))
    assert all(isinstance(event, BrokerResponded) for event in events), events
    answers = [(event.error, sorted(event.partition_errors)) for event in events]
    by_name, by_topic_id = sorted(errors_by_name()), sorted(errors_by_topic_id())
    assert answers[:2] == [(STALE_CONTROLLER_EPOCH, by_name)] * 2
    assert answers[2:5] == [(STALE_CONTROLLER_EPOCH, by_topic_id)] * 3
    assert answers[5:9] == [(STALE_CONTROLLER_EPOCH, [])] * 4
    assert [error for error, _ in answers[9:]] == [STALE_CONTROLLER_EPOCH] * 4


@pytest.mark.parametrize(
    ("kafka", "protocol"), [("2.8.2", "2.4"), ("3.3.2", "2.8"), ("3.9.1", "2.6"), ("3.9.1", "3.9")]
)
async def test_api_versions_identify_the_release(
    tmp_path: Path, channels: BrokerChannels, reported: ReportedEvents, kafka: str, protocol: str
) -> None:
    """The protocol version of the broker does not matter."""
    async with Lab(tmp_path / "lab", kafka=kafka) as lab:
        await lab.start_zookeeper()
        (broker,) = await lab.start_brokers(1, inter_broker_protocol=protocol)
        channels.open(OpenChannel(1, 10, Endpoint("P", "PLAINTEXT", "127.0.0.1", broker.port)))
        channels.send(CommandId(1, 0), update_metadata(5))
        with anyio.fail_after(60):
            await reported.wait(1)
    [offered] = reported.offered
    assert release_of(offered.highest) == tuple(map(int, kafka.split(".")[:2]))


async def test_stale_broker_epoch_is_rejected(
    lab: Lab, channels: BrokerChannels, reported: ReportedEvents
) -> None:
    await lab.start_zookeeper()
    (broker,) = await lab.start_brokers(1)
    endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", broker.port)
    channels.open(OpenChannel(1, 1, endpoint))
    channels.send(CommandId(1, 0), update_metadata(8, broker_epoch=0))
    with anyio.fail_after(60):
        (event,) = await reported.wait(1)
    assert event == BrokerResponded(CommandId(1, 0), 1, 1, STALE_BROKER_EPOCH, [])
