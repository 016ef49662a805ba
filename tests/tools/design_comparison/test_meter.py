"""The bookkeeping of a run: hand-made runs whose result is known."""

from types import SimpleNamespace
from typing import Any

import pytest

from replay.world.cluster import Cluster
from replay.world.inputs import CrashBroker, CutConnection, Input
from replay.world.kafka_0_8.networked.cluster import NetworkedCluster
from replay.world.observer import AcknowledgedRecord
from replay.world.processes import ZOOKEEPER
from replay.world.scheduler import SECOND
from tools.design_comparison.meter import Measurements, Meter, measure
from tools.design_comparison.scenarios import CUT_OFF, KILLED, scenario

DESIGNS = [NetworkedCluster, Cluster]
T = ("t", 0)
KILL = CrashBroker(20_000, 1, restart_after_ms=15_000)


def run(design: type[Any], assignment: tuple[tuple[int, ...], ...], *inputs: Input) -> Measurements:
    meter = Meter()
    return measure(design(scenario(3, assignment), inputs, meter), meter)


class MeterHarness:
    """A meter whose cluster is one partition of two brokers; the test says what happens."""

    def __init__(self) -> None:
        self.logs: dict[int, list[int]] = {1: [], 2: []}
        self.meter = Meter()
        self.scheduler = SimpleNamespace(now_us=0)
        brokers = {
            one: SimpleNamespace(disk=SimpleNamespace(logs={T: SimpleNamespace(records=log)}))
            for one, log in self.logs.items()
        }
        cluster: Any = SimpleNamespace(
            scenario=scenario(2, ((1, 2),)),
            scheduler=self.scheduler,
            brokers=brokers,
            zookeeper=SimpleNamespace(),
        )
        self.meter.begins(cluster)
        self.meter.leader_changed("broker 1", T, 1, 1, (1, 2))
        self.at(20)
        self.meter.input_applied(KILL)

    def at(self, second: float) -> None:
        self.scheduler.now_us = round(second * SECOND)

    def acknowledge(self, record: int, acks: int, leader: int, epoch: int) -> None:
        self.meter.produced(f"producer {(0, 1, -1).index(acks)}", T, record)
        acknowledged = AcknowledgedRecord(T, 0, record, (leader,), epoch, acks)
        self.meter.acknowledged(f"producer {acks}", acknowledged)


def test_record_that_only_the_dead_leader_has_is_lost_once() -> None:
    by_hand = MeterHarness()
    by_hand.logs[1] += [7, 8]
    by_hand.logs[2] += [8]
    by_hand.acknowledge(7, 1, 1, 1)
    by_hand.acknowledge(8, -1, 1, 1)
    by_hand.meter.ended("broker 1", "crash")
    by_hand.at(26)
    by_hand.meter.leader_changed("broker 2", T, 2, 2, (2,))
    measured = by_hand.meter.finish()
    assert measured.sent == {"1": 1, "all": 1}
    assert measured.acknowledged == {"1": 1, "all": 1}
    assert measured.lost == {"1": 1, "all": 0}
    assert measured.gaps == {KILLED: [6 * SECOND]}
    assert not measured.overlaps


def test_time_until_a_commit_ends_with_the_next_leaders_acknowledgement() -> None:
    by_hand = MeterHarness()
    by_hand.meter.ended("broker 1", "crash")
    by_hand.acknowledge(1, -1, 1, 1)  # Of the dead leader: it was on its way.
    by_hand.at(26)
    by_hand.meter.leader_changed("broker 2", T, 2, 2, (1, 2))
    by_hand.acknowledge(2, 1, 2, 2)
    by_hand.at(34)
    by_hand.acknowledge(3, -1, 2, 2)
    assert by_hand.meter.finish().commit_gaps == {KILLED: [14 * SECOND]}


def test_two_leaders_are_one_window_until_the_old_one_follows() -> None:
    by_hand = MeterHarness()
    by_hand.meter.leader_changed("broker 2", T, 2, 2, (2,))
    by_hand.at(23)
    by_hand.meter.leader_changed("broker 1", T, 2, 2, (2,))
    measured = by_hand.meter.finish()
    assert measured.overlaps == {KILLED: [3 * SECOND]}
    assert not measured.gaps


def test_change_at_one_moment_is_no_window() -> None:
    by_hand = MeterHarness()
    by_hand.meter.leader_changed("broker 1", T, 2, 2, (2,))
    by_hand.meter.leader_changed("broker 2", T, 2, 2, (2,))
    measured = by_hand.meter.finish()
    assert not measured.gaps
    assert not measured.overlaps


def test_partition_without_a_leader_at_the_end_has_an_open_window() -> None:
    by_hand = MeterHarness()
    by_hand.acknowledge(7, 1, 1, 1)
    by_hand.meter.ended("broker 1", "crash")
    by_hand.at(60)
    measured = by_hand.meter.finish()
    assert measured.gaps == {KILLED: [40 * SECOND]}
    assert (measured.leaderless, measured.lost) == (1, {})


@pytest.mark.parametrize("design", DESIGNS)
def test_without_a_fault_nothing_is_lost_or_unavailable(design: type[Any]) -> None:
    measured = run(design, ((1, 2, 3), (2, 3, 1)))
    assert not measured.gaps
    assert not measured.overlaps
    assert measured.sent == measured.acknowledged
    assert sum(measured.lost.values()) == measured.leaderless == measured.read_lost == 0


@pytest.mark.parametrize("design", DESIGNS)
def test_one_killed_leader_is_one_window(design: type[Any]) -> None:
    measured = run(design, ((1, 2, 3), (2, 3, 1)), KILL)
    assert list(measured.gaps) == [KILLED]
    (gap,) = measured.gaps[KILLED]
    assert 4 * SECOND < gap < 9.5 * SECOND
    assert measured.lost["all"] == 0 < measured.lost["0"]
    assert not measured.overlaps


@pytest.mark.parametrize("design", DESIGNS)
def test_leader_without_followers_loses_what_it_acknowledged(design: type[Any]) -> None:
    separated = [CutConnection(18_000, "broker 1", other, 20_000) for other in ("broker 2",)]
    measured = run(design, ((1, 2),), *separated, KILL)
    assert measured.lost["1"] > 0 == measured.lost["all"]


@pytest.mark.parametrize("design", DESIGNS)
def test_leader_that_is_separated_from_zookeeper_goes_on(design: type[Any]) -> None:
    measured = run(design, ((1, 2, 3),), CutConnection(20_000, "broker 1", ZOOKEEPER, 20_000))
    assert not measured.gaps
    (overlap,) = measured.overlaps[CUT_OFF]
    assert 8 * SECOND < overlap < 20 * SECOND
    assert measured.lost["1"] > 0 == measured.lost["all"]


def test_only_the_controller_sends_requests_and_only_the_other_design_uses_queues() -> None:
    without, with_controller = (run(one, ((1, 2, 3),), KILL).operations for one in DESIGNS)
    assert (without.control_requests, without.entries) == (0, 0)
    assert without.state_changes > 0 == with_controller.state_changes
    assert with_controller.control_requests > 0
    assert without.client_reads > 0 == with_controller.client_reads
    assert without.reads > with_controller.reads > 0
