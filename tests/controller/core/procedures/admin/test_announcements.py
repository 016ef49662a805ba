"""Answers to API requests wait until brokers have confirmed the new metadata."""

import pytest

from controller.core import error_codes as codes
from controller.core.api_requests.elections import ElectLeadersReceived, ElectLeadersResponse
from controller.core.api_requests.topics import (
    CreatePartitionsReceived,
    CreateTopicsReceived,
    CreateTopicsResponse,
    DeleteTopicsReceived,
    NewPartitions,
    NewTopic,
    TopicToDelete,
)
from controller.core.commands import (
    CancelTimer,
    DelayResponse,
    Issued,
    StartTimer,
    UpdateMetadataRequest,
)
from controller.core.events import BrokerResponded
from controller.core.snapshot import load_snapshot, take_snapshot
from tests.controller.core.cluster import Cluster, Seen
from tests.controller.core.endpoint import answers, call
from tests.controller.core.procedures.topics.topic_requests import (
    FIRST_TIMER,
    TIMEOUT_MS,
    ask_without_answer,
    error_by_name,
    errors,
    new_topic,
    timers,
)


def asked_to_create(number: int = 1, *others: NewTopic) -> CreateTopicsReceived:
    topics = [new_topic(f"t{number}", 1, 1), *others]
    return CreateTopicsReceived(number, 7, TIMEOUT_MS, False, topics)


def slow(cluster: Cluster, *brokers: int) -> None:
    """These brokers carry out requests at once and answer later."""
    cluster.is_slow = lambda request: request.broker in brokers


def without_confirmation(*brokers: int, of: int = 3) -> Cluster:
    """Topic t1 has its leader, and `brokers`, of `of` brokers, have not answered UpdateMetadata."""
    cluster = Cluster(*range(1, of + 1)).start()
    slow(cluster, *brokers)
    ask_without_answer(cluster, asked_to_create())
    assert cluster.state("t1", 0) is not None
    return cluster


CONFIRMATION_TIMER = "announcement:1"


def test_answer_waits_until_every_broker_has_confirmed() -> None:
    cluster = without_confirmation(1, 2, 3)
    seen = cluster.seen()
    slow(cluster)
    cluster.answer_slow()
    assert error_by_name(cluster) == [("t1", codes.NONE)]
    answered = [place for place, (_, said) in enumerate(seen.history) if any(map(_answers, said))]
    assert answered == [_last_answer_of_a_broker(cluster, seen)]
    assert timers(seen) == []


def _answers(issued: Issued) -> bool:
    return isinstance(issued.command, CreateTopicsResponse)


def _last_answer_of_a_broker(cluster: Cluster, seen: Seen) -> int:
    """The index at which the last broker answers the last UpdateMetadata."""
    announced = {
        one.id
        for one in cluster.commands()
        if isinstance(one.command, UpdateMetadataRequest) and one.command.partitions
    }
    places = [
        place
        for place, (one, _) in enumerate(seen.history)
        if isinstance(one.event, BrokerResponded) and one.event.command in announced
    ]
    return places[-1]


def test_broker_that_does_not_answer_delays_answers_for_one_second_once() -> None:
    """Later requests do not wait for this broker until it has answered."""
    cluster = without_confirmation(2)
    seen = cluster.seen()
    started = [one.command for one in cluster.commands() if isinstance(one.command, StartTimer)]
    assert StartTimer(CONFIRMATION_TIMER, 1_000) in started
    cluster.fire(CONFIRMATION_TIMER)
    assert error_by_name(cluster) == [("t1", codes.NONE)]
    assert timers(seen) == []
    assert errors(call(cluster, asked_to_create(2))) == [codes.NONE]
    slow(cluster)
    cluster.answer_slow()
    slow(cluster, 2)
    ask_without_answer(cluster, asked_to_create(3))


def test_answer_waits_for_a_broker_that_did_not_answer_before_its_restart() -> None:
    cluster = without_confirmation(2)
    cluster.fire(CONFIRMATION_TIMER)
    cluster.bounce(2)
    ask_without_answer(cluster, asked_to_create(2))


def test_confirmation_timer_starts_after_the_first_confirmation() -> None:
    cluster = without_confirmation(1, 2, 3)
    started = [one.command for one in cluster.commands() if isinstance(one.command, StartTimer)]
    assert [one.timer for one in started if one.timer == CONFIRMATION_TIMER] == []


def test_no_confirmation_within_the_timeout_is_a_timeout() -> None:
    cluster = Cluster(1, 2, 3).start()
    slow(cluster, 1, 2, 3)
    ask_without_answer(cluster, asked_to_create(1, new_topic("!", 1, 1)))
    cluster.fire(FIRST_TIMER)
    assert error_by_name(cluster) == [
        ("t1", codes.REQUEST_TIMED_OUT),
        ("!", codes.INVALID_TOPIC_EXCEPTION),
    ]
    cluster.answer_slow()
    assert len(answers(cluster)) == 1


