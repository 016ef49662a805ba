"""A whole cluster in virtual time."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from controller.core import znodes
from controller.core.configuration import Configuration
from replay.world.cluster import Cluster
from replay.world.inputs import (
    AllocateProducerIds,
    AlterUserScramCredentials,
    CancelReassignment,
    ChangeBrokerConfig,
    ChangeTopicConfig,
    ChangeZooKeeperLeader,
    CrashBroker,
    CrashController,
    CreatePartitions,
    CreateTopic,
    CredentialChange,
    CutConnection,
    Delay,
    DelayEphemeralDeletion,
    DeleteControllerZnode,
    DeleteStrays,
    DeleteTopic,
    DeleteZnode,
    ElectLeaders,
    EndCancellation,
    ExpireSession,
    FailLogDirectory,
    FeatureChange,
    HangZooKeeper,
    HoldLink,
    Input,
    KillController,
    LagZooKeeper,
    LoseReply,
    PauseProcess,
    Reassign,
    ShutDownController,
    SlowDisk,
    StartController,
    StopBroker,
    StopZooKeeperMember,
    Target,
    UpdateFeatures,
    WriteZnode,
)
from replay.world.network import Delivery
from replay.world.observer import AcknowledgedRecord, Name, Observer
from replay.world.scenario import (
    BrokerSpec,
    ControllerSpec,
    Load,
    Scenario,
    SlowReplica,
    TopicSpec,
)

PARTITIONS = 3
REFOLD = Configuration(broker_id=100, kip_236_enable=True)
STOCK = Configuration(broker_id=2, is_broker=True, rules="kafka")
TOPIC = TopicSpec(
    "a",
    tuple((1 + n % 3, 1 + (n + 1) % 3) for n in range(PARTITIONS)),
    {"min.insync.replicas": "1"},
)
SCENARIO = Scenario(
    brokers=(BrokerSpec(1), BrokerSpec(2), BrokerSpec(3)),
    topics=(TOPIC,),
    controllers=(
        ControllerSpec(REFOLD),
        ControllerSpec(STOCK, runs=False),
    ),
    broker_settings={"replica.lag.time.max.ms": "10000"},
    load=Load(acks=(-1,), records_per_second=3),
    active_ms=40_000,
    quiet_ms=50_000,
)
TARGET = (Target("a", 0, (3, 1)), Target("a", 1, (2, 1)))

ONE_OF_EACH: tuple[Input, ...] = (
    CrashBroker(12_000, 2, loses_unflushed=True),
    StopBroker(12_000, 1),
    FailLogDirectory(12_000, 1),
    PauseProcess(12_000, "broker 3", 20_000),
    PauseProcess(12_000, "refold 100", 12_000),
    SlowDisk(12_000, "broker 3", 500, 10_000),
    SlowDisk(12_000, "refold 100", 200, 10_000),
    ExpireSession(12_000, "broker 2"),
    ExpireSession(12_000, "refold 100"),
    LoseReply(0, "refold 100"),
    CutConnection(12_000, "broker 1", "broker 2", 15_000),
    CutConnection(12_000, "refold 100", "zookeeper", 15_000),
    HoldLink(12_000, "refold 100", "broker 1", 5_000),
    LagZooKeeper(5_000, "refold 100", 3, 10_000),
    HangZooKeeper(12_000, 8_000),
    ChangeZooKeeperLeader(12_000, 3_000),
    StopZooKeeperMember(12_000, 1, 5_000),
    DelayEphemeralDeletion(0, "broker 2", 4_000, 30_000),
    CrashController(0, "refold 100", 9),
    CrashController(0, "refold 100", 9, when="after", successor="stock 2"),
    KillController(12_000, "refold 100"),
    StartController(12_000, "stock 2"),
    ShutDownController(12_000, "refold 100", restart_after_ms=5_000),
    Delay(0, "refold 100>broker 1", 2, 3_000),
    CreateTopic(12_000, "b", ((1, 2), (3, 1))),
    CreateTopic(12_000, "b", ((1, 2), (3, 1)), route="znode"),
    CreateTopic(12_000, "b", ((1, 2),), {"min.insync.replicas": "2"}, route="znode_with_id"),
    DeleteTopic(12_000, "a"),
    DeleteTopic(12_000, "a", route="znode"),
    CreatePartitions(12_000, "a", ((1, 3),)),
    CreatePartitions(12_000, "a", ((1, 3),), route="znode"),
    CreatePartitions(12_000, "a", ((1, 3),), route="znode_without_id"),
    ChangeTopicConfig(12_000, "a", {"unclean.leader.election.enable": "true"}),
    ChangeBrokerConfig(12_000, None, {"unclean.leader.election.enable": "true"}),
    Reassign(12_000, TARGET),
    Reassign(12_000, TARGET, route="znode"),
    Reassign(12_000, TARGET, route="extra"),
    Reassign(12_000, TARGET, route="request"),
    Reassign(12_000, TARGET, route="legacy_request"),
    CancelReassignment(12_000),
    CancelReassignment(12_000, route="znode"),
    EndCancellation(12_000),
    DeleteStrays(12_000, 3, (("a", 0),)),
    ElectLeaders(12_000),
    ElectLeaders(12_000, (("a", 0),), "unclean"),
    ElectLeaders(12_000, (("a", 0), ("a", 1)), route="znode"),
    DeleteControllerZnode(12_000),
    WriteZnode(12_000, "/admin/reassign_partitions", "nonsense"),
    DeleteZnode(12_000, "/brokers/topics/a/partitions/0/state"),
    AllocateProducerIds(12_000, 1),
    AllocateProducerIds(12_000, 1, route="znode"),
    AlterUserScramCredentials(12_000, (CredentialChange("alice", "SCRAM-SHA-256", "secret"),)),
    UpdateFeatures(12_000, (FeatureChange("group.version", 0, "safe_downgrade"),)),
)
"""Each kind, and each route."""

RUINS_A_PARTITION = (DeleteZnode,)


class CountingObserver(Observer):
    """Counts what happens."""

    def __init__(self) -> None:
        self.inputs: list[Input] = []
        self.acknowledged_after_us: Counter[Name] = Counter()
        self.cluster: Cluster
        self.links: Counter[str] = Counter()

    def begins(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def input_applied(self, one: Input) -> None:
        self.inputs.append(one)

    def delivered(self, delivery: Delivery) -> None:
        self.links[delivery.link] += 1

    def acknowledged(self, process: str, one: AcknowledgedRecord) -> None:
        if self.cluster.is_quiet:
            self.acknowledged_after_us[one.name] += 1


def run(scenario: Scenario, *inputs: Input) -> tuple[Cluster, CountingObserver]:
    counting = CountingObserver()
    cluster = Cluster(scenario, inputs, counting)
    cluster.run()
    return cluster, counting


def data(cluster: Cluster, path: str) -> bytes | None:
    found = cluster.zookeeper.state.find(path)
    return found.data if found is not None else None


def partitions_of(cluster: Cluster, topic: str) -> dict[int, tuple[int, ...]]:
    content = data(cluster, znodes.topic_path(topic))
    if content is None:
        return {}
    return {
        number: one.replicas
        for number, one in znodes.read_topic(topic, content).assignments.items()
    }


def check_healthy(cluster: Cluster) -> None:
    """Every partition has a leader and a full ISR, and there is a controller."""
    assert data(cluster, znodes.CONTROLLER) is not None
    topics = [
        path.rpartition("/")[2] for path in cluster.zookeeper.state.dump() if znodes.topic_of(path)
    ]
    for topic in topics:
        for number, replicas in partitions_of(cluster, topic).items():
            path = znodes.state_path(topic, number)
            content = data(cluster, path)
            assert content is not None, path
            state = znodes.read_state(path, content, 0)
            assert state.leader in state.isr, (path, content)
            assert sorted(state.isr) == sorted(replicas), (path, content)


def test_cluster_without_inputs_serves_all_partitions() -> None:
    cluster, counting = run(SCENARIO)
    check_healthy(cluster)
    assert len(counting.acknowledged_after_us) == PARTITIONS
    assert len(cluster.controllers["refold 100"].histories) == 1


def test_cluster_of_stock_controllers_serves_all_partitions() -> None:
    controllers = tuple(
        ControllerSpec(Configuration(broker_id=number, is_broker=True, rules="kafka"))
        for number in (1, 2, 3)
    )
    scenario = Scenario(
        brokers=SCENARIO.brokers,
        topics=(TOPIC,),
        controllers=controllers,
        active_ms=30_000,
        broker_settings=SCENARIO.broker_settings,
    )
    cluster, counting = run(scenario, CrashBroker(12_000, 1), CrashBroker(13_000, 2))
    check_healthy(cluster)
    assert len(counting.acknowledged_after_us) == PARTITIONS


@pytest.mark.parametrize("one", ONE_OF_EACH, ids=lambda one: str(one)[:70])
def test_cluster_survives_each_input(one: Input) -> None:
    cluster, counting = run(SCENARIO, one)
    assert isinstance(one, Delay) or counting.inputs == [one]
    if isinstance(one, RUINS_A_PARTITION):
        return
    check_healthy(cluster)
    if not isinstance(one, DeleteTopic):
        assert len(counting.acknowledged_after_us) >= PARTITIONS


def test_each_kind_of_input_is_tried() -> None:
    assert {type(one) for one in ONE_OF_EACH} == set(get_args(Input))


def test_reassignment_ends_at_its_target() -> None:
    for route in ("api", "znode", "extra", "request"):
        cluster, _ = run(SCENARIO, Reassign(12_000, TARGET, route=route))
        found = partitions_of(cluster, "a")
        assert [found[0], found[1]] == [one.replicas for one in TARGET], route


def test_topic_is_deleted_by_either_route() -> None:
    for route in ("api", "znode"):
        cluster, _ = run(SCENARIO, DeleteTopic(12_000, "a", route=route))
        assert partitions_of(cluster, "a") == {}


def test_partitions_are_created_by_request() -> None:
    cluster, counting = run(SCENARIO, CreatePartitions(12_000, "a", ((1, 3),)))
    assert partitions_of(cluster, "a")[PARTITIONS] == (1, 3)
    assert ("a", PARTITIONS) in counting.acknowledged_after_us


def test_successor_takes_the_role() -> None:
    crash = CrashController(0, "refold 100", 9, when="after", successor="stock 2")
    cluster, _ = run(SCENARIO, crash)
    content = data(cluster, znodes.CONTROLLER)
    controller = znodes.read_controller(content)
    assert controller is not None
    assert controller.brokerid == 2
    assert not cluster.controllers["refold 100"].is_running


def test_controller_without_a_successor_stays_down() -> None:
    cluster, _ = run(SCENARIO, CrashController(0, "refold 100", 9, successor="none"))
    assert data(cluster, znodes.CONTROLLER) is None


def test_crash_of_a_stock_controller_is_that_of_its_broker() -> None:
    scenario = Scenario(
        brokers=SCENARIO.brokers,
        topics=(TOPIC,),
        controllers=(ControllerSpec(STOCK),),
        active_ms=30_000,
        broker_settings=SCENARIO.broker_settings,
    )
    cluster, _ = run(scenario, CrashController(10_000, "stock 2", 1))
    cluster_before, _ = run(scenario)
    assert data(cluster_before, znodes.CONTROLLER_EPOCH) == b"1"
    # No act follows without a further fault.
    assert data(cluster, znodes.CONTROLLER_EPOCH) == b"1"
    cluster, _ = run(
        scenario, CrashController(10_000, "stock 2", 1), ExpireSession(12_000, "broker 1")
    )
    assert data(cluster, znodes.CONTROLLER_EPOCH) == b"2"
    check_healthy(cluster)


def test_faults_end_when_the_quiet_part_begins() -> None:
    faults = (
        PauseProcess(39_000, "broker 1", 500_000),
        CutConnection(39_000, "broker 2", "zookeeper", 500_000),
        HoldLink(39_000, "broker 3", "zookeeper", 500_000),
        CrashBroker(39_500, 2, restart_after_ms=500_000),
        HangZooKeeper(39_500, 500_000),
    )
    cluster, _ = run(SCENARIO, *faults)
    check_healthy(cluster)


def test_delayed_message_arrives_later() -> None:
    times: list[tuple[int, int]] = []

    class Watching(Observer):
        def delivered(self, delivery: Delivery) -> None:
            if delivery.link == "refold 100>broker 1" and delivery.number == 2:
                times.append((delivery.number, delivery.at_us))

    for inputs in ((), (Delay(0, "refold 100>broker 1", 2, 3_000),)):
        Cluster(SCENARIO, inputs, Watching()).run()
    (_, first), (_, second) = times
    assert second == first + 3_000_000


ALL = tuple(one for one in ONE_OF_EACH if not isinstance(one, RUINS_A_PARTITION))


def digest_of_all() -> str:
    """The digest of one run with all inputs."""
    cluster, _ = run(SCENARIO, *ALL)
    return cluster.digest()


def test_runs_are_the_same_with_any_hash_seed() -> None:
    code = "from tests.replay.world.test_cluster import digest_of_all; print(digest_of_all())"
    root = Path(__file__).parents[3]
    digests = []
    for seed in ("1", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        digests.append(done.stdout.strip())
    assert digests == [digest_of_all()] * 2


def test_slow_replica_leaves_the_isr_and_joins_it_again() -> None:
    scenario = Scenario(
        brokers=(BrokerSpec(1), BrokerSpec(2)),
        broker_settings={"replica.lag.time.max.ms": "2000"},
        topics=(TopicSpec("a", ((1, 2), (1, 2))),),
        slow_replicas=(SlowReplica(2, "a", 0, 5_000, 12_000),),
        controllers=(ControllerSpec(REFOLD),),
        active_ms=20_000,
        quiet_ms=0,
    )
    cluster = Cluster(scenario)

    def isr(partition: int) -> tuple[int, ...]:
        path = znodes.state_path("a", partition)
        found = cluster.zookeeper.state.find(path)
        assert found is not None
        return znodes.read_state(path, found.data, found.version).isr

    cluster.scheduler.run_until(11_000_000)
    assert (isr(0), isr(1)) == ((1,), (1, 2))
    cluster.run()
    assert isr(0) == (1, 2)


def test_leader_serves_only_when_its_port_accepts() -> None:
    """Its registration is in ZooKeeper before that, and the controller elects it."""
    scenario = Scenario(
        brokers=(BrokerSpec(1, accepts_after_ms=9_000),),
        topics=(TopicSpec("a", ((1,),)),),
        controllers=(ControllerSpec(REFOLD),),
        load=Load(acks=(-1,)),
        active_ms=20_000,
        quiet_ms=0,
    )
    acknowledged: list[AcknowledgedRecord] = []

    class Acknowledging(Observer):
        def acknowledged(self, process: str, one: AcknowledgedRecord) -> None:
            acknowledged.append(one)

    cluster = Cluster(scenario, (), Acknowledging())
    cluster.scheduler.run_until(8_000_000)
    path = znodes.state_path("a", 0)
    state = cluster.zookeeper.state.find(path)
    assert state is not None
    assert znodes.read_state(path, state.data, state.version).leader == 1
    assert not acknowledged
    cluster.run()
    assert acknowledged
