"""A cluster with random events during topic deletions, for property tests."""

from typing import Any

from hypothesis import strategies as st

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.commands import BrokerRequest, Issued, Notice
from controller.core.values import NO_LEADER, Assignment
from tests.controller.core.cluster import Assignments, Cluster
from tests.controller.core.endpoint import controlled_shutdown
from tests.controller.core.procedures.reassignment.reassigning import ask
from tests.controller.core.procedures.topics.deleting import (
    deletes,
    left_of,
    mark,
    mark_quietly,
    marked,
)
from tests.controller.core.unreliable import Delivery

BROKERS = (1, 2, 3, 4)
TOPICS = ("alpha", "beta", "gamma")

Step = tuple[Any, ...]
"""The event, and its subjects."""

brokers = st.sampled_from(BROKERS)
topics = st.sampled_from(TOPICS)
replicas = st.lists(brokers, min_size=1, max_size=3, unique=True)
deliveries = st.sampled_from([one for one in Delivery if one is not Delivery.ANSWERED])
in_commands = st.integers(0, 25)

steps = st.lists(
    st.one_of(
        st.tuples(st.just("grow"), topics, st.lists(replicas, min_size=1, max_size=2)),
        st.tuples(st.just("grow"), topics, st.lists(replicas, min_size=1, max_size=2)),
        st.tuples(st.just("mark"), topics),
        st.tuples(st.just("mark"), topics),
        st.tuples(st.just("mark and grow"), topics, replicas),
        st.tuples(st.just("reassign"), topics, replicas),
        st.tuples(st.just("catch up"), topics),
        st.tuples(st.just("toggle"), brokers),
        st.tuples(st.just("toggle"), brokers),
        st.tuples(st.just("bounce"), brokers),
        st.tuples(st.just("shut down"), brokers),
        st.tuples(st.just("slow"), brokers),
        st.tuples(st.just("answer")),
        st.tuples(st.just("failing"), brokers),
        st.tuples(st.just("expire")),
        st.tuples(st.just("seize")),
        st.tuples(st.just("lose"), in_commands, deliveries),
        st.tuples(st.just("dies at"), in_commands, brokers),
    ),
    max_size=25,
)


