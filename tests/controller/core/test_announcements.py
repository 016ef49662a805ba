"""Answers that wait until brokers know what they tell of."""

import msgspec
import pytest

from controller.core import error_codes as codes
from controller.core.api_requests.elections import AnswerElectLeaders, ElectLeadersReceived
from controller.core.api_requests.topics import (
    AnswerCreateTopics,
    CreateTopicsReceived,
    DoomedTopic,
    NewPartitions,
)
from controller.core.commands import (
    AnswerLater,
    CancelTimer,
    Issued,
    StartTimer,
    UpdateMetadataRequest,
)
from controller.core.events import BrokerAnswered
from controller.core.snapshot import load_snapshot, take_snapshot
from tests.controller.core.admin.test_waiting_requests import TIMER, coded, doomed, grown
from tests.controller.core.cluster import Cluster, Seen
from tests.controller.core.endpoint import answers, call
from tests.controller.core.topics.topic_requests import (
    TIMEOUT_MS,
    ask_without_answer,
    errors,
    new_topic,
    timers,
)


def asked_to_create(number: int = 1) -> CreateTopicsReceived:
    return CreateTopicsReceived(number, 7, TIMEOUT_MS, False, [new_topic(f"t{number}", 1, 1)])


def slow(cluster: Cluster, *brokers: int) -> None:
    """These brokers do what they are asked, and answer later."""
    cluster.is_slow = lambda request: request.broker in brokers


def waiting_for_word(*brokers: int, of: int = 3) -> Cluster:
    """A topic has its leader, and these of so many brokers have not said that they know."""
    cluster = Cluster(*range(1, of + 1)).start()
    slow(cluster, *brokers)
    ask_without_answer(cluster, asked_to_create())
    assert cluster.state("t1", 0) is not None
    return cluster


HEARING = "announcement:1"


def test_the_answer_waits_until_every_broker_knows() -> None:
    cluster = waiting_for_word(1, 2, 3)
    seen = cluster.seen()
    slow(cluster)
    cluster.answer_slow()
    assert coded(cluster) == [("t1", codes.NONE)]
    answered = [place for place, (_, said) in enumerate(seen.history) if any(map(_answers, said))]
    assert answered == [_last_answer_of_a_broker(cluster, seen)]
    assert timers(seen) == []


def _answers(issued: Issued) -> bool:
    return isinstance(issued.command, AnswerCreateTopics)


def _last_answer_of_a_broker(cluster: Cluster, seen: Seen) -> int:
    """Where the last broker has answered the last UpdateMetadata."""
    told = {
        one.id
        for one in cluster.commands()
        if isinstance(one.command, UpdateMetadataRequest) and one.command.partitions
    }
    places = [
        place
        for place, (one, _) in enumerate(seen.history)
        if isinstance(one.event, BrokerAnswered) and one.event.command in told
    ]
    return places[-1]


def test_one_broker_that_hangs_is_waited_for_a_moment() -> None:
    """And no more, until it has answered something."""
    cluster = waiting_for_word(2)
    seen = cluster.seen()
    started = [one.command for one in cluster.commands() if isinstance(one.command, StartTimer)]
    assert StartTimer(HEARING, 1_000) in started
    cluster.fire(HEARING)
    assert coded(cluster) == [("t1", codes.NONE)]
    assert timers(seen) == []
    assert errors(call(cluster, asked_to_create(2))) == [codes.NONE]
    slow(cluster)
    cluster.answer_slow()
    slow(cluster, 2)
    ask_without_answer(cluster, asked_to_create(3))


def test_no_time_is_counted_before_a_broker_knows() -> None:
    cluster = waiting_for_word(1, 2, 3)
    started = [one.command for one in cluster.commands() if isinstance(one.command, StartTimer)]
    assert [one.timer for one in started if one.timer == HEARING] == []


def test_what_no_broker_knows_in_its_time_has_timed_out() -> None:
    cluster = waiting_for_word(1, 2, 3)
    cluster.fire(TIMER)
    assert coded(cluster) == [("t1", codes.REQUEST_TIMED_OUT)]
    cluster.answer_slow()
    assert len(answers(cluster)) == 1


