"""No acknowledged record is lost while leaders are elected from the ISR and disks lose nothing."""

from collections.abc import Sequence
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.api_requests import ApiRequest, ApiResponse
from controller.core.api_requests.alter_partition import (
    AlteredPartition,
    AlterPartitionReceived,
    AlterPartitionResponse,
)
from controller.core.operations import Create, SetData
from controller.core.values import ANY_VERSION, LeaderAndIsr
from replay.world.observer import Name
from tests.replay.world.broker.manual_cluster import T0, ManualCluster, RecordingObserver

BROKERS: Final = (1, 2, 3)
_PATH: Final = znodes.state_path(*T0)
Act = tuple[str, int, int]

acts = st.lists(
    st.tuples(
        st.sampled_from(["crash", "pause", "resume", "cut", "heal", "elect", "hold", "run"]),
        st.sampled_from(BROKERS),
        st.sampled_from([1, 3, 20, 45]),
    ),
    max_size=15,
)


class CommittedRecords(RecordingObserver):
    """The records below the highest high watermark of any broker. No truncation may remove them."""

    def __init__(self) -> None:
        super().__init__()
        self.committed: list[tuple[int, int]] = []
        self.logs: dict[str, list[tuple[int, int]]] = {}

    def appended(
        self, process: str, partition: Name, offset: int, leader_epoch: int, records: Sequence[int]
    ) -> None:
        log = self.logs.setdefault(process, [])
        assert len(log) == offset
        # A record that was sent again may be at the same offset, in another leader epoch.
        log.extend((leader_epoch, record) for record in records)

    def high_watermark_changed(self, process: str, partition: Name, offset: int) -> None:
        log, known = self.logs[process], len(self.committed)
        assert len(log) >= offset
        self.committed += log[known:offset]
        assert self.committed[:offset][-20:] == log[:offset][-20:]

    def truncated(self, process: str, partition: Name, end: int, cause: str) -> None:
        removed = zip(self.logs[process][end:], self.committed[end:], strict=False)
        assert all(one != committed for one, committed in removed)
        del self.logs[process][end:]


class CarefulCluster(ManualCluster):
    """A controller that elects only members of the ISR that run, and that checks AlterPartition."""

    def __init__(self, protocol: str) -> None:
        super().__init__(protocol=protocol)
        self.state = LeaderAndIsr(1, 0, BROKERS, 0, 1)
        self.paused: dict[int, None] = {}

    def seen_by(self) -> RecordingObserver:
        return CommittedRecords()

    def accept(self, request: ApiRequest) -> ApiResponse:
        assert isinstance(request, AlterPartitionReceived)
        (asked,) = request.partitions
        state, error = self.state, codes.NONE
        if asked.leader_epoch < state.leader_epoch or request.broker != state.leader:
            error = codes.FENCED_LEADER_EPOCH
        elif asked.partition_epoch != state.partition_epoch:
            error = codes.INVALID_UPDATE_VERSION
        elif not all(self.brokers[one].is_running for one in asked.isr):
            error = codes.INELIGIBLE_REPLICA
        else:
            self.state = LeaderAndIsr(
                state.leader, state.leader_epoch, asked.isr, state.partition_epoch + 1, 1
            )
        state = self.state
        altered = AlteredPartition(
            "t",
            self.topic_id,
            0,
            error,
            state.leader,
            state.leader_epoch,
            state.isr,
            0,
            state.partition_epoch,
        )
        return AlterPartitionResponse(0, 0, (altered,))

    def elect(self, preferred: int) -> None:
        """Choose another leader, and inform the brokers that run."""
        live = [one for one in BROKERS if self.brokers[one].is_running]
        if not self.protocol.has_alter_partition:
            node = self.zookeeper.state.find(_PATH)
            assert node is not None
            self.state = znodes.read_state(_PATH, node.data, node.version)
        isr = tuple(one for one in self.state.isr if one in live) or self.state.isr
        usable = [one for one in isr if one in live]
        leader = preferred if preferred in usable else (usable or [-1])[0]
        epoch, version = self.state.leader_epoch + 1, self.state.partition_epoch + 1
        self.state = LeaderAndIsr(leader, epoch, isr, version, 1)
        self.states[T0] = self.state
        self.write_state()
        reachable = [
            one
            for one in live
            if one not in self.paused and f"broker {one}" in self.network.listeners()
        ]
        if reachable:
            self.update_metadata(*reachable, live=live)
            # Brokers that are paused or start up do not hear of it until the next election.
            self.lead(leader, epoch, isr, to=reachable, version=version)

    def write_state(self) -> None:
        tree, data = self.zookeeper.state, znodes.write_state(self.state)
        session = tree.create_session()
        if tree.find(_PATH) is None:
            topic = znodes.topic_path("t")
            for path in (topic, f"{topic}/partitions", f"{topic}/partitions/0", _PATH):
                tree.apply(session, Create(path, data), 0)
        else:
            tree.apply(session, SetData(_PATH, data, ANY_VERSION), 0)

    def act(self, kind: str, broker: int, amount: int) -> None:
        subject, other = f"broker {broker}", f"broker {broker % 3 + 1}"
        match kind:
            case "crash":
                self.brokers[broker].crash(restart_after_us=amount * 1_000_000)
                self.paused.pop(broker, None)
            case "pause":
                self.brokers[broker].pause()
                self.paused[broker] = None
            case "resume":
                self.brokers[broker].resume()
                self.paused.pop(broker, None)
            case "cut":
                self.network.cut(subject, other)
            case "heal":
                self.network.heal(subject, other)
                self.network.release(subject, other)
            case "hold":
                self.network.hold_messages(subject, other)
            case "elect":
                self.elect(broker)
        self.run(amount / 2 if kind == "run" else 0.3)


def check(protocol: str, todo: list[Act]) -> None:
    cluster = CarefulCluster(protocol).start()
    cluster.states[T0] = cluster.state
    cluster.write_state()
    cluster.lead(1, 0, version=0)
    cluster.producer(rate=5)
    cluster.run(2)
    for one in todo:
        cluster.act(*one)
    for broker in BROKERS:
        cluster.act("resume", broker, 0)
        cluster.act("heal", broker, 0)
    cluster.run(50)
    cluster.elect(1)
    cluster.run(20)
    cluster.elect(2)
    cluster.run(10)
    leader = cluster.state.leader
    records = cluster.records(leader)
    for record, offset, _ in cluster.seen.acknowledged_records:
        assert records[offset] == record
    last = cluster.seen.acknowledged_records[-1][0]
    assert last >= cluster.seen.produced_records - 60


@settings(max_examples=25, deadline=None)
@given(acts)
def test_acknowledged_records_survive_clean_elections(todo: list[Act]) -> None:
    check("3.9", todo)


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(acts)
def test_acknowledged_records_survive_clean_elections_of_older_brokers(todo: list[Act]) -> None:
    """Older brokers write the ISR to ZooKeeper, and ask for leader epochs before they fetch."""
    check("2.6", todo)
