"""Invariants while reassignments are requested, interrupted, cancelled and replaced."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.commands import WriteZnodes
from controller.core.state_machines import PartitionState
from controller.core.values import NO_LEADER, Assignment
from tests.controller.core.cluster import Assignments, Cluster
from tests.controller.core.endpoint import alter_partition, proposal
from tests.controller.core.procedures.reassignment.reassigning import (
    Name,
    ask,
    assert_no_failures,
    elect_preferred,
    put_request,
    reassigning,
    request,
)
from tests.controller.core.replaying import assert_replays
from tests.controller.core.unreliable import Delivery

BROKERS = (1, 2, 3, 4, 5)
NAMES: tuple[Name, ...] = (("t", 0), ("u", 0))
TOPICS: dict[str, Assignments] = {"t": {0: [1, 2]}, "u": {0: [3]}}

Step = tuple[Any, ...]
"""The event, and its subjects."""

brokers = st.sampled_from(BROKERS)
names = st.sampled_from(NAMES)
targets = st.lists(brokers, min_size=1, max_size=3, unique=True)
with_repeats = st.lists(brokers, max_size=3)
deliveries = st.sampled_from([one for one in Delivery if one is not Delivery.ANSWERED])

steps = st.lists(
    st.one_of(
        st.tuples(st.just("reassign"), names, targets),
        st.tuples(st.just("reassign"), names, targets),
        st.tuples(st.just("request"), st.dictionaries(names, with_repeats, max_size=2)),
        st.tuples(st.just("cancel"), names),
        st.tuples(st.just("isr"), names, st.sets(brokers)),
        st.tuples(st.just("isr"), names, st.just(set(BROKERS))),
        st.tuples(st.just("almost"), names, st.booleans()),
        st.tuples(st.just("almost"), names, st.booleans()),
        st.tuples(st.just("toggle"), brokers),
        st.tuples(st.just("desert"), names),
        st.tuples(st.just("bounce"), brokers),
        st.tuples(st.just("lose"), st.integers(0, 9), deliveries),
        st.tuples(st.just("expire")),
        st.tuples(st.just("seize")),
    ),
    min_size=5,
    max_size=20,
)
"""The daemon processes a lost reply or a lost role during the next event."""


class ReassigningCluster(Cluster):
    """Five brokers and two partitions. Leaders change ISRs as their protocol requires."""

    def __init__(self, protocol: str) -> None:
        super().__init__(*BROKERS, inter_broker_protocol_version=protocol)
        self._asks = self.fold.controller.protocol.has_alter_partition
        self._alive = dict.fromkeys(BROKERS, True)
        self.start()
        for topic, partitions in TOPICS.items():
            self.create_topic(topic, partitions)

    def step(self, step: Step) -> None:
        """One event."""
        match step:
            case ("reassign", name, target):
                ask(self, (name, target))
            case ("request", entries):
                put_request(self, entries)
            case ("cancel", name):
                ask(self, (name, None))
            case ("isr", name, wanted):
                self._change_isr(name, wanted)
            case ("almost", name, is_preferred):
                self._catch_up_almost(name)
                if is_preferred:
                    elect_preferred(self, name)
            case ("toggle", broker):
                self._toggle(broker)
            case ("desert", name):
                self._lose_removed_replicas(name)
            case ("bounce", broker) if self._alive[broker]:
                self.bounce(broker)
            case ("lose", number, delivery):
                self.lose(nth_write(number), delivery)
            case ("expire",):
                self.expire()
            case ("seize",):
                session = self.seize_role(9)
                self.run()
                self.leave_role(session)

    def _toggle(self, broker: int) -> None:
        self._alive[broker] = not self._alive[broker]
        if self._alive[broker]:
            self.start_broker(broker)
        else:
            self.stop_broker(broker)

    def _change_isr(self, name: Name, wanted: set[int]) -> None:
        """A live leader requests an ISR of live replicas, itself included."""
        state = self.leadership(*name)
        replicas = self.partition(*name).replicas
        if not self._alive.get(state.leader):
            return
        isr = [one for one in replicas if self._alive[one] and one in wanted]
        in_sync = (state.leader, *(one for one in isr if one != state.leader))
        if self._asks:
            asked = proposal(self, *name, isr=in_sync, by_id=True)
            alter_partition(self, state.leader, asked)
        else:
            self.set_isr(*name, in_sync)
            self.run()

    def _catch_up_almost(self, name: Name) -> None:
        """All replicas but the last target join the ISR."""
        self._change_isr(name, set(BROKERS) - {self.partition(*name).assignment.target[-1]})

    def _lose_removed_replicas(self, name: Name) -> None:
        """Once some of the targets have caught up, the brokers of the replicas to be removed
        die."""
        self._catch_up_almost(name)
        for broker in self.partition(*name).assignment.removing:
            if self._alive[broker]:
                self._toggle(broker)

    def check(self) -> None:
        """Check every partition. No work may be under way."""
        assert self.fold.is_idle
        assert self.is_active
        assert_no_failures(self)
        for name in NAMES:
            self._check_partition(name)

    def _check_partition(self, name: Name) -> None:
        topic, number = name
        stored: Assignment = self.topic(topic).assignments[number]
        partition, state = self.partition(*name), self.leadership(*name)
        assert stored == partition.assignment
        assert stored.target
        assert (name in reassigning(self)) is stored.is_being_reassigned
        assert set(state.isr) <= set(stored.replicas)
        assert self._alive.get(state.leader) or state.leader == NO_LEADER
        is_led = state.leader in state.isr
        assert partition.state is (PartitionState.ONLINE if is_led else PartitionState.OFFLINE)
        assert is_led or not any(self._alive[one] for one in state.isr)
        assert set(partition.replica_states) == set(stored.replicas)

    def restore_all_brokers(self) -> None:
        """Every broker returns, and leaders add all replicas to the ISR."""
        for broker in BROKERS:
            if not self._alive[broker]:
                self._toggle(broker)
        for _ in range(3):
            for name in NAMES:
                self._change_isr(name, set(BROKERS))

    def check_completed(self) -> None:
        """Every reassignment has completed."""
        assert reassigning(self) == []
        assert request(self) is None
        for name in NAMES:
            state, replicas = self.leadership(*name), self.partition(*name).replicas
            assert state.leader in state.isr
            assert set(state.isr) == set(replicas)
            assert all(name in self.broker(one).logs for one in replicas)


def nth_write(number: int) -> Any:
    """A predicate that matches the nth write."""
    left = iter(range(number))
    return lambda issued: isinstance(issued.command, WriteZnodes) and next(left, None) is None


def play(protocol: str, steps: Sequence[Step]) -> None:
    cluster = ReassigningCluster(protocol)
    for step in steps:
        cluster.step(step)
        cluster.check()
    cluster.delivery = lambda issued: Delivery.ANSWERED
    cluster.restore_all_brokers()
    cluster.check()
    cluster.check_completed()
    assert_replays(cluster)


@pytest.mark.slow
@settings(max_examples=100)
@given(steps=steps)
def test_reassignments_complete_and_partitions_keep_a_leader(steps: list[Step]) -> None:
    play("3.9", steps)


@pytest.mark.long
@pytest.mark.slow
@settings(max_examples=50)
@given(steps=steps)
def test_reassignments_complete_below_2_7_IV2(steps: list[Step]) -> None:
    play("2.7-IV1", steps)
