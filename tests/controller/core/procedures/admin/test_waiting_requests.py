"""Requests whose response waits for leaders, or for the deletion of topics (Kafka's topic
purgatory)."""

from collections.abc import Callable, Sequence

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.api_requests import ApiRequest
from controller.core.api_requests.elections import ElectLeadersReceived, ElectLeadersResponse
from controller.core.api_requests.topics import (
    CreatePartitionsReceived,
    CreatePartitionsResponse,
    CreateTopicsReceived,
    CreateTopicsResponse,
    DeleteTopicsReceived,
    DeleteTopicsResponse,
    NewPartitions,
    TopicToDelete,
)
from controller.core.commands import DelayResponse
from controller.core.events import TimerFired
from controller.core.procedures.admin import waiting_requests
from controller.core.snapshot import load_snapshot, take_snapshot
from tests.controller.core.cluster import Cluster, writes, writes_state
from tests.controller.core.endpoint import answers, call
from tests.controller.core.procedures.reassignment.interrupting import OtherControllersTerm
from tests.controller.core.procedures.topics.deleting import mark_quietly
from tests.controller.core.procedures.topics.topic_requests import (
    FIRST_TIMER,
    TIMEOUT_MS,
    ask_without_answer,
    create,
    delete,
    error_by_name,
    errors,
    grow,
    new_topic,
    timers,
)
from tests.controller.core.unreliable import Delivery

DEAD = 9
"""A broker that is not registered: partitions on it alone have no leader."""


def creation(number: int = 1, **fields: int) -> CreateTopicsReceived:
    """Topic a gets its leader at once, b when broker 9 registers, and c is rejected."""
    topics = [new_topic("a", given={0: [1]}), new_topic("b", given={0: [DEAD], 1: [1]})]
    timeout_ms = fields.get("timeout_ms", TIMEOUT_MS)
    return CreateTopicsReceived(number, 7, timeout_ms, False, [*topics, new_topic("!", 1, 1)])


def growth(number: int = 1) -> CreatePartitionsReceived:
    """Topic t gets a partition that has no leader until broker 9 registers; u does not exist."""
    asked = [NewPartitions("t", 3, None), NewPartitions("u", 3, None)]
    return CreatePartitionsReceived(number, 3, TIMEOUT_MS, False, asked)


def deletion(number: int = 1, names: Sequence[str] = ("t", "u", "v")) -> DeleteTopicsReceived:
    """Topic t cannot be deleted until broker 9 registers; u can, and v does not exist."""
    topics = [TopicToDelete(name, None) for name in names]
    return DeleteTopicsReceived(number, 6, TIMEOUT_MS, topics)


def waiting_creation() -> Cluster:
    cluster = Cluster(1, 2).start()
    ask_without_answer(cluster, creation())
    return cluster


def waiting_growth() -> Cluster:
    cluster = Cluster(1, DEAD).start()
    cluster.create_topic("t", {0: [1], 1: [DEAD]})
    cluster.stop_broker(DEAD)
    ask_without_answer(cluster, growth())
    return cluster


def waiting_deletion(asked: DeleteTopicsReceived | None = None) -> Cluster:
    cluster = Cluster(1, DEAD).start()
    cluster.create_topic("t", {0: [1, DEAD]})
    cluster.create_topic("u", {0: [1]})
    cluster.stop_broker(DEAD)
    # A failover finds the marker, and does not begin the deletion while the broker is dead.
    with OtherControllersTerm(cluster):
        mark_quietly(cluster, "t")
    ask_without_answer(cluster, asked or deletion())
    return cluster


WAITING: list[Callable[[], Cluster]] = [waiting_creation, waiting_growth, waiting_deletion]
waiting = pytest.mark.parametrize("begin", WAITING, ids=lambda one: one.__name__)


DONE = {
    waiting_creation: [("a", 0), ("b", 0), ("!", codes.INVALID_TOPIC_EXCEPTION)],
    waiting_growth: [("t", 0), ("u", codes.UNKNOWN_TOPIC_OR_PARTITION)],
    waiting_deletion: [("t", 0), ("u", 0), ("v", codes.UNKNOWN_TOPIC_OR_PARTITION)],
}
LATE = {waiting_creation: "b", waiting_growth: "t", waiting_deletion: "t"}


