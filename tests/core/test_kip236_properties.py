"""What holds however reassignments are submitted by every route, cancelled and cut short.

Cancelling ends in exactly the original replicas, in their order, or waits while only an unclean
leader could be elected: whatever the order of answers, ISR changes and failures.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.core import znodes
from controller.core.commands import WriteAtomically, WriteZnodes
from controller.core.operations import SetData
from controller.core.reassignment_znodes import REASSIGN_CANCEL
from controller.core.values import NO_LEADER, Assignment
from replay.world.requests import Exists
from replay.world.simulation import Fate
from tests.core.cluster import Assignments, Cluster
from tests.core.endpoint import alter_partition, proposal
from tests.core.interrupting import (
    assert_nothing_is_left,
    cancel_all,
    entries,
    record,
    records,
    remove_cancel,
    request,
    submit,
    submit_extra,
)
from tests.core.reassigning import Name, ask, assert_no_failures, reassigning
from tests.core.test_reassignment_properties import assert_folds_again

BROKERS = (1, 2, 3, 4, 5)
NAMES: tuple[Name, ...] = (("t", 0), ("u", 0))
TOPICS: dict[str, Assignments] = {"t": {0: [1, 2]}, "u": {0: [3]}}

Step = tuple[Any, ...]

brokers = st.sampled_from(BROKERS)
names = st.sampled_from(NAMES)
targets = st.lists(brokers, min_size=1, max_size=3, unique=True)
many = st.dictionaries(names, targets, min_size=1, max_size=2)
bad = st.dictionaries(names, st.lists(brokers, max_size=3), min_size=1, max_size=2)
fates = st.sampled_from([one for one in Fate if one is not Fate.ANSWERED])
everybody = st.just(set(BROKERS))

steps = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), many),
        st.tuples(st.just("submit"), bad),
        st.tuples(st.just("extra"), many),
        st.tuples(st.just("request"), many),
        st.tuples(st.just("api"), names, st.one_of(targets, st.none())),
        st.tuples(st.just("cancel")),
        st.tuples(st.just("cancel")),
        st.tuples(st.just("remove cancel")),
        st.tuples(st.just("isr"), names, st.sets(brokers)),
        st.tuples(st.just("isr"), names, everybody),
        st.tuples(st.just("toggle"), brokers),
        st.tuples(st.just("desert"), names),
        st.tuples(st.just("bounce"), brokers),
        st.tuples(st.just("lose"), st.integers(0, 12), fates),
        st.tuples(st.just("expire")),
        st.tuples(st.just("seize"), st.booleans()),
    ),
    min_size=4,
    max_size=16,
)
"""Of what is lost and what is seized the daemon is told in the midst of what comes next."""


class Interrupted(Cluster):
    """Five brokers, two partitions; `rested` is what each had when nothing was under way."""

    def __init__(self, protocol: str) -> None:
        super().__init__(*BROKERS, inter_broker_protocol_version=protocol, kip_236_enable=True)
        self._asks = self.fold.controller.protocol.has_alter_partition
        self._alive = dict.fromkeys(BROKERS, True)
        self.start()
        for topic, partitions in TOPICS.items():
            self.create_topic(topic, partitions)
        self.rested: dict[Name, tuple[int, ...]] = {("t", 0): (1, 2), ("u", 0): (3,)}
        self._looked_at = len(self.history)

    def step(self, step: Step) -> None:
        """One thing that happens."""
        match step:
            case ("submit", wanted):
                submit(self, wanted)
            case ("extra", wanted):
                submit_extra(self, wanted)
            case ("request", wanted):
                request(self, wanted)
            case ("api", name, target):
                ask(self, (name, target))
            case ("cancel",):
                cancel_all(self)
            case ("remove cancel",):
                remove_cancel(self)
            case ("isr", name, wanted):
                self.change_isr(name, wanted)
            case ("toggle", broker):
                self._toggle(broker)
            case ("desert", name):
                self._desert(name)
            case ("bounce", broker) if self._alive[broker]:
                self.bounce(broker)
            case ("lose", number, fate):
                self.lose(nth_write(number), fate)
            case ("expire",):
                self.expire()
            case ("seize", deletes):
                self._seize(deletes=deletes)

    def _seize(self, *, deletes: bool) -> None:
        """A stock broker takes the role for a while; it may delete entries with originals, which it
        cannot read."""
        session = self.seize_role(9)
        self.run()
        found = entries(self) or {}
        if deletes and any(one.original_replicas is not None for one in found.values()):
            self.remove_quietly(znodes.REASSIGN_PARTITIONS)
        self.leave_role(session)

    def _toggle(self, broker: int) -> None:
        self._alive[broker] = not self._alive[broker]
        if self._alive[broker]:
            self.start_broker(broker)
        else:
            self.stop_broker(broker)

    def _desert(self, name: Name) -> None:
        """Everybody dies whose replica is to be removed, when the target has caught up but one."""
        self.change_isr(name, set(BROKERS) - {self.partition(*name).assignment.target[-1]})
        for broker in self.partition(*name).assignment.removing:
            if self._alive[broker]:
                self._toggle(broker)

    def change_isr(self, name: Name, wanted: set[int]) -> None:
        """A living leader asks for an ISR of live replicas, itself among them."""
        state = self.leadership(*name)
        replicas = self.partition(*name).replicas
        if not self._alive.get(state.leader):
            return
        isr = [one for one in replicas if self._alive[one] and one in wanted]
        in_sync = (state.leader, *(one for one in isr if one != state.leader))
        if self._asks:
            alter_partition(self, state.leader, proposal(self, *name, isr=in_sync, by_id=True))
        else:
            self.set_isr(*name, in_sync)
            self.run()

    def check(self) -> None:
        """Look at everything; nothing is being decided."""
        assert self.fold.is_idle
        assert self.is_active
        assert_no_failures(self)
        ended = self._ended()
        known = self.fold.controller.context.reassignments
        assert sorted(one.key for one in known) == sorted(records(self))
        for partition, one in known.items():
            assert record(self, partition.key) == one
        assert (self.fold.controller.context.cancel != 0) is self.is_cancelled
        for name in NAMES:
            self._check_partition(name, ended[name])

    def _ended(self) -> dict[Name, list[tuple[int, ...]]]:
        """What was stored of each partition since the last look with nothing under way: one
        reassignment may have ended and the next begun."""
        ended: dict[Name, list[tuple[int, ...]]] = {name: [] for name in NAMES}
        history, self._looked_at = self.history[self._looked_at :], len(self.history)
        kinds = WriteZnodes | WriteAtomically
        commands = (issued.command for _, decided in history for issued in decided)
        written = (one for each in commands if isinstance(each, kinds) for one in each.operations)
        for operation in written:
            topic = operation.path.removeprefix(znodes.topic_path(""))
            if topic in TOPICS and isinstance(operation, SetData):
                stored = znodes.read_topic(topic, operation.data).assignments[0]
                if not stored.is_being_reassigned:
                    ended[topic, 0].append(stored.replicas)
        return ended

    @property
    def is_cancelled(self) -> bool:
        """Whether /admin/reassign_cancel stands."""
        return self.ask(Exists(REASSIGN_CANCEL)).error == 0

    def _check_partition(self, name: Name, ended: list[tuple[int, ...]]) -> None:
        topic, number = name
        stored: Assignment = self.topic(topic).assignments[number]
        partition, state = self.partition(*name), self.leadership(*name)
        assert stored == partition.assignment
        assert stored.target
        assert set(state.isr) <= set(stored.replicas)
        assert self._alive.get(state.leader) or state.leader == NO_LEADER
        assert state.leader in state.isr or not any(self._alive[one] for one in state.isr)
        assert set(partition.replica_states) == set(stored.replicas)
        under_way = record(self, name)
        if under_way is not None:
            if under_way.original_replicas in ended:
                self.rested[name] = under_way.original_replicas
            assert under_way.original_replicas == self.rested[name]
            assert under_way.top == len(self.rested[name])
            assert stored.target == under_way.replicas
            assert set(self.rested[name]) <= set(stored.replicas)
        elif stored.is_being_reassigned:
            assert name in reassigning(self)
        else:
            assert name not in reassigning(self)
            self.rested[name] = stored.replicas

    def calm_down(self) -> None:
        """Every broker comes back, and leaders take in whoever is a replica."""
        for broker in BROKERS:
            if not self._alive[broker]:
                self._toggle(broker)
        for _ in range(4):
            for name in NAMES:
                self.change_isr(name, set(BROKERS))

    def assert_no_unclean_leader(self) -> None:
        """No topic allows one."""
        codes = {one.code for issued in self.commands() for one in issued.reason.choices}
        assert "unclean leader" not in codes


def nth_write(number: int) -> Any:
    """Tells the nth write that comes."""
    left = iter(range(number))
    kinds = WriteZnodes | WriteAtomically
    return lambda issued: isinstance(issued.command, kinds) and next(left, None) is None


def play(protocol: str, steps: Sequence[Step]) -> None:
    cluster = Interrupted(protocol)
    for step in steps:
        cluster.step(step)
        cluster.check()
    cluster.fate = lambda issued: Fate.ANSWERED
    _cancel_what_is_left(cluster)
    remove_cancel(cluster)
    cluster.calm_down()
    cluster.check()
    assert_nothing_is_left(cluster)
    for name in NAMES:
        state, replicas = cluster.leadership(*name), cluster.partition(*name).replicas
        assert set(state.isr) == set(replicas)
        assert all(name in cluster.broker(one).logs for one in replicas)
    cluster.assert_no_unclean_leader()
    assert_folds_again(cluster)


def _cancel_what_is_left(cluster: Interrupted) -> None:
    """Whatever is under way by entries ends in the originals, in their order."""
    if not cluster.is_cancelled:
        cancel_all(cluster)
    rolled_back = {name: one for name in NAMES if (one := record(cluster, name)) and one.legacy}
    expected = {name: cluster.rested[name] for name in rolled_back}
    cluster.check()
    cluster.calm_down()
    cluster.check()
    for name, originals in expected.items():
        assert cluster.partition(*name).assignment == Assignment(originals)
    assert not any(one.legacy for one in cluster.fold.controller.context.reassignments.values())


@pytest.mark.timeout(300)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=steps)
def test_cancelling_ends_in_the_originals(steps: list[Step]) -> None:
    play("3.9", steps)


@pytest.mark.timeout(300)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=steps)
def test_the_same_where_leaders_write_their_isr_themselves(steps: list[Step]) -> None:
    play("2.7-IV1", steps)
