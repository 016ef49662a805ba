"""The compared parts of two requests, and the description of a difference."""

import pytest
from msgspec import Struct
from msgspec.structs import replace

from controller.core.commands import BrokerRequest
from controller.core.values import RECOVERING
from replay.agreement.broker_requests.sent_request import (
    agrees,
    differences,
    sent_request_of,
)
from tests.replay.agreement.broker_requests.samples import (
    ASSIGNMENT,
    KNOWN,
    LEADER_AND_ISR,
    LED,
    STATE,
    STOP,
    STOPPED,
    UPDATE,
)

MOVED = replace(STATE, leader=2)


@pytest.mark.parametrize("request_", [LEADER_AND_ISR, UPDATE, STOP])
def test_request_agrees_with_itself(request_: BrokerRequest) -> None:
    assert agrees(sent_request_of(request_, 1), sent_request_of(request_, 2))


@pytest.mark.parametrize(
    ("request_", "partition", "text"),
    [
        (LEADER_AND_ISR, replace(LED, leadership=MOVED), "t-x-0: leader 2, Kafka's 1"),
        (UPDATE, replace(KNOWN, leadership=MOVED), "t-x-0: leader 2, Kafka's 1"),
        (
            LEADER_AND_ISR,
            replace(LED, leadership=replace(STATE, isr=(2, 1))),
            "t-x-0: ISR [2, 1], Kafka's [1, 2]",
        ),
        (
            UPDATE,
            replace(KNOWN, leadership=replace(STATE, partition_epoch=8)),
            "t-x-0: partition epoch 8, Kafka's 7",
        ),
        (
            LEADER_AND_ISR,
            replace(LED, leadership=replace(STATE, controller_epoch=2)),
            "t-x-0: controller epoch 2, Kafka's 3",
        ),
        (
            LEADER_AND_ISR,
            replace(LED, leadership=replace(STATE, recovery_state=RECOVERING)),
            "t-x-0: recovery state 1, Kafka's 0",
        ),
        (
            LEADER_AND_ISR,
            replace(LED, assignment=replace(ASSIGNMENT, adding=())),
            "t-x-0: adding replicas [], Kafka's [3]",
        ),
        (
            LEADER_AND_ISR,
            replace(LED, assignment=replace(ASSIGNMENT, removing=(2,))),
            "t-x-0: removing replicas [2], Kafka's []",
        ),
        (LEADER_AND_ISR, replace(LED, is_new=True), "t-x-0: isNew true, Kafka's false"),
        (UPDATE, replace(KNOWN, replicas=(1, 2)), "t-x-0: replicas [1, 2], Kafka's [1, 2, 3]"),
        (
            UPDATE,
            replace(KNOWN, offline_replicas=()),
            "t-x-0: offline replicas [], Kafka's [3]",
        ),
        (STOP, replace(STOPPED, leader_epoch=5), "t-x-0: leader epoch 5, Kafka's 4"),
        (STOP, replace(STOPPED, delete=False), "t-x-0: delete false, Kafka's true"),
    ],
)
def test_field_of_a_partition_that_differs_is_reported(
    request_: BrokerRequest, partition: Struct, text: str
) -> None:
    changed = replace(request_, partitions=(partition,))
    assert [*differences(sent_request_of(changed, 1), sent_request_of(request_, 2))] == [text]


@pytest.mark.parametrize(
    ("refold", "texts"),
    [
        (replace(LEADER_AND_ISR, broker_epoch=51), ["broker epoch 51, Kafka's 50"]),
        (replace(LEADER_AND_ISR, version=6), ["version 6, Kafka's 7"]),
        (replace(LEADER_AND_ISR, controller_epoch=4), ["controller epoch 4, Kafka's 3"]),
        (replace(LEADER_AND_ISR, live_leaders=()), ["live brokers [], Kafka's [1]"]),
        (replace(LEADER_AND_ISR, partitions=()), ["t-x-0: only in Kafka's"]),
        (UPDATE, ["UpdateMetadata, Kafka's LeaderAndIsr"]),
    ],
)
def test_field_of_a_request_that_differs_is_reported(
    refold: BrokerRequest, texts: list[str]
) -> None:
    assert [*differences(sent_request_of(refold, 1), sent_request_of(LEADER_AND_ISR, 2))] == texts


def test_order_of_partitions_is_ignored() -> None:
    other = replace(LED, partition=1)
    assert agrees(
        sent_request_of(replace(LEADER_AND_ISR, partitions=(LED, other)), 1),
        sent_request_of(replace(LEADER_AND_ISR, partitions=(other, LED)), 2),
    )


def test_field_that_a_source_lacks_is_not_compared() -> None:
    refold = sent_request_of(UPDATE, 1)
    counts = replace(refold, partitions=None, broker_epoch=None, version=None, live_brokers=None)
    assert agrees(refold, counts)
    assert [*differences(refold, replace(counts, size=3))] == ["number of partitions 1, Kafka's 3"]
    leading = replace(sent_request_of(LEADER_AND_ISR, 1), partitions=None, leading=0)
    assert [*differences(sent_request_of(LEADER_AND_ISR, 1), leading)] == [
        "number of partitions to lead 1, Kafka's 0"
    ]


def test_recovery_state_is_ignored_below_version_6() -> None:
    recovering = replace(LED, leadership=replace(STATE, recovery_state=RECOVERING))
    old = replace(LEADER_AND_ISR, version=5)
    assert agrees(
        sent_request_of(replace(old, partitions=(recovering,)), 1), sent_request_of(old, 1)
    )
