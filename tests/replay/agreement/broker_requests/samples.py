"""Requests as the fold sends them, and as Kafka's logs record the same requests."""

from collections.abc import Sequence
from typing import Final

from hypothesis import strategies as st
from msgspec.structs import replace

from controller.core.commands import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from controller.core.values import Assignment, Broker, Endpoint, LeaderAndIsr
from replay.agreement.broker_requests.sent_request import (
    UPDATE_METADATA,
    SentRequest,
    sent_request_of,
)

STATE: Final = LeaderAndIsr(1, 4, (1, 2), 7, 3)
ASSIGNMENT: Final = Assignment((1, 2, 3), (3,), ())
LED: Final = LeaderAndIsrPartition("t-x", None, 0, STATE, ASSIGNMENT, False)
KNOWN: Final = UpdateMetadataPartition("t-x", None, 0, STATE, (1, 2, 3), (3,))
STOPPED: Final = StopReplicaPartition("t-x", 0, 4, True)

LEADER_AND_ISR: Final = LeaderAndIsrRequest(1, 50, 7, 9, 3, (LED,), ((1, "h", 9092),))
UPDATE: Final = UpdateMetadataRequest(
    1, 50, 8, 9, 3, (KNOWN,), (Broker(1, 50, (Endpoint("PLAINTEXT", "PLAINTEXT", "h", 9092),)),)
)
STOP: Final = StopReplicaRequest(1, 50, 4, 9, 3, (STOPPED,))


def in_log(request: SentRequest) -> SentRequest:
    """The request as state-change.log at TRACE records it."""
    request = replace(request, broker_epoch=None, version=None, live_brokers=None)
    return replace(request, partitions=None) if request.kind == UPDATE_METADATA else request


def in_request_log(request: SentRequest, connection: str = "a") -> SentRequest:
    """The request as the request log of its broker records it."""
    return replace(request, connection=connection)


def led(leader_epoch: int, broker: int = 1, broker_epoch: int = 50) -> SentRequest:
    """LeaderAndIsr of t-x-0 with a leader epoch."""
    state = LeaderAndIsr(1, leader_epoch, (1, 2), leader_epoch, 3)
    partition = LeaderAndIsrPartition("t-x", None, 0, state, ASSIGNMENT, False)
    request = LeaderAndIsrRequest(broker, broker_epoch, 7, 9, 3, (partition,), ())
    return sent_request_of(request, leader_epoch)


def known(leader_epoch: int, broker: int = 1, broker_epoch: int = 50, size: int = 1) -> SentRequest:
    """UpdateMetadata of some partitions with a leader epoch."""
    state = LeaderAndIsr(1, leader_epoch, (1, 2), leader_epoch, 3)
    partitions = tuple(
        UpdateMetadataPartition("t-x", None, number, state, (1, 2, 3), ()) for number in range(size)
    )
    request = UpdateMetadataRequest(broker, broker_epoch, 8, 9, 3, partitions, ())
    return sent_request_of(request, leader_epoch)


def stopped(leader_epoch: int, broker: int = 1, broker_epoch: int = 50) -> SentRequest:
    """StopReplica of t-x-0 with a leader epoch."""
    partition = StopReplicaPartition("t-x", 0, leader_epoch, False)
    return sent_request_of(
        StopReplicaRequest(broker, broker_epoch, 4, 9, 3, (partition,)), leader_epoch
    )


@st.composite
def queues(draw: st.DrawFn) -> list[SentRequest]:
    """The requests of one term to up to three brokers, each of which may register twice. As in a
    controller, no two requests have the same content, except UpdateMetadata without partitions."""
    sent = []
    epochs = {1: 50, 2: 60, 3: 70}
    for number in range(draw(st.integers(2, 20))):
        broker = draw(st.sampled_from((1, 2, 3)))
        if draw(st.integers(0, 9)) == 0:
            epochs[broker] = 100 + broker
        kind = draw(st.sampled_from(("led", "known", "nothing", "stopped")))
        if kind == "led":
            sent.append(led(number, broker, epochs[broker]))
        elif kind == "stopped":
            sent.append(stopped(number, broker, epochs[broker]))
        else:
            size = draw(st.integers(1, 2)) if kind == "known" else 0
            sent.append(known(number, broker, epochs[broker], size))
    return sent


def by_broker(sent: Sequence[SentRequest]) -> dict[int, list[SentRequest]]:
    """The form in which `compare_term` takes the requests of the request logs."""
    return {broker: [one for one in sent if one.broker == broker] for broker in (1, 2, 3)}
