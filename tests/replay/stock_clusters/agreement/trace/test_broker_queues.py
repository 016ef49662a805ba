"""Answers find the requests that they are for: each broker answers in order."""

from msgspec import structs

from controller.core.commands import BrokerRequest, CommandId
from controller.core.events import BrokerResponded
from controller.core.values import UNKNOWN_BROKER_EPOCH
from replay.stock_clusters.agreement.trace.broker_queues import BrokerQueues
from tests.replay.stock_clusters.agreement.broker_requests.samples import (
    LEADER_AND_ISR,
    STOP,
    UPDATE,
)

BROKER, EPOCH = 1, 50
APIS = ("LEADER_AND_ISR", "UPDATE_METADATA", "STOP_REPLICA")


def queues(*requests: BrokerRequest) -> BrokerQueues:
    """Requests, numbered from 1 on."""
    made = BrokerQueues()
    for number, request in enumerate(requests, 1):
        made.add(CommandId(number, 0), request, 100 * number)
    return made


def always(broker: int, sent_ms: int) -> bool:
    return broker > 0 and sent_ms > 0


def number(answer: BrokerResponded | None) -> int | None:
    return None if answer is None else answer.command.cause


def test_answer_is_that_of_the_first_request_of_its_kind() -> None:
    one = queues(UPDATE, LEADER_AND_ISR, UPDATE)
    failed = [("t", 0, 11)]
    answer = one.answer(BROKER, "LEADER_AND_ISR", 6, failed)
    assert answer == BrokerResponded(CommandId(2, 0), BROKER, EPOCH, 6, failed)


def test_what_came_before_it_is_answered_too() -> None:
    one = queues(UPDATE, LEADER_AND_ISR, UPDATE)
    one.answer(BROKER, "LEADER_AND_ISR", 0, [])
    assert [one.has(BROKER, api) for api in APIS] == [False, True, False]
    assert number(one.answer(BROKER, "UPDATE_METADATA", 0, [])) == 3
    assert one.answer(BROKER, "UPDATE_METADATA", 0, []) is None


def test_answer_to_what_another_run_of_a_broker_was_sent_is_known_by_its_epoch() -> None:
    one = queues(UPDATE)
    assert one.is_for_other_run(BROKER, EPOCH - 1)
    assert not one.is_for_other_run(BROKER, EPOCH)
    assert not one.is_for_other_run(BROKER, UNKNOWN_BROKER_EPOCH)
    assert not one.is_for_other_run(7, EPOCH - 1)


def test_answer_without_a_request_leaves_the_queue_as_it_is() -> None:
    one = queues(UPDATE)
    assert one.answer(BROKER, "STOP_REPLICA", 0, []) is None
    assert one.answer(7, "UPDATE_METADATA", 0, []) is None
    assert one.has(BROKER, "UPDATE_METADATA")


def test_closed_channel_answers_nothing_more() -> None:
    one = queues(UPDATE)
    one.close(BROKER)
    one.close(7)
    assert not one.has(BROKER, "UPDATE_METADATA")
    assert one.answer(BROKER, "UPDATE_METADATA", 0, []) is None


def test_deletion_that_was_told_of_is_not_told_a_second_time() -> None:
    one = queues(UPDATE, STOP)
    assert number(one.answer_deletion(BROKER, {"t-x"})) == 2
    assert one.has(BROKER, "UPDATE_METADATA")
    assert one.take_known(BROKER, "STOP_REPLICA")
    assert not one.take_known(BROKER, "STOP_REPLICA")
    assert one.answer_deletion(BROKER, {"t-x"}) is None
    assert not one.take_known(BROKER, "UPDATE_METADATA")


def test_deletion_that_failed_is_answered_as_the_line_tells() -> None:
    failed = [("t-x", 0, 56)]
    answer = queues(STOP).answer_deletion(BROKER, {"t-x"}, 77, failed)
    assert answer is not None
    assert (answer.error, answer.partition_errors) == (77, failed)


def test_deletion_of_another_topic_is_not_the_one_that_is_told_of() -> None:
    """That of a reassigned partition's replica the controller's log does not tell."""
    moved = structs.replace(STOP, partitions=(structs.replace(STOP.partitions[0], topic="moved"),))
    one = queues(moved, STOP)
    assert number(one.answer_deletion(BROKER, {"t-x"})) == 2


def test_brokers_whose_answers_are_in_a_log_are_waited_for() -> None:
    one = queues(UPDATE, STOP)
    assert one.answer_sent_by(always, {BROKER}) is None
    assert [number(one.answer_sent_by(always, set())) for _ in range(3)] == [1, 2, None]


def test_what_was_sent_long_ago_is_answered() -> None:
    one = queues(UPDATE, STOP)

    def is_long_ago(broker: int, sent_ms: int) -> bool:
        return broker == BROKER and sent_ms <= 100

    assert [number(one.answer_sent_by(is_long_ago, set())) for _ in range(2)] == [1, None]


def test_what_came_before_the_deletion_of_a_topic_is_answered_first() -> None:
    one = queues(UPDATE, STOP, UPDATE)
    [topic] = {each.topic for each in STOP.partitions if each.delete}
    assert one.answer_deletion_of("another", set()) is None
    assert one.answer_deletion_of(topic, {BROKER}) is None
    assert [number(one.answer_deletion_of(topic, set())) for _ in range(3)] == [1, 2, None]
