"""The fold adopts what Kafka wrote."""

import pytest

from controller.core.state import ControllerContext
from controller.core.values import Assignment, LeaderAndIsr
from replay.agreement.trace.compared_writes import adopt
from replay.stock_clusters.zookeeper_log.transactions import Delete, Error, Operation, SetData
from tests.replay.agreement.view import STATE, TOPIC, create, state_json, topic_json

BEFORE = LeaderAndIsr(1, 4, (1, 2), 5, 1)


@pytest.fixture
def context() -> ControllerContext:
    """t-0 and t-1 on [1,2]."""
    made = ControllerContext("PLAINTEXT")
    for number in (0, 1):
        partition = made.topic("t").partition(number)
        partition.assignment = Assignment((1, 2))
        partition.leadership = BEFORE
    return made


def adopted(context: ControllerContext, *written: tuple[str, Operation]) -> ControllerContext:
    adopt(context, written)
    return context


def state(context: ControllerContext, number: int = 0) -> LeaderAndIsr | None:
    partition = context.find("t", number)
    assert partition is not None
    return partition.leadership


def test_state_is_adopted_with_its_new_version(context: ControllerContext) -> None:
    adopted(context, (STATE, SetData(STATE, state_json(2, 5, 2), 6)))
    assert state(context) == LeaderAndIsr(2, 5, (2,), 6, 1)
    assert state(context, 1) == BEFORE
    adopted(context, (STATE, create(STATE, state_json(1, 0, 1, 2))))
    assert state(context) == LeaderAndIsr(1, 0, (1, 2), 0, 1)


def test_assignments_of_all_partitions_are_adopted(context: ControllerContext) -> None:
    moved = topic_json([3, 1, 2], [2, 1], adding_replicas={"0": [3]}, removing_replicas={"0": [1]})
    adopted(context, (TOPIC, SetData(TOPIC, moved, 2)))
    found = [one.assignment for one in context.partitions()]
    assert found == [Assignment((3, 1, 2), (3,), (1,)), Assignment((2, 1))]


@pytest.mark.parametrize(
    ("path", "operation"),
    [
        (STATE, Delete(STATE)),
        (STATE, Error(-103)),
        (STATE, SetData(STATE, b"{", 6)),
        (STATE, SetData(STATE, None, 6)),
        (TOPIC, SetData(TOPIC, b"{", 6)),
        ("/brokers/topics/t/partitions/9/state", SetData(STATE, state_json(2, 5, 2), 6)),
        ("/brokers/topics/u", SetData("/brokers/topics/u", topic_json([3]), 6)),
        ("/brokers/topics/t/partitions", create("/brokers/topics/t/partitions")),
        ("/controller_epoch", SetData("/controller_epoch", b"3", 6)),
    ],
)
def test_write_without_a_state_or_assignment_changes_nothing(
    context: ControllerContext, path: str, operation: Operation
) -> None:
    adopted(context, (path, operation))
    assert [(one.assignment, one.leadership) for one in context.partitions()] == [
        (Assignment((1, 2)), BEFORE)
    ] * 2


def test_writes_after_an_unreadable_one_are_adopted(context: ControllerContext) -> None:
    adopted(
        context,
        (TOPIC, SetData(TOPIC, b"{", 6)),
        (STATE, SetData(STATE, state_json(2, 5, 2), 6)),
    )
    assert state(context) == LeaderAndIsr(2, 5, (2,), 6, 1)
