"""Brokers of the 0.8 design with the network, ZooKeeper and clients of the controller's world."""

from collections.abc import Sequence

import pytest

from replay.world.inputs import (
    CrashBroker,
    CutConnection,
    ExpireSession,
    FailLogDirectory,
    HoldLink,
    Input,
    PauseProcess,
    SlowDisk,
    StopBroker,
)
from replay.world.kafka_0_8.networked.cluster import NetworkedCluster
from replay.world.observer import AcknowledgedRecord, Name, Observer
from replay.world.scenario import BrokerSpec, Load, Scenario, TopicSpec
from replay.world.scheduler import SECOND

T = ("t", 0)


class RecordingObserver(Observer):
    """The leaders over time, and the clients' knowledge of them."""

    def __init__(self) -> None:
        self.leaders: list[tuple[float, int]] = []
        self.acknowledged_: dict[int, list[int]] = {}
        self.read_: list[int] = []
        self.ends: list[str] = []

    def begins(self, cluster: NetworkedCluster) -> None:
        self._scheduler = cluster.scheduler

    def leader_changed(
        self, process: str, partition: Name, leader: int, leader_epoch: int, isr: Sequence[int]
    ) -> None:
        self.leaders.append((self._scheduler.now_us / SECOND, leader))

    def acknowledged(self, process: str, one: AcknowledgedRecord) -> None:
        self.acknowledged_.setdefault(one.acks, []).append(one.record)

    def read(
        self, process: str, partition: Name, offset: int, leader_epoch: int, records: Sequence[int]
    ) -> None:
        self.read_ += records

    def ended(self, process: str, cause: str) -> None:
        self.ends.append(cause)


def run(*inputs: Input, end_s: int = 60) -> tuple[NetworkedCluster, RecordingObserver]:
    scenario = Scenario(
        zookeeper="3.5",
        brokers=tuple(map(BrokerSpec, (1, 2, 3))),
        broker_settings={
            "replica.lag.time.max.ms": "10000",
            "zookeeper.session.timeout.ms": "6000",
        },
        topics=(TopicSpec("t", ((1, 2, 3),)),),
        controllers=(),
        load=Load((0, 1, -1), 30),
        active_ms=end_s * 1000,
        quiet_ms=5000,
    )
    seen = RecordingObserver()
    cluster = NetworkedCluster(scenario, inputs, seen)
    cluster.scheduler.call_at(
        end_s * SECOND, lambda: [one.stop() for one in cluster.clients.producers]
    )
    while cluster.step():
        pass
    return cluster, seen


def test_clients_find_the_leader_and_replicas_become_equal() -> None:
    cluster, seen = run(end_s=10)
    assert [leader for _, leader in seen.leaders] == [1]
    logs = [broker.records(T) for broker in cluster.brokers.values()]
    assert logs[0] == logs[1] == logs[2]
    assert set(seen.acknowledged_[1]) | set(seen.acknowledged_[-1]) <= set(logs[0])
    assert seen.read_ == logs[0][: len(seen.read_)]
    assert len(seen.read_) > 200


def test_same_inputs_make_the_same_run() -> None:
    histories = [
        [one.store.runs for one in run(CrashBroker(20_000, 1), end_s=30)[0].brokers.values()]
        for _ in range(2)
    ]
    assert histories[0] == histories[1]


def test_after_a_crash_another_replica_leads_once_session_and_wait_are_over() -> None:
    cluster, seen = run(CrashBroker(20_000, 1, restart_after_ms=None))
    (_, first), (at_s, second) = seen.leaders
    assert (first, second) == (1, 2)
    assert 20 + 4 + 1 < at_s < 20 + 8 + 1.1
    kept = set(cluster.brokers[2].records(T))
    assert set(seen.acknowledged_[-1]) <= kept
    assert not cluster.brokers[1].is_running
    assert cluster.brokers[2].leads(T)
    assert not cluster.brokers[1].leads(T)


def test_stopped_broker_closes_its_session_and_starts_again() -> None:
    cluster, seen = run(StopBroker(20_000, 1, restart_after_ms=3_000))
    assert seen.ends == ["shutdown"]
    assert seen.leaders[-1][1] == 2
    assert seen.leaders[-1][0] < 21.1
    assert cluster.brokers[1].is_running
    assert cluster.brokers[1].records(T) == cluster.brokers[2].records(T)


def test_expired_leader_elects_itself_again() -> None:
    _, seen = run(ExpireSession(20_000, "broker 1"), end_s=25)
    assert [leader for _, leader in seen.leaders] == [1, -1, 1]


def test_leader_without_zookeeper_goes_on_until_a_server_ends_its_session() -> None:
    _, seen = run(CutConnection(20_000, "broker 1", "zookeeper", 20_000))
    after = [(at_s, leader) for at_s, leader in seen.leaders if at_s > 20]
    (elected_s, new), (learned_s, none) = after
    assert (new, none) == (2, -1)
    assert elected_s < 30
    assert 40 < learned_s < 42


def test_fetch_that_gets_no_response_does_not_stop_a_follower() -> None:
    cluster, _ = run(HoldLink(20_000, "broker 1", "broker 2", 5_000), end_s=40)
    assert cluster.brokers[1].records(T) == cluster.brokers[2].records(T)


def test_paused_leader_steps_down_when_it_goes_on() -> None:
    cluster, seen = run(PauseProcess(20_000, "broker 1", 15_000))
    assert [leader for _, leader in seen.leaders] == [1, 2, -1]
    assert set(seen.acknowledged_[-1]) <= set(cluster.brokers[2].records(T))


@pytest.mark.parametrize("fault", [FailLogDirectory(20_000, 1), SlowDisk(20_000, "broker 1", 9, 9)])
def test_faults_that_are_not_modelled_are_refused(fault: Input) -> None:
    with pytest.raises(NotImplementedError):
        run(fault, end_s=25)
