"""The example of "Apache Kafka's life and death - failover mechanism" about consumers: offset 2 is
committed, offset 3 is on the leader alone, and the leader dies. refold elects the new one.

tests/lab/acks plays it on real brokers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from controller.core.configuration import Configuration
from replay.world.cluster import Cluster
from replay.world.inputs import CrashBroker, CutConnection
from replay.world.observer import AcknowledgedRecord, Name, Observer
from replay.world.scenario import BrokerSpec, ControllerSpec, Load, Scenario, TopicSpec

LEADER = "broker 1"
LEADER_ALONE_MS = 3_500
"""Offset 2 is written at 3,000 ms."""
RECONNECT_MS = 4_100
"""Offset 3 is written at 4,000 ms, with acks=1. Then the consumer asks for it, in a new session."""
CRASH_MS = 4_900
RETURN_MS = 15_000
ONLY_ON_LEADER = 3

SCENARIO = Scenario(
    brokers=(BrokerSpec(1), BrokerSpec(2), BrokerSpec(3)),
    broker_settings={"zookeeper.session.timeout.ms": "6000"},
    topics=(TopicSpec("t", ((1, 2, 3),), {"min.insync.replicas": "2"}),),
    controllers=(ControllerSpec(Configuration(broker_id=100)),),
    load=Load(acks=(1,), records_per_second=1),
    active_ms=25_000,
    quiet_ms=5_000,
)
INPUTS = (
    CutConnection(LEADER_ALONE_MS, LEADER, "broker 2", RETURN_MS),
    CutConnection(LEADER_ALONE_MS, LEADER, "broker 3", RETURN_MS),
    CutConnection(RECONNECT_MS, LEADER, "consumer 0", 0),
    CrashBroker(CRASH_MS, 1, restart_after_ms=RETURN_MS),
)


@dataclass
class RecordingObserver(Observer):
    """`logs`: the records of each broker by offset; `read` those that the consumer read, with the
    time; `at_crash`: the records that brokers had, and how many the consumer had read."""

    acknowledged_records: dict[int, int] = field(default_factory=dict)
    logs: dict[str, dict[int, int]] = field(default_factory=dict)
    at_crash: dict[str, list[int]] = field(default_factory=dict)
    read_before: int = -1
    reads: list[tuple[int, int]] = field(default_factory=list)
    leaders: list[int] = field(default_factory=list)
    high_watermark: int = -1
    went_back_to: list[int] = field(default_factory=list)

    def appended(
        self, process: str, partition: Name, offset: int, leader_epoch: int, records: Sequence[int]
    ) -> None:
        self.logs.setdefault(process, {}).update(enumerate(records, offset))

    def truncated(self, process: str, partition: Name, end: int, cause: str) -> None:
        kept = self.logs[process]
        self.logs[process] = {offset: one for offset, one in kept.items() if offset < end}

    def high_watermark_changed(self, process: str, partition: Name, offset: int) -> None:
        if process == LEADER and not self.at_crash:
            self.high_watermark = offset

    def ended(self, process: str, cause: str) -> None:
        if cause == "crash":
            self.at_crash = {name: list(one) for name, one in self.logs.items()}
            self.read_before = len(self.reads)

    def acknowledged(self, process: str, one: AcknowledgedRecord) -> None:
        self.acknowledged_records[one.record] = one.offset

    def read(
        self, process: str, partition: Name, offset: int, leader_epoch: int, records: Sequence[int]
    ) -> None:
        self.reads += enumerate(records, offset)

    def leader_changed(
        self, process: str, partition: Name, leader: int, leader_epoch: int, isr: Sequence[int]
    ) -> None:
        self.leaders.append(leader)

    def went_back(self, process: str, partition: Name, position: int, end: int) -> None:
        self.went_back_to.append(end)


@cache
def played() -> RecordingObserver:
    seen = RecordingObserver()
    Cluster(SCENARIO, INPUTS, seen).run()
    return seen


def test_record_on_the_leader_alone_is_acknowledged_and_not_committed() -> None:
    seen = played()
    assert seen.at_crash == {
        "broker 1": [0, 1, 2, 3],
        "broker 2": [0, 1, 2],
        "broker 3": [0, 1, 2],
    }
    assert seen.acknowledged_records[ONLY_ON_LEADER] == ONLY_ON_LEADER
    assert seen.high_watermark == ONLY_ON_LEADER


def test_consumer_does_not_read_beyond_the_committed_offset() -> None:
    seen = played()
    assert seen.reads[: seen.read_before] == [(0, 0), (1, 1), (2, 2)]


def test_consumer_continues_at_its_offset_after_the_leader_change() -> None:
    seen = played()
    assert seen.leaders[-1] == 2
    offsets = [offset for offset, _ in seen.reads]
    assert offsets == list(range(len(offsets)))
    assert len(offsets) > 2 * ONLY_ON_LEADER
    assert not seen.went_back_to
    # The record that was not committed is lost; another one has its offset.
    assert seen.reads[ONLY_ON_LEADER] == (ONLY_ON_LEADER, ONLY_ON_LEADER + 1)


def test_replicas_are_the_same_after_the_old_leader_returns() -> None:
    seen = played()
    first, second, third = (seen.logs[f"broker {number}"] for number in (1, 2, 3))
    assert first == second == third
    assert ONLY_ON_LEADER not in second.values()
    assert dict(seen.reads) == {offset: second[offset] for offset, _ in seen.reads}
