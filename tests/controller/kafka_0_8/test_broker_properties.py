"""What holds in every run of a cluster of the 0.8 design, whatever happens to it."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.kafka_0_8.admin import AdminError
from controller.kafka_0_8.state import Name, Partition
from replay.world.kafka_0_8.broker_process import BrokerProcess
from replay.world.kafka_0_8.cluster import Cluster08
from tests.controller.kafka_0_8.clusters import T, cluster

BROKERS = (1, 2, 3, 4)
U: Name = ("u", 0)

brokers = st.sampled_from(BROKERS)
names = st.sampled_from([T, U])
replicas = st.permutations(BROKERS).flatmap(
    lambda order: st.integers(1, 3).map(lambda count: tuple(order[:count]))
)
times = st.integers(1, 3000)
harmless = st.one_of(
    st.tuples(st.just("run"), times),
    st.tuples(st.just("produce"), brokers, names, st.sampled_from([0, 1, -1])),
    st.tuples(st.just("cut"), brokers, brokers),
    st.tuples(st.just("join"), brokers, brokers),
    st.tuples(st.just("lose"), brokers),
)
faults = st.one_of(
    harmless,
    st.tuples(st.just("stop"), brokers, st.booleans()),
    st.tuples(st.just("start"), brokers),
    st.tuples(st.just("expire"), brokers),
    st.tuples(st.just("silence"), brokers),
    st.tuples(st.just("reassign"), names, replicas),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("create"), names, replicas),
)


def attempt(command: Callable[[], None]) -> None:
    """An admin command, which may be refused."""
    try:
        command()
    except AdminError:
        return


def act(found: Cluster08, step: tuple) -> None:
    """One step of a run."""
    what, *details = step
    match what:
        case "run":
            found.run(details[0])
        case "produce":
            found.produce(details[0], details[1], ["r"], details[2])
        case "cut" | "join":
            pair = tuple(sorted(details))
            if what == "cut" and pair[0] != pair[1]:
                found.cut[pair] = None
            else:
                found.cut.pop(pair, None)
        case "lose":
            if found.brokers[details[0]].is_running:
                found.lose_connection(details[0])
        case "stop":
            found.stop(details[0], session_ends=details[1])
        case "start":
            process = found.brokers[details[0]]
            if not process.is_running:
                if found.zookeeper.is_live(process.session):
                    found.zookeeper.end_session(process.session)
                found.start(details[0])
        case "expire":
            if details[0] in found.silent:
                found.learn_of_expiry(details[0])
            elif found.brokers[details[0]].is_running:
                found.end_session(details[0])
        case "silence":
            if found.brokers[details[0]].is_running and details[0] not in found.silent:
                found.silent[details[0]] = None
                found.end_session(details[0])
        case "reassign":
            attempt(lambda: found.reassign(*details))
        case "delete":
            attempt(lambda: found.delete_topic(details[0][0]))
        case "create":
            attempt(lambda: found.create_topic(details[0][0], {0: details[1]}))


class Monitor:
    """Checks the invariants after each event of a broker."""

    def __init__(self, found: Cluster08, *, with_disks: bool) -> None:
        self._cluster = found
        self._with_disks = with_disks
        self._leaders: dict[int, tuple[int, int, Name]] = {}
        self._hws: dict[tuple[int, int, Name, int], int] = {}
        found.after_event = self.check

    def check(self, process: BrokerProcess) -> None:
        for partition in process.fold.broker.partitions.values():
            assert partition.local.hw >= 0
            if partition.is_leader:
                self._check_sets(partition)
                self._check_leadership(process, partition)

    def _check_sets(self, partition: Partition) -> None:
        ar, isr, cur = set(partition.ar), set(partition.isr), set(partition.cur)
        assert ar == isr | cur
        assert not isr & cur
        assert partition.local.broker_id in isr
        assert set(partition.joining) <= cur

    def _check_leadership(self, process: BrokerProcess, partition: Partition) -> None:
        leader = (process.id, len(process.runs), partition.name)
        assert self._leaders.setdefault(partition.epoch, leader) == leader
        key = (*leader, partition.epoch)
        hw, before = partition.local.hw, self._hws.get(key)
        self._hws[key] = hw
        if before is None or hw == before:
            return
        assert hw > before
        members = (*partition.isr, *partition.joining)
        assert hw <= min(partition.ar[one].leo for one in members)
        if self._with_disks and process.id not in self._cluster.silent:
            for one in members:
                log = self._cluster.brokers[one].logs.get(partition.name, [])
                assert hw <= len(log)


def played(steps: list[tuple], *, with_disks: bool) -> Cluster08:
    """A run of a cluster of four brokers with two topics, and time to settle at the end."""
    found = cluster(*BROKERS, checkpoint_interval_ms=700)
    found.create_topic("t", {0: (1, 2, 3)})
    found.create_topic("u", {0: (3, 4)})
    Monitor(found, with_disks=with_disks)
    found.start(*BROKERS)
    found.run(1500)
    for step in steps:
        act(found, step)
        found.run(5)
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(faults, max_size=25))
def test_invariants_hold_under_all_faults(steps: list[tuple]) -> None:
    """AR = ISR + CUR, at most one leader in an epoch, and a high watermark that never goes back in
    a leadership and never passes what the leader knows of the ISR."""
    played(steps, with_disks=False)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(harmless, max_size=40))
def test_every_member_of_the_isr_has_the_committed_records(steps: list[tuple]) -> None:
    """While no broker restarts; with restarts, the design has a flaw (docs/design-0.8.md#flaws)."""
    found = played(steps, with_disks=True)
    found.cut = {}
    found.run(10_000)
    for name, count in ((T, 3), (U, 2)):
        logs = [one.logs[name] for one in found.brokers.values() if name in one.logs]
        assert len(logs) == count
        assert all(one == logs[0] for one in logs)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(faults, max_size=25))
def test_every_partition_has_a_leader_when_the_faults_are_over(steps: list[tuple]) -> None:
    found = played(steps, with_disks=False)
    found.cut = {}
    for broker in BROKERS:
        process = found.brokers[broker]
        if broker in found.silent:
            found.learn_of_expiry(broker)
        if not process.is_running:
            if found.zookeeper.is_live(process.session):
                found.zookeeper.end_session(process.session)
            found.start(broker)
    found.run(30_000)
    for topic in found.children("/brokers/topics"):
        leader = found.data(f"/brokers/topics/{topic}/0/leader")
        assert leader is not None
        process = found.brokers[int(leader.split(";")[0])]
        assert process.fold.broker.partitions[topic, 0].is_leader
        replicas = found.data(f"/brokers/topics/{topic}/0/replicas")
        isr = found.data(f"/brokers/topics/{topic}/0/ISR").split(";")[0]
        assert sorted(isr.split(",")) == sorted(replicas.split(","))
        assert found.data(f"/brokers/partitions_reassigned/{topic}/0") is None
    for broker in BROKERS:
        assert found.children(f"/brokers/state/{broker}") == []


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(faults, max_size=20))
def test_same_steps_lead_to_the_same_histories(steps: list[tuple]) -> None:
    first, second = (played(steps, with_disks=False) for _ in range(2))
    for broker in BROKERS:
        assert first.brokers[broker].runs == second.brokers[broker].runs


@pytest.mark.parametrize("broker", BROKERS)
def test_rejected_steps_leave_a_usable_cluster(broker: int) -> None:
    found = played(
        [("stop", broker, True), ("delete", T), ("create", T, (broker,))], with_disks=False
    )
    found.start(broker)
    found.run(3000)
    assert found.data("/brokers/topics/t/0/leader").startswith(f"{broker};")