def with_late(begin: Callable[[], Cluster], error: int) -> list[tuple[str, int]]:
    """The response in which incomplete items have this error."""
    return [(name, error if name == LATE[begin] else code) for name, code in DONE[begin]]


# Completion -------------------------------------------------------------------------------------


@waiting
def test_answer_follows_when_all_items_are_complete(begin: Callable[[], Cluster]) -> None:
    cluster = begin()
    seen = cluster.seen()
    cluster.start_broker(DEAD)
    assert error_by_name(cluster) == DONE[begin]
    assert timers(seen) == []
    cluster.fire(FIRST_TIMER)
    assert len(answers(cluster)) == 1


@waiting
def test_waiting_request_does_not_delay_others(begin: Callable[[], Cluster]) -> None:
    cluster = begin()
    answer = call(cluster, ElectLeadersReceived(2, 2, "preferred", []))
    assert isinstance(answer, ElectLeadersResponse)
    assert len(answers(cluster)) == 1


def test_creation_waits_for_a_leader_that_dies_meanwhile() -> None:
    """The creation waits for every partition of the topic, including older ones."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [2]})
    cluster.stop_broker(2)
    asked = CreatePartitionsReceived(1, 3, TIMEOUT_MS, False, [NewPartitions("t", 2, None)])
    ask_without_answer(cluster, asked)
    assert cluster.state("t", 1) is not None
    cluster.start_broker(2)
    assert error_by_name(cluster) == [("t", codes.NONE)]


def test_partition_that_has_had_a_leader_is_complete_although_the_leader_dies() -> None:
    cluster = Cluster(1, 2).start()
    topics = [new_topic("z", given={0: [DEAD]}), new_topic("t", given={0: [2]})]
    ask_without_answer(cluster, CreateTopicsReceived(1, 7, TIMEOUT_MS, False, topics))
    cluster.stop_broker(2)
    cluster.start_broker(DEAD)
    assert error_by_name(cluster) == [("z", codes.NONE), ("t", codes.NONE)]


def test_complete_partitions_are_not_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each event causes one check, whatever the number of partitions. Only time differs otherwise,
    so the checks are counted."""
    cluster = Cluster(1).start()
    looks = 0
    context_type = type(cluster.fold.controller.context)
    is_led = context_type.is_led

    def counted(self: object, topic: str, number: int) -> bool:
        nonlocal looks
        looks += 1
        return is_led(self, topic, number)  # type: ignore[arg-type]

    monkeypatch.setattr(context_type, "is_led", counted)
    topics = [new_topic("z", given={0: [DEAD]})]
    topics += [new_topic(f"t{number}", 1, 1) for number in range(100)]
    ask_without_answer(cluster, CreateTopicsReceived(1, 7, TIMEOUT_MS, False, topics))
    looked = looks
    for _ in range(10):
        cluster.put(znodes.FEATURE, b"{}")
        cluster.start_broker(2)
        cluster.stop_broker(2)
    events = len(cluster.history)
    assert looks - looked < 100
    assert looks <= 100 + events


# Time-outs --------------------------------------------------------------------------------------


@waiting
def test_incomplete_items_are_timed_out_at_the_timeout(begin: Callable[[], Cluster]) -> None:
    cluster = begin()
    cluster.fire(FIRST_TIMER)
    assert error_by_name(cluster) == with_late(begin, codes.REQUEST_TIMED_OUT)
    cluster.start_broker(DEAD)
    assert len(answers(cluster)) == 1


def test_topics_deleted_before_the_timeout_are_not_timed_out() -> None:
    cluster = waiting_deletion(deletion(names=("u", "t")))
    cluster.fire(FIRST_TIMER)
    assert error_by_name(cluster) == [("u", codes.NONE), ("t", codes.REQUEST_TIMED_OUT)]


