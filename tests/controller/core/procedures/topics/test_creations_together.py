"""Several queued CreateTopics are carried out together."""

from collections.abc import Callable, Sequence

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.api_requests import ApiRequest
from controller.core.api_requests.topics import (
    CreateTopicsReceived,
    CreateTopicsResponse,
    DeleteTopicsReceived,
    NewTopic,
    TopicToDelete,
)
from controller.core.commands import Issued, WriteZnodes
from controller.core.events import TimerFired
from controller.core.operations import Create
from controller.core.procedures.topics import creation
from tests.controller.core.cluster import Cluster, Seen, reads, writes
from tests.controller.core.endpoint import answers
from tests.controller.core.procedures.topics.topic_requests import TIMEOUT_MS, create, new_topic

NO_BROKER: dict[int, Sequence[int]] = {0: (9,)}
OK = [codes.NONE]

# creations-together -------------------------------------------------------------------------------


def asked(number: int, *topics: NewTopic, validate_only: bool = False) -> CreateTopicsReceived:
    """The request with this number."""
    return CreateTopicsReceived(number, 7, TIMEOUT_MS, validate_only, list(topics))


def one(number: int, name: str) -> CreateTopicsReceived:
    """A request for one topic."""
    return asked(number, new_topic(name, 1, 1))


def send_together(cluster: Cluster, *requests: ApiRequest) -> Seen:
    """Requests of several clients. All but the first are queued while the first is carried out."""
    seen = cluster.seen()
    for number, request in enumerate(requests):
        cluster.happen_next(request, f"api:{number}")
    cluster.run()
    return seen


def answered_codes(cluster: Cluster) -> dict[int, list[int]]:
    """The codes of each request's one answer."""
    given: dict[int, list[int]] = {}
    for answer in answers(cluster):
        assert answer.request not in given
        if isinstance(answer, CreateTopicsResponse):
            given[answer.request] = [topic.error for topic in answer.topics]
    return given


def messages(cluster: Cluster, request: int) -> list[str | None]:
    """The error messages for the topics of a request."""
    [answer] = [each for each in answers(cluster) if each.request == request]
    assert isinstance(answer, CreateTopicsResponse)
    return [topic.message for topic in answer.topics]


def made(seen: Seen) -> list[list[str]]:
    """The topics that each write creates."""
    created = [
        [each.path for each in command.operations if isinstance(each, Create)]
        for command in seen.commands
        if isinstance(command, WriteZnodes)
    ]
    below = f"{znodes.TOPICS}/"
    names = [[path.removeprefix(below) for path in paths] for paths in created]
    return [each for each in names if each and not any("/" in name for name in each)]


@pytest.mark.parametrize(
    ("rules", "writes"),
    [("refold", [["a"], ["b", "c", "d"]]), ("kafka", [["a"], ["b"], ["c"], ["d"]])],
)
@pytest.mark.deviates("creations-together")
def test_queued_requests_are_written_together(rules: str, writes: list[list[str]]) -> None:
    cluster = Cluster(1, 2, rules=rules).start()
    seen = send_together(cluster, *(one(number, name) for number, name in enumerate("abcd", 1)))
    assert made(seen) == writes
    assert answered_codes(cluster) == {1: OK, 2: OK, 3: OK, 4: OK}


def test_each_request_has_its_own_answer() -> None:
    cluster = Cluster(1, 2).start()
    three = asked(3, new_topic("x", 1, 9), new_topic("c", 2, 2), new_topic("b!", 1, 1))
    send_together(cluster, one(1, "a"), one(2, "b"), three, asked(4), one(5, "e"))
    wrong = [codes.INVALID_REPLICATION_FACTOR, codes.NONE, codes.INVALID_TOPIC_EXCEPTION]
    assert answered_codes(cluster) == {1: OK, 2: OK, 3: wrong, 4: [], 5: OK}


def test_request_that_waits_for_a_broker_does_not_delay_the_others() -> None:
    cluster = Cluster(1, 2).start()
    dead = asked(2, new_topic("b", given=NO_BROKER))
    send_together(cluster, one(1, "a"), dead, one(3, "c"))
    assert answered_codes(cluster) == {1: OK, 3: OK}
    assert cluster.data(znodes.topic_path("b")) is not None


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        ("a.b", codes.TOPIC_ALREADY_EXISTS, "Topic 'a.b' already exists."),
        ("a_b", codes.INVALID_TOPIC_EXCEPTION, "Topic 'a_b' collides with existing topics: a.b"),
    ],
)
def test_topics_with_colliding_names_are_not_written_together(
    name: str, error: int, text: str
) -> None:
    """The result of the earlier topic must be known when the later one is validated."""
    cluster = Cluster(1, 2).start()
    requests = [one(1, "a"), one(2, "a.b"), one(3, name), one(4, "d")]
    seen = send_together(cluster, *requests)
    assert made(seen) == [["a"], ["a.b"], ["d"]]
    assert answered_codes(cluster) == {1: OK, 2: OK, 3: [error], 4: OK}
    assert messages(cluster, 3) == [text]