def test_one_confirmation_within_the_timeout_is_a_success() -> None:
    cluster = without_confirmation(2)
    cluster.fire(FIRST_TIMER)
    assert error_by_name(cluster) == [("t1", codes.NONE)]


def test_answer_does_not_wait_for_a_broker_that_stops() -> None:
    cluster = without_confirmation(2)
    cluster.stop_broker(2)
    assert error_by_name(cluster) == [("t1", codes.NONE)]
    assert CONFIRMATION_TIMER in [
        one.command.timer for one in cluster.commands() if isinstance(one.command, CancelTimer)
    ]


def test_only_live_broker_is_waited_for_although_it_did_not_answer_before() -> None:
    cluster = without_confirmation(2, of=2)
    cluster.fire(CONFIRMATION_TIMER)
    cluster.stop_broker(1)
    given = new_topic("u", given={0: [2]})
    ask_without_answer(cluster, CreateTopicsReceived(5, 7, TIMEOUT_MS, False, [given]))
    cluster.answer_slow()
    assert len(answers(cluster)) == 2


def test_added_partitions_and_deleted_topics_also_wait_for_confirmation() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    slow(cluster, 1, 2)
    added = [NewPartitions("t", 2, None)]
    ask_without_answer(cluster, CreatePartitionsReceived(1, 3, TIMEOUT_MS, False, added))
    cluster.answer_slow()
    assert error_by_name(cluster) == [("t", codes.NONE)]
    deleted = [TopicToDelete("t", None)]
    ask_without_answer(cluster, DeleteTopicsReceived(2, 6, TIMEOUT_MS, deleted))
    cluster.answer_slow()
    assert len(answers(cluster)) == 2


def elected(timeout_ms: int) -> Cluster:
    """Broker 1 is elected again, and no broker has confirmed the new leader."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.stop_broker(1)
    cluster.start_broker(1)
    cluster.set_isr("t", 0, [2, 1])
    cluster.announce_isr(("t", 0))
    slow(cluster, 1, 2)
    asked = [("t", 0), ("x", 9)]
    cluster.happen(ElectLeadersReceived(1, 2, "preferred", asked, timeout_ms), "api:1")
    return cluster


def elections(cluster: Cluster) -> list[int]:
    [answer] = answers(cluster)
    assert isinstance(answer, ElectLeadersResponse)
    return [one.error for one in answer.partitions]


def test_election_is_answered_after_brokers_have_confirmed_the_leader() -> None:
    cluster = elected(TIMEOUT_MS)
    assert cluster.leadership("t", 0).leader == 1
    assert not answers(cluster)
    assert DelayResponse(1) in [one.command for one in cluster.commands()]
    cluster.answer_slow()
    assert elections(cluster) == [codes.NONE, codes.UNKNOWN_TOPIC_OR_PARTITION]


def test_election_without_confirmation_within_its_timeout_has_timed_out() -> None:
    cluster = elected(TIMEOUT_MS)
    cluster.fire(FIRST_TIMER)
    assert elections(cluster) == [codes.REQUEST_TIMED_OUT, codes.UNKNOWN_TOPIC_OR_PARTITION]


def test_election_with_timeout_zero_is_answered_at_once() -> None:
    assert elections(elected(0)) == [codes.NONE, codes.UNKNOWN_TOPIC_OR_PARTITION]


def test_election_that_changes_no_leader_is_answered_at_once() -> None:
    cluster = Cluster(1).start()
    slow(cluster, 1)
    cluster.create_topic("t", {0: [1]})
    seen = cluster.seen()
    cluster.happen(ElectLeadersReceived(1, 2, "preferred", [("t", 0)], TIMEOUT_MS), "api:1")
    assert elections(cluster) == [codes.ELECTION_NOT_NEEDED]
    assert timers(seen) == []


@pytest.mark.parametrize("end", ["session over", "role lost"])
def test_unconfirmed_success_is_answered_when_the_role_ends(end: str) -> None:
    cluster = without_confirmation(2)
    seen = cluster.seen()
    if end == "session over":
        cluster.expire()
    else:
        cluster.seize_role(1)
        cluster.run()
    assert error_by_name(cluster) == [("t1", codes.NONE)]
    assert timers(seen) == []


@pytest.mark.parametrize("end", ["known", "time over", "moment over"])
def test_requests_that_wait_for_confirmation_are_in_the_snapshot(end: str) -> None:
    cluster = without_confirmation(2)
    data = take_snapshot(cluster.fold)
    cluster.fold = load_snapshot(data, cluster.fold.controller.configuration)
    assert take_snapshot(cluster.fold) == data
    if end == "known":
        cluster.answer_slow()
    else:
        cluster.fire(FIRST_TIMER if end == "time over" else CONFIRMATION_TIMER)
    assert error_by_name(cluster) == [("t1", codes.NONE)]
    again = take_snapshot(cluster.fold)
    assert take_snapshot(load_snapshot(again, cluster.fold.controller.configuration)) == again