def test_what_a_broker_knows_in_its_time_is_done() -> None:
    cluster = waiting_for_word(2)
    cluster.fire(TIMER)
    assert coded(cluster) == [("t1", codes.NONE)]


def test_a_broker_that_ends_is_not_waited_for() -> None:
    cluster = waiting_for_word(2)
    cluster.stop_broker(2)
    assert coded(cluster) == [("t1", codes.NONE)]
    assert HEARING in [
        one.command.timer for one in cluster.commands() if isinstance(one.command, CancelTimer)
    ]


def test_with_nobody_else_the_broker_that_hung_is_waited_for_again() -> None:
    cluster = waiting_for_word(2, of=2)
    cluster.fire(HEARING)
    cluster.stop_broker(1)
    given = new_topic("u", given={0: [2]})
    ask_without_answer(cluster, CreateTopicsReceived(5, 7, TIMEOUT_MS, False, [given]))
    cluster.answer_slow()
    assert len(answers(cluster)) == 2


def test_added_partitions_and_deleted_topics_are_waited_for_in_the_same_way() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    slow(cluster, 1, 2)
    ask_without_answer(
        cluster, msgspec.structs.replace(grown(), topics=[NewPartitions("t", 2, None)])
    )
    cluster.answer_slow()
    assert coded(cluster) == [("t", codes.NONE)]
    ask_without_answer(cluster, msgspec.structs.replace(doomed(2), topics=[DoomedTopic("t", None)]))
    cluster.answer_slow()
    assert len(answers(cluster)) == 2


def elected(timeout_ms: int) -> Cluster:
    """Broker 1 is to lead again, and no broker says that it knows."""
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
    assert isinstance(answer, AnswerElectLeaders)
    return [one.error for one in answer.partitions]


def test_an_election_is_answered_when_brokers_know_the_new_leader() -> None:
    cluster = elected(TIMEOUT_MS)
    assert cluster.leadership("t", 0).leader == 1
    assert not answers(cluster)
    assert AnswerLater(1) in [one.command for one in cluster.commands()]
    cluster.answer_slow()
    assert elections(cluster) == [codes.NONE, codes.UNKNOWN_TOPIC_OR_PARTITION]


def test_an_election_that_no_broker_knows_of_in_its_time_has_timed_out() -> None:
    cluster = elected(TIMEOUT_MS)
    cluster.fire(TIMER)
    assert elections(cluster) == [codes.REQUEST_TIMED_OUT, codes.UNKNOWN_TOPIC_OR_PARTITION]


def test_an_election_without_time_is_answered_at_once() -> None:
    assert elections(elected(0)) == [codes.NONE, codes.UNKNOWN_TOPIC_OR_PARTITION]


def test_an_election_of_nobody_is_answered_at_once() -> None:
    cluster = Cluster(1).start()
    slow(cluster, 1)
    cluster.create_topic("t", {0: [1]})
    seen = cluster.seen()
    cluster.happen(ElectLeadersReceived(1, 2, "preferred", [("t", 0)], TIMEOUT_MS), "api:1")
    assert elections(cluster) == [codes.ELECTION_NOT_NEEDED]
    assert timers(seen) == []


@pytest.mark.parametrize("end", ["session over", "role lost"])
def test_what_is_done_when_the_role_ends_is_told_to_be(end: str) -> None:
    cluster = waiting_for_word(2)
    seen = cluster.seen()
    if end == "session over":
        cluster.expire()
    else:
        cluster.seize_role(1)
        cluster.run()
    assert coded(cluster) == [("t1", codes.NONE)]
    assert timers(seen) == []


@pytest.mark.parametrize("end", ["known", "time over", "moment over"])
def test_who_waits_for_word_is_in_the_snapshot(end: str) -> None:
    cluster = waiting_for_word(2)
    data = take_snapshot(cluster.fold)
    cluster.fold = load_snapshot(data, cluster.fold.controller.configuration)
    assert take_snapshot(cluster.fold) == data
    if end == "known":
        cluster.answer_slow()
    else:
        cluster.fire(TIMER if end == "time over" else HEARING)
    assert coded(cluster) == [("t1", codes.NONE)]
    again = take_snapshot(cluster.fold)
    assert take_snapshot(load_snapshot(again, cluster.fold.controller.configuration)) == again