def test_order_of_the_requests_is_kept() -> None:
    """Requests queued after a request of another kind are carried out after it."""
    cluster = Cluster(1, 2).start()
    create(cluster, new_topic("d", 1, 1))
    doomed = DeleteTopicsReceived(4, 6, TIMEOUT_MS, [TopicToDelete("d", None)])
    seen = send_together(cluster, one(2, "a"), one(3, "b"), doomed, one(5, "c"), one(6, "e"))
    assert made(seen) == [["a"], ["b"], ["c", "e"]]
    written = seen.written()
    paths = [znodes.topic_path("b"), f"{znodes.DELETE_TOPICS}/d", znodes.topic_path("c")]
    assert sorted(paths, key=written.index) == paths


def test_request_that_only_validates_creates_nothing() -> None:
    cluster = Cluster(1, 2).start()
    looks = asked(2, new_topic("b", 1, 1), new_topic("x!", 1, 1), validate_only=True)
    seen = send_together(cluster, one(1, "a"), looks, one(3, "c"))
    assert answered_codes(cluster) == {1: OK, 2: [codes.NONE, codes.INVALID_TOPIC_EXCEPTION], 3: OK}
    assert made(seen) == [["a"], ["c"]]


def test_requests_with_up_to_a_thousand_topics_are_carried_out_together() -> None:
    """The limit bounds the delay of the first responses."""
    cluster = Cluster(1, 2).start()
    many = [f"n{number}" for number in range(998)]
    large = asked(2, *(new_topic(name, 1, 1) for name in many))
    seen = send_together(
        cluster, one(1, "a"), large, *(one(3 + place, n) for place, n in enumerate("defg"))
    )
    assert made(seen) == [["a"], [*many, "d", "e"], ["f", "g"]]


# Failures ---------------------------------------------------------------------------------------


def test_timeout_of_one_request_during_the_write_is_answered() -> None:
    cluster = Cluster(1, 2).start()
    timer = TimerFired("request:3")
    cluster.once(
        writes(znodes.topic_path("b")),
        lambda: cluster.happen_next(timer, "timer"),
    )
    send_together(cluster, one(1, "a"), one(2, "b"), one(3, "c"), one(4, "d"))
    assert answered_codes(cluster) == {1: OK, 2: OK, 3: [codes.REQUEST_TIMED_OUT], 4: OK}
    assert cluster.data(znodes.topic_path("c")) is not None


def test_another_controller_fences_all_requests() -> None:
    cluster = Cluster(1, 2).start()
    cluster.once(writes(znodes.topic_config_path("b")), lambda: cluster.seize_role(2))
    send_together(cluster, one(1, "a"), one(2, "b"), one(3, "c"))
    assert answered_codes(cluster)[2] == answered_codes(cluster)[3] == [codes.NOT_CONTROLLER]
    assert cluster.data(znodes.topic_path("c")) is None


def _second(which: Callable[[Issued], bool]) -> Callable[[Issued], bool]:
    found: list[Issued] = []

    def matches(issued: Issued) -> bool:
        found.extend([issued] * which(issued))
        return len(found) > 1

    return matches


def test_session_that_ends_rejects_all_requests() -> None:
    cluster = Cluster(1, 2).start()
    cluster.once(_second(reads(znodes.DELETE_TOPICS)), cluster.expire)
    send_together(cluster, one(1, "a"), one(2, "b"), one(3, "c"))
    assert answered_codes(cluster)[2] == answered_codes(cluster)[3] == [codes.NOT_CONTROLLER]


def test_standby_rejects_all_requests() -> None:
    cluster = Cluster(1, 2).start()
    cluster.seize_role(2)
    cluster.run()
    send_together(cluster, one(1, "a"), one(2, "b"), one(3, "c"))
    assert answered_codes(cluster) == {number: [codes.NOT_CONTROLLER] for number in (1, 2, 3)}


def test_unexpected_error_is_the_answer_to_all_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(1, 2).start()

    # No request makes a creation fail unexpectedly.
    def fail(*_: object) -> None:
        raise ValueError("planted")

    monkeypatch.setattr(creation, "assign_replicas", fail)
    send_together(cluster, one(1, "a"), one(2, "b"), one(3, "c"))
    assert answered_codes(cluster) == {number: [codes.UNKNOWN_SERVER_ERROR] for number in (1, 2, 3)}
