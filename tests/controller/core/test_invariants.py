"""Invariants under random events, and the replay of the recorded events."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core import znodes
from controller.core.commands import (
    Issued,
    LeaderAndIsrRequest,
    Notice,
    StopReplicaRequest,
    UpdateMetadataRequest,
    WriteAtomically,
    WriteZnodes,
)
from controller.core.values import NO_LEADER, LeaderAndIsr
from tests.controller.core.cluster import Cluster
from tests.controller.core.replaying import (
    assert_replays,
    encoded,
)

IBP = "2.6"
BROKERS = (1, 2, 3, 4)
TOPICS = ("alpha", "beta", "gamma")
REQUESTS = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest

Step = tuple[Any, ...]
"""The event, and its subjects."""

brokers = st.sampled_from(BROKERS)
topics = st.sampled_from(TOPICS)
assignments = st.lists(brokers, min_size=1, max_size=3, unique=True)

steps = st.lists(
    st.one_of(
        st.tuples(st.just("toggle"), brokers),
        st.tuples(st.just("toggle"), brokers),
        st.tuples(st.just("bounce"), brokers),
        st.tuples(st.just("grow"), topics, st.lists(assignments, min_size=1, max_size=2)),
        st.tuples(st.just("grow"), topics, st.lists(assignments, min_size=1, max_size=2)),
        st.tuples(st.just("isr"), topics, st.lists(brokers, max_size=3), st.booleans()),
        st.tuples(st.just("prepare")),
        st.tuples(st.just("expire")),
        st.tuples(st.just("seize")),
    ),
    max_size=20,
)


class CheckedCluster(Cluster):
    """A cluster at IBP 2.6 that checks every command when it is issued, and every partition
    whenever no event is left."""

    def __init__(self) -> None:
        super().__init__(1, 2, inter_broker_protocol_version=IBP)
        self.partitions: dict[str, dict[int, Sequence[int]]] = {}
        self._epochs: dict[tuple[str, int], int] = {}
        self._alive = {1: True, 2: True}
        self.before = self._check_term
        self.start()

    def step(self, step: Step) -> None:
        """One event."""
        match step:
            case ("toggle", broker) if self._alive.get(broker):
                self._alive[broker] = False
                self.stop_broker(broker)
            case ("toggle", broker):
                self._alive[broker] = True
                self.start_broker(broker)
            case ("bounce", broker) if self._alive.get(broker):
                self.bounce(broker)
            case ("grow", topic, added):
                known = self.partitions.setdefault(topic, {})
                known.update(enumerate(added, len(known)))
                self.create_topic(topic, known)
            case ("isr", topic, isr, announced):
                self._change_isr(topic, isr, announced)
            case ("prepare",):
                self.prepare_ahead()
            case ("expire",):
                self.expire()
            case ("seize",):
                session = self.seize_role(9)
                self.run()
                assert not self.is_active
                self.leave_role(session)

    def _change_isr(self, topic: str, wanted: list[int], announced: bool) -> None:
        """A live leader writes an ISR of live replicas, itself included."""
        for number, replicas in self.partitions.get(topic, {}).items():
            if self.state(topic, number) is None:
                continue
            leader = self.leadership(topic, number).leader
            if not self._alive.get(leader):
                continue
            live = [one for one in replicas if self._alive.get(one)]
            self.set_isr(topic, number, [one for one in live if one in wanted or one == leader])
        if announced:
            numbers = [one for one in self.partitions.get(topic, {}) if self.state(topic, one)]
            self.announce_isr(*((topic, number) for number in numbers))
            for number in numbers:
                known = self.partition(topic, number).leadership
                assert known == self.leadership(topic, number), "it was announced"

    def _check_term(self, issued: Issued) -> None:
        """Every change is written under the epoch in /controller_epoch."""
        command = issued.command
        if isinstance(command, REQUESTS | WriteZnodes):
            assert issued.term == self.epoch()
        if isinstance(command, REQUESTS):
            assert command.controller_epoch == issued.term
        if isinstance(command, WriteZnodes):
            assert command.epoch_version == self.version(znodes.CONTROLLER_EPOCH)
        if isinstance(command, WriteAtomically):
            assert issued.term == 0, "only an election writes without the fence"
        assert not [one for one in issued.reason.choices if one.code == "unclean leader"]

    def check(self) -> None:
        """Check every partition; no work may be under way."""
        assert self.fold.is_idle
        assert self.is_active
        assert not [one for one in self.commands() if is_failure(one)]
        for topic, of_topic in self.partitions.items():
            for number, replicas in of_topic.items():
                self._check_partition(topic, number, replicas)

    def _check_partition(self, topic: str, number: int, replicas: Sequence[int]) -> None:
        live = [one for one in replicas if self._alive.get(one)]
        known = self.partition(topic, number).leadership
        if self.state(topic, number) is None:
            assert known is None
            assert not live, "a partition with a live replica gets a leader"
            return
        state: LeaderAndIsr = self.leadership(topic, number)
        assert state.isr
        assert set(state.isr) <= set(replicas)
        if state.leader == NO_LEADER:
            assert not set(state.isr) & set(live), "a replica in sync could be elected"
        else:
            assert state.leader in state.isr
            assert state.leader in live
        assert state.leader_epoch >= self._epochs.get((topic, number), 0)
        self._epochs[topic, number] = state.leader_epoch
        self._check_knowledge(known, state)

    def _check_knowledge(self, known: LeaderAndIsr | None, state: LeaderAndIsr) -> None:
        """The controller's knowledge may only lack an ISR that was not announced."""
        assert known is not None
        assert (known.leader, known.leader_epoch) == (state.leader, state.leader_epoch)
        if known.partition_epoch == state.partition_epoch:
            assert known.isr == state.isr


def is_failure(issued: Issued) -> bool:
    command = issued.command
    return isinstance(command, Notice) and command.code in ("procedure_failed", "failover_failed")


@settings(max_examples=60)
@given(steps=steps)
def test_invariants_hold_and_replay_issues_the_same_commands(steps: list[Step]) -> None:
    cluster = CheckedCluster()
    for step in steps:
        cluster.step(step)
        cluster.check()
    assert_replays(cluster)


# Hash seeds -----------------------------------------------------------------------------------

EVENTFUL: list[Step] = [
    ("grow", "beta", [[2, 1], [1, 2, 3]]),
    ("grow", "alpha", [[1, 3], [3, 2]]),
    ("toggle", 3),
    ("toggle", 4),
    ("grow", "gamma", [[4, 3, 1], [2, 4]]),
    ("isr", "beta", [1, 2, 3], True),
    ("toggle", 1),
    ("bounce", 2),
    ("isr", "gamma", [2, 3, 4], False),
    ("expire",),
    ("toggle", 2),
    ("grow", "alpha", [[4, 3]]),
    ("seize",),
    ("toggle", 1),
    ("toggle", 3),
]


def digest_of_commands() -> str:
    """A digest of every command of an eventful scenario."""
    cluster = CheckedCluster()
    for step in EVENTFUL:
        cluster.step(step)
        cluster.check()
    return hashlib.sha256(repr([encoded(one) for one in cluster.commands()]).encode()).hexdigest()


@pytest.mark.sampled
@pytest.mark.parametrize("seed", ["0", "1", "12345"])
def test_commands_are_the_same_under_every_hash_seed(seed: str) -> None:
    code = "from tests.controller.core.test_invariants import digest_of_commands as d; print(d())"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == digest_of_commands()