def test_timed_out_topic_is_answered_with_its_id_alone() -> None:
    """Kafka leaves the other fields of the response empty."""
    cluster = waiting_creation()
    cluster.fire(FIRST_TIMER)
    [answer] = answers(cluster)
    assert isinstance(answer, CreateTopicsResponse)
    late = answer.topics[1]
    assert late.topic_id == cluster.topic("b").topic_id
    assert (late.message, late.partitions, late.replication_factor) == (None, -1, -1)


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_request_with_timeout_zero_is_answered_at_once(timeout_ms: int) -> None:
    """As in Kafka: started items have timed out, even if they complete a moment later."""
    cluster = Cluster(1, 2).start()
    seen = cluster.seen()
    late = [codes.REQUEST_TIMED_OUT]
    topic = new_topic("t", 1, 1)
    assert errors(create(cluster, topic, timeout_ms=timeout_ms)) == late
    assert errors(grow(cluster, "t", 2, timeout_ms=timeout_ms)) == late
    assert len(cluster.topic("t").assignments) == 2
    assert errors(delete(cluster, "t", timeout_ms=timeout_ms)) == late
    assert cluster.data(znodes.topic_path("t")) is None
    dry = create(cluster, topic, timeout_ms=timeout_ms, validate_only=True)
    assert errors(dry) == [codes.NONE]
    assert errors(create(cluster, new_topic("!", 1), timeout_ms=timeout_ms)) == [17]
    assert timers(seen) == []


def test_request_with_the_shortest_timeout_waits() -> None:
    cluster = Cluster(1, 2).start()
    ask_without_answer(cluster, creation(timeout_ms=1))
    cluster.fire(FIRST_TIMER)
    assert error_by_name(cluster) == with_late(waiting_creation, codes.REQUEST_TIMED_OUT)


def test_timeout_during_another_procedure_is_answered_at_once() -> None:
    """The response does not wait for the end of the other procedure."""
    cluster = waiting_creation()
    cluster.create_topic("u", {0: [2, 1]})
    write = writes_state("u", 0)
    cluster.once(write, lambda: cluster.happen_next(TimerFired(FIRST_TIMER), "timer"))
    cluster.stop_broker(2)
    [fired] = [place for place, (one, _) in enumerate(cluster.history) if _is_timer(one.event)]
    issued = cluster.history[fired][1]
    kinds = [type(one.command).__name__ for one in issued]
    assert kinds[0] == "CreateTopicsResponse"
    written = [place for place, (_, said) in enumerate(cluster.history) if any(map(write, said))]
    assert max(written) < fired < len(cluster.history) - 1
    assert error_by_name(cluster) == with_late(waiting_creation, codes.REQUEST_TIMED_OUT)


def _is_timer(event: object) -> bool:
    return isinstance(event, TimerFired)


@pytest.mark.parametrize(
    ("late", "timer", "other"), [(1, FIRST_TIMER, "request:2"), (2, "request:2", FIRST_TIMER)]
)
def test_request_that_times_out_in_the_queue_is_not_carried_out(
    late: int, timer: str, other: str
) -> None:
    """The request was queued after a long procedure. The other request in the queue is carried
    out."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("u", {0: [2, 1]})

    def ask_and_time_out() -> None:
        cluster.happen_next(creation(), "api:1")
        cluster.happen_next(creation(2), "api:1")
        cluster.happen_next(TimerFired(timer), "timer")

    cluster.once(writes_state("u", 0), ask_and_time_out)
    seen = cluster.seen()
    cluster.stop_broker(2)
    [answer] = answers(cluster)
    assert isinstance(answer, CreateTopicsResponse)
    assert (answer.request, errors(answer)) == (late, [codes.REQUEST_TIMED_OUT] * 3)
    assert seen.written().count(znodes.topic_path("a")) == 1
    assert timers(seen) == [other]


def test_timeout_during_the_requests_own_procedure_is_applied_at_the_end_of_its_part() -> None:
    cluster = Cluster(1, 2).start()
    path = znodes.topic_path("b")
    cluster.once(writes(path), lambda: cluster.happen_next(TimerFired(FIRST_TIMER), "timer"))
    cluster.happen(creation(), "api:1")
    late = codes.REQUEST_TIMED_OUT
    assert error_by_name(cluster) == [
        ("a", late),
        ("b", late),
        ("!", codes.INVALID_TOPIC_EXCEPTION),
    ]
    assert cluster.data(path) is not None


def test_immediate_answer_cancels_the_timer() -> None:
    cluster = Cluster(1, 2).start()
    seen = cluster.seen()
    create(cluster, new_topic("t", 1, 1), validate_only=True)
    create(cluster, new_topic("t", 1, 9))
    cluster.once(writes(znodes.topic_path("t")), lambda: cluster.seize_role(2))
    create(cluster, new_topic("t", 1, 1))
    delete(cluster, "t")
    assert timers(seen) == []


# Limits -----------------------------------------------------------------------------------------


def test_oldest_waiting_request_is_timed_out_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests can always wait, however many others wait."""
    monkeypatch.setattr(waiting_requests, "WAITING_MAX", 2)
    cluster = Cluster(1).start()
    for number in (1, 2, 3):
        lost = [new_topic(f"t{number}", given={0: [DEAD]})]
        cluster.happen(CreateTopicsReceived(number, 7, TIMEOUT_MS, False, lost), "api:1")
    assert error_by_name(cluster) == [("t1", codes.REQUEST_TIMED_OUT)]
    cluster.start_broker(DEAD)
    assert [one.request for one in answers(cluster)] == [1, 2, 3]


