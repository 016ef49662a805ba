"""Answers are matched with requests: each broker answers in order."""

from msgspec import structs

from controller.core.commands import BrokerRequest, CommandId
from controller.core.events import BrokerResponded
from controller.core.values import UNKNOWN_BROKER_EPOCH
from replay.agreement.trace.broker_queues import BrokerQueues
from tests.replay.agreement.broker_requests.samples import (
    LEADER_AND_ISR,
    STOP,
    UPDATE,
)

BROKER, EPOCH = 1, 50
APIS = ("LEADER_AND_ISR", "UPDATE_METADATA", "STOP_REPLICA")


def queues(*requests: BrokerRequest) -> BrokerQueues:
    """Queues of requests that are numbered from 1."""
    made = BrokerQueues()
    for number, request in enumerate(requests, 1):
        made.add(CommandId(number, 0), request, 100 * number)
    return made


def always(broker: int, sent_ms: int) -> bool:
    return broker > 0 and sent_ms > 0


def number(answer: BrokerResponded | None) -> int | None:
    return None if answer is None else answer.command.cause


def test_answer_belongs_to_the_first_request_of_its_kind() -> None:
    one = queues(UPDATE, LEADER_AND_ISR, UPDATE)
    failed = [("t", 0, 11)]
    answer = one.answer(BROKER, "LEADER_AND_ISR", 6, failed)
    assert answer == BrokerResponded(CommandId(2, 0), BROKER, EPOCH, 6, failed)


def test_earlier_requests_count_as_answered() -> None:
    one = queues(UPDATE, LEADER_AND_ISR, UPDATE)
    one.answer(BROKER, "LEADER_AND_ISR", 0, [])
    assert [one.has(BROKER, api) for api in APIS] == [False, True, False]
    assert number(one.answer(BROKER, "UPDATE_METADATA", 0, [])) == 3
    assert one.answer(BROKER, "UPDATE_METADATA", 0, []) is None


def test_answer_to_an_earlier_registration_is_recognised_by_its_broker_epoch() -> None:
    one = queues(UPDATE)
    assert one.is_for_other_run(BROKER, EPOCH - 1)
    assert not one.is_for_other_run(BROKER, EPOCH)
    assert not one.is_for_other_run(BROKER, UNKNOWN_BROKER_EPOCH)
    assert not one.is_for_other_run(7, EPOCH - 1)


def test_answer_without_a_request_leaves_the_queue_unchanged() -> None:
    one = queues(UPDATE)
    assert one.answer(BROKER, "STOP_REPLICA", 0, []) is None
    assert one.answer(7, "UPDATE_METADATA", 0, []) is None
    assert one.has(BROKER, "UPDATE_METADATA")


def test_closed_channel_returns_no_answers() -> None:
    one = queues(UPDATE)
    one.close(BROKER)
    one.close(7)
    assert not one.has(BROKER, "UPDATE_METADATA")
    assert one.answer(BROKER, "UPDATE_METADATA", 0, []) is None


def test_answered_deletion_is_not_answered_again() -> None:
    one = queues(UPDATE, STOP)
    assert number(one.answer_deletion(BROKER, {"t-x"})) == 2
    assert one.has(BROKER, "UPDATE_METADATA")
    assert one.take_known(BROKER, "STOP_REPLICA")
    assert not one.take_known(BROKER, "STOP_REPLICA")
    assert one.answer_deletion(BROKER, {"t-x"}) is None
    assert not one.take_known(BROKER, "UPDATE_METADATA")


def test_failed_deletion_is_answered_with_the_errors_of_the_line() -> None:
    failed = [("t-x", 0, 56)]
    answer = queues(STOP).answer_deletion(BROKER, {"t-x"}, 77, failed)
    assert answer is not None
    assert (answer.error, answer.partition_errors) == (77, failed)


def test_deletion_of_another_topic_is_not_answered() -> None:
    """The controller's log does not record the deletion of a reassigned partition's replica."""
    moved = structs.replace(STOP, partitions=(structs.replace(STOP.partitions[0], topic="moved"),))
    one = queues(moved, STOP)
    assert number(one.answer_deletion(BROKER, {"t-x"})) == 2


def test_no_answer_is_assumed_for_brokers_with_logged_answers() -> None:
    one = queues(UPDATE, STOP)
    assert one.answer_sent_by(always, {BROKER}) is None
    assert [number(one.answer_sent_by(always, set())) for _ in range(3)] == [1, 2, None]


def test_request_sent_long_ago_is_answered() -> None:
    one = queues(UPDATE, STOP)

    def is_long_ago(broker: int, sent_ms: int) -> bool:
        return broker == BROKER and sent_ms <= 100

    assert [number(one.answer_sent_by(is_long_ago, set())) for _ in range(2)] == [1, None]


def test_requests_before_the_deletion_of_a_topic_are_answered_first() -> None:
    one = queues(UPDATE, STOP, UPDATE)
    [topic] = {each.topic for each in STOP.partitions if each.delete}
    assert one.answer_deletion_of("another", set()) is None
    assert one.answer_deletion_of(topic, {BROKER}) is None
    assert [number(one.answer_deletion_of(topic, set())) for _ in range(3)] == [1, 2, None]
