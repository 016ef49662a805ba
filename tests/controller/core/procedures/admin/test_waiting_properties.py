"""Every request of an admin tool gets exactly one answer, under any events."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.api_requests import ApiRequest
from controller.core.api_requests.topics import (
    CreatePartitionsReceived,
    CreateTopicsReceived,
    DeleteTopicsReceived,
    NewPartitions,
    TopicToDelete,
)
from controller.core.events import TimerFired
from controller.core.snapshot import load_snapshot, take_snapshot
from tests.controller.core.cluster import Cluster
from tests.controller.core.endpoint import answers
from tests.controller.core.eventful import (
    TOPICS,
    RandomEventsCluster,
    Step,
    after,
    replicas,
    steps,
    topics,
)
from tests.controller.core.procedures.topics.topic_requests import new_topic

timeouts = st.sampled_from([0, 1000])
asking = st.one_of(
    st.tuples(st.just("create"), st.lists(topics, max_size=3), replicas, timeouts),
    st.tuples(st.just("add"), topics, st.integers(1, 3), timeouts),
    st.tuples(st.just("delete"), st.lists(topics, max_size=3), timeouts),
    st.tuples(st.just("time out"), st.integers(0, 3)),
    st.tuples(st.just("ask in"), st.integers(0, 25), topics),
    st.tuples(st.just("time out in"), st.integers(0, 25)),
)
_FIRST = 10_000
"""Above the request numbers of brokers."""
happening: st.SearchStrategy[list[Step]] = st.lists(
    st.one_of(asking, asking, steps.map(lambda some: some[0] if some else ("answer",))),
    max_size=25,
)


class RandomRequestsCluster(RandomEventsCluster):
    """Requests arrive and time out at any moment."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[int, None] = {}

    def step(self, step: Step) -> None:
        match step:
            case ("create", names, brokers, timeout_ms):
                new = [new_topic(name, given={0: brokers}) for name in names]
                self._ask(CreateTopicsReceived(self._next(), 7, timeout_ms, False, new))
            case ("add", topic, count, timeout_ms):
                grown = [NewPartitions(topic, count, None)]
                self._ask(CreatePartitionsReceived(self._next(), 3, timeout_ms, False, grown))
            case ("delete", names, timeout_ms):
                doomed = [TopicToDelete(name, None) for name in names]
                self._ask(DeleteTopicsReceived(self._next(), 6, timeout_ms, doomed))
            case ("time out", place):
                self._time_out(place)
                self.run()
            case ("ask in", number, topic):
                self.once(after(number), lambda: self._ask_next(topic))
            case ("time out in", number):
                self.once(after(number), lambda: self._time_out(0))
            case ("mark" | "mark and grow" | "grow" | "reassign" | "catch up", *_):
                pass  # The model of the existing topics does not know of requests.
            case _:
                super().step(step)

    def _next(self) -> int:
        number = _FIRST + len(self.asked)
        self.asked[number] = None
        return number

    def _ask(self, request: ApiRequest) -> None:
        self.happen(request, "api:1")

    def _ask_next(self, topic: str) -> None:
        new = [new_topic(topic, 1, 2)]
        self.happen_next(CreateTopicsReceived(self._next(), 7, 1000, False, new), "api:1")

    def _time_out(self, place: int) -> None:
        timers = list(self.fold.controller.timed)
        if place < len(timers):
            self.happen_next(TimerFired(timers[place]), "timer")

    def check(self) -> None:
        """Each waiting request has a running timer, and there are no other timers."""
        controller = self.fold.controller
        waiting = [*controller.context.waiting, *controller.context.propagating]
        assert sorted(controller.timed.values()) == sorted(waiting)
        announced = [one.request for one in answers(self) if one.request in self.asked]
        assert sorted([*announced, *waiting]) == list(self.asked)

    def time_passes(self) -> None:
        for timer in list(self.fold.controller.timed):
            self.fire(timer)


def continue_from_a_snapshot(cluster: Cluster) -> None:
    data = take_snapshot(cluster.fold)
    cluster.fold = load_snapshot(data, cluster.fold.controller.configuration)
    assert take_snapshot(cluster.fold) == data


@settings(max_examples=60)
@given(happening=happening)
def test_every_request_gets_one_answer(happening: list[Any]) -> None:
    whole, broken_off = RandomRequestsCluster(), RandomRequestsCluster()
    for step in happening:
        for cluster in (whole, broken_off):
            cluster.step(step)
            cluster.check()
            cluster.check_always()
        continue_from_a_snapshot(broken_off)
    for cluster in (whole, broken_off):
        cluster.settle()
        cluster.time_passes()
        cluster.check()
        assert not cluster.fold.controller.timed
    assert broken_off.commands() == whole.commands()
    assert set(TOPICS) >= set(whole.fold.controller.context.known_topics())