@waiting
def test_endpoint_is_notified_that_a_request_waits(begin: Callable[[], Cluster]) -> None:
    said = [one.command for one in begin().commands()]
    assert [one for one in said if isinstance(one, DelayResponse)] == [DelayResponse(1)]


# The end of the term ----------------------------------------------------------------------------


@waiting
@pytest.mark.parametrize("end", ["asked to end", "session over", "role lost"])
def test_waiting_requests_are_answered_when_the_role_ends(
    begin: Callable[[], Cluster], end: str
) -> None:
    cluster = begin()
    seen = cluster.seen()
    if end == "asked to end":
        cluster.shut_down_quietly()
        cluster.run()
        cluster.fire("hand back: topics under way")
    elif end == "session over":
        cluster.expire()
    else:
        cluster.seize_role(1)
        cluster.run()
    assert error_by_name(cluster) == with_late(begin, codes.REQUEST_TIMED_OUT)
    assert timers(seen) == []


def test_queued_requests_are_answered_when_the_session_ends() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [2, 1]})
    requests: list[ApiRequest] = [creation(1), growth(2), deletion(3)]

    def ask() -> None:
        for request in requests:
            cluster.happen_next(request, "api:1")

    cluster.once(writes_state("t", 0), ask)
    cluster.lose(writes_state("t", 0), Delivery.SESSION_OVER)
    seen = cluster.seen()
    cluster.stop_broker(2)
    announced = answers(cluster)
    assert [one.request for one in announced] == [1, 2, 3]
    for answer in announced:
        assert isinstance(
            answer, CreateTopicsResponse | CreatePartitionsResponse | DeleteTopicsResponse
        )
        assert {one.error for one in answer.topics} == {codes.NOT_CONTROLLER}
    assert timers(seen) == []


# Snapshots --------------------------------------------------------------------------------------


@waiting
@pytest.mark.parametrize("end", ["done", "time over"])
def test_waiting_requests_are_in_the_snapshot(begin: Callable[[], Cluster], end: str) -> None:
    cluster = begin()
    data = take_snapshot(cluster.fold)
    cluster.fold = load_snapshot(data, cluster.fold.controller.configuration)
    assert take_snapshot(cluster.fold) == data
    seen = cluster.seen()
    if end == "done":
        cluster.start_broker(DEAD)
        assert error_by_name(cluster) == DONE[begin]
        assert any(getattr(one, "timer", "") == FIRST_TIMER for one in seen.commands)
    else:
        cluster.fire(FIRST_TIMER)
        assert error_by_name(cluster) == with_late(begin, codes.REQUEST_TIMED_OUT)


def test_request_that_cannot_wait_has_no_timer() -> None:
    cluster = Cluster(1).start()
    seen = cluster.seen()
    call(cluster, ElectLeadersReceived(1, 2, "preferred", []))
    assert timers(seen) == []
    assert waiting_requests.timer_of(1) == FIRST_TIMER