class RandomEventsCluster(Cluster):
    """A cluster that events happen to. `topics` are those that are never deleted."""

    def __init__(self, protocol: str = "3.9") -> None:
        super().__init__(*BROKERS, inter_broker_protocol_version=protocol)
        self.topics: dict[str, Assignments] = {}
        self.alive = dict.fromkeys(BROKERS, True)
        self.needs_restart: dict[int, None] = {}
        self._slow_brokers: dict[int, None] = {}
        self._failing: dict[int, None] = {}
        self.is_slow = lambda request: request.broker in self._slow_brokers
        self.broker_errors = self._errors
        self.start()

    def _errors(self, request: BrokerRequest) -> list[tuple[str, int, int]]:
        if request.broker not in self._failing or not deletes(request):
            return []
        names = [(one.topic, one.partition) for one in request.partitions]
        return [(*name, codes.KAFKA_STORAGE_ERROR) for name in names]

    def step(self, step: Step) -> None:
        match step:
            case ("grow", topic, added):
                self._grow(topic, added)
            case ("mark", topic):
                self._mark(topic)
            case ("mark and grow", topic, added) if topic in self.topics:
                known = self.topics.pop(topic)
                mark_quietly(self, topic)
                self.create_topic(topic, known | {len(known): added})
            case ("reassign", topic, wanted) if topic in self.topics:
                self._reassign(topic, wanted)
            case ("catch up", topic):
                self._catch_up(topic)
            case ("slow", broker):
                self._slow_brokers[broker] = None
            case ("answer",):
                self._slow_brokers.clear()
                self.answer_slow()
            case ("failing", broker):
                self._failing[broker] = self.needs_restart[broker] = None
            case ("expire",):
                self.expire()
            case ("seize",):
                session = self.seize_role(9)
                self.run()
                assert not self.is_active
                self.leave_role(session)
            case ("lose", number, delivery):
                self.lose(after(number), delivery)
            case _:
                self._of_broker(step)

    def _grow(self, topic: str, added: list[list[int]]) -> None:
        """A tool adds partitions, unless the topic is marked for deletion."""
        exists = self.data(znodes.topic_path(topic)) is not None
        if topic in marked(self) or exists != (topic in self.topics):
            return
        known = self.topics.setdefault(topic, {})
        known.update(enumerate(added, len(known)))
        if not exists:
            self.create_topic(topic, known)
            return
        content = self.topic(topic)
        new = {number: content.assignments.get(number) for number in known}
        partitions = {
            number: Assignment(tuple(known[number])) if one is None else one
            for number, one in new.items()
        }
        data = znodes.write_topic(znodes.TopicContent(partitions, content.topic_id))
        self.put(znodes.topic_path(topic), data)

    def _mark(self, topic: str) -> None:
        if topic in self.topics:
            del self.topics[topic]
            mark(self, topic)

    def _reassign(self, topic: str, wanted: list[int]) -> None:
        """Only while every broker is alive and answers: otherwise brokers keep logs that they
        should delete (KB 7.7.1)."""
        if all(self.alive.values()) and not self._failing:
            self.before = lambda issued: None
            ask(self, ((topic, 0), wanted))

    def _catch_up(self, topic: str) -> None:
        """All live replicas join the ISR of the partitions that have a leader."""
        if self._failing:
            return
        for number in self.topics.get(topic, {}):
            if self.state(topic, number) is None:
                continue
            state = self.leadership(topic, number)
            if not self.alive.get(state.leader):
                continue
            live = [
                one for one in self.topic(topic).assignments[number].replicas if self.alive[one]
            ]
            if state.leader in live:
                self.set_isr(topic, number, live)
                self.announce_isr((topic, number))

    def _of_broker(self, step: Step) -> None:
        match step:
            case ("toggle", broker) if self.alive[broker]:
                self._stop(broker)
            case ("toggle", broker):
                self._start(broker)
            case ("bounce", broker) if self.alive[broker]:
                self._restarts(broker)
                self.bounce(broker)
            case ("shut down", broker) if self.alive[broker] and self.is_active:
                controlled_shutdown(self, broker)
                self.needs_restart[broker] = None
            case ("dies at", number, broker) if self.alive[broker]:
                self.once(after(number), lambda: self._dies(broker))

    def _dies(self, broker: int) -> None:
        if self.alive[broker]:
            self.alive[broker] = False
            self.unregister(broker)

    def _stop(self, broker: int) -> None:
        self._dies(broker)
        self.run()

    def _start(self, broker: int) -> None:
        self.alive[broker] = True
        self._restarts(broker)
        self.start_broker(broker)

    def _restarts(self, broker: int) -> None:
        self.needs_restart.pop(broker, None)
        self._failing.pop(broker, None)

    def settle(self) -> None:
        """Every broker is alive and answers. Those that announced their shutdown, or failed,
        have restarted."""
        self.before, self.delivery = lambda issued: None, lambda issued: Delivery.ANSWERED
        self.step(("answer",))
        for broker in list(self.needs_restart):
            self._stop(broker)
        for broker in BROKERS:
            if not self.alive[broker]:
                self._start(broker)

    def check_always(self) -> None:
        assert self.fold.is_idle
        assert not [one for one in self.commands() if is_failure(one)]
        context = self.fold.controller.context
        queued = context.queued_for_deletion.keys()
        assert context.deletion_started.keys() <= queued
        assert context.ineligible_for_deletion.keys() <= queued
        assert queued <= set(marked(self))

    def check_settled(self) -> None:
        """Marked topics are deleted, and every other partition has its leader and its logs."""
        assert marked(self) == ()
        for topic in TOPICS:
            if topic not in self.topics:
                assert left_of(self, topic) == []
                continue
            content = self.topic(topic)
            assert content.assignments.keys() == self.topics[topic].keys()
            for number in content.assignments:
                state = self.leadership(topic, number)
                assert state.leader != NO_LEADER
                for replica in state.isr:
                    assert self.broker(replica).logs[topic, number] == content.topic_id


def after(number: int) -> Any:
    """A predicate that matches the first command after `number` commands."""
    left = number

    def matches(issued: Issued) -> bool:
        nonlocal left
        left -= 1
        return left < 0

    return matches


def is_failure(issued: Issued) -> bool:
    command = issued.command
    failures = ("procedure_failed", "failover_failed", "topic_not_deleted")
    return isinstance(command, Notice) and command.code in failures
