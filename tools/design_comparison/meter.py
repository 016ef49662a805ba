"""The measurements in a run of either design.

A broker *accepts* the records of a partition if its process runs and it believes to be the leader.
A partition without such a broker is unavailable; one with two has two leaders.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field

from controller.core.commands import BrokerRequest, LeaderAndIsrRequest
from controller.core.operations import OK, Check, Create, CreateSequential, Delete, SetData
from controller.kafka_0_8 import znodes
from replay.names import broker_name
from replay.world.cluster import Cluster
from replay.world.ensemble.protocol import RequestPacket
from replay.world.inputs import Input
from replay.world.kafka_0_8.networked.cluster import NetworkedCluster
from replay.world.observer import AcknowledgedRecord, Name, Observer, PartitionError
from replay.world.processes import id_in
from replay.world.requests import (
    AddWatch,
    Exists,
    GetChildren,
    GetData,
    Multi,
    Reply,
    Write,
)
from replay.world.scheduler import MS, SECOND
from tools.design_comparison.scenarios import FIRST_FAULT_MS, kind_of

AnyCluster = Cluster | NetworkedCluster

_NAMES_OF_ACKS: Final = {0: "0", 1: "1", -1: "all"}


class Operations(Struct):
    """Operations of ZooKeeper, and requests.

    - `reads`: znodes and lists of children that were read
    - `transactions`: also those that were refused; `refused` are these, and `outdated` those of
      them that a leader wrote after another leader was elected (I-03)
    - `writes`: znodes that were created, changed or deleted; not those of ended sessions
    - `watches`, `events`: watches that were set, and their events
    - `client_reads`: the reads for metadata requests of clients; not in `reads`
    - `control_requests`, `entries`: requests of controllers to brokers, and the partitions in the
      LeaderAndIsr requests
    - `state_changes`: requests in the queues of brokers
    """

    reads: int = 0
    transactions: int = 0
    refused: int = 0
    outdated: int = 0
    writes: int = 0
    watches: int = 0
    events: int = 0
    client_reads: int = 0
    control_requests: int = 0
    entries: int = 0
    state_changes: int = 0

    def add(self, other: "Operations") -> None:
        """Add those of another run."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Measurements(Struct):
    """The measurements of some runs. Times are in microseconds.

    - `observed_us`: the sum over all partitions of the time in which windows count
    - `gaps`: by kind of fault, how long a partition was unavailable each time
    - `commit_gaps`: the same until the first record with acks all was acknowledged
    - `overlaps`: by kind of fault, how long a partition had two leaders each time
    - `sent`, `acknowledged`, `lost`: records by acks. With acks 0, sending is the acknowledgement
    - `read_lost`: records that the consumer has read, and that the last leader does not have
    - `leaderless`: partitions without a leader at the end; their records are not in `lost`
    """

    runs: int = 0
    partitions: int = 0
    observed_us: int = 0
    gaps: dict[str, list[int]] = field(default_factory=dict)
    commit_gaps: dict[str, list[int]] = field(default_factory=dict)
    overlaps: dict[str, list[int]] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)
    acknowledged: dict[str, int] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    read_lost: int = 0
    leaderless: int = 0
    operations: Operations = field(default_factory=Operations)

    def add(self, other: "Measurements") -> None:
        """Add the measurements of other runs."""
        for name in ("runs", "partitions", "observed_us", "read_lost", "leaderless"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("gaps", "commit_gaps", "overlaps"):
            here: dict[str, list[int]] = getattr(self, name)
            for kind, times in getattr(other, name).items():
                here.setdefault(kind, []).extend(times)
        for name in ("sent", "acknowledged", "lost"):
            counts: dict[str, int] = getattr(self, name)
            for acks, count in getattr(other, name).items():
                counts[acks] = counts.get(acks, 0) + count
        self.operations.add(other.operations)


class _Failed:
    """A partition whose leader has failed, until a record with acks all is acknowledged again."""

    def __init__(self, at_us: int, kind: str, epoch: int) -> None:
        self.at_us = at_us
        self.kind = kind
        self.epoch = epoch


class _Partition:
    """The brokers that accept a partition's records, each with its leader epoch."""

    def __init__(self) -> None:
        self.accepting: dict[str, int] = {}
        self.epoch = -1
        self.empty_since: tuple[int, str] | None = None
        self.two_since: tuple[int, str] | None = None
        self.failed: _Failed | None = None


class Meter(Observer):
    """Measures one run. Call `finish` at its end."""

    def __init__(self) -> None:
        self.measured = Measurements(runs=1)
        self.operations_since_us = 0
        """Operations before are not counted."""
        self.accepted_us = 0
        """When a broker last began to accept a partition's records."""
        self._kind = ""
        self._partitions: dict[Name, _Partition] = {}
        self._records: dict[Name, dict[str, list[int]]] = {}
        self._read: dict[Name, list[int]] = {}

    def begins(self, cluster: AnyCluster) -> None:
        self._cluster = cluster
        self._scheduler = cluster.scheduler
        for topic in cluster.scenario.topics:
            for number in range(len(topic.assignment)):
                self._partitions[topic.name, number] = _Partition()
        self.measured.partitions = len(self._partitions)
        load = cluster.scenario.load
        self._acks = load.acks if load else ()
        cluster.zookeeper.on_answer = self._count_request
        cluster.zookeeper.on_watch_event = self._watch_fired

    def input_applied(self, one: Input) -> None:
        if one.at_ms >= FIRST_FAULT_MS:
            self._kind = kind_of(one)

    # Leaders

    def leader_changed(
        self, process: str, partition: Name, leader: int, leader_epoch: int, isr: Sequence[int]
    ) -> None:
        if leader >= 0 and broker_name(leader) == process:
            self._set_accepting(process, partition, leader_epoch)
        else:
            self._set_accepting(process, partition, None)

    def replica_stopped(self, process: str, partition: Name) -> None:
        self._set_accepting(process, partition, None)

    def ended(self, process: str, cause: str) -> None:
        for name, one in self._partitions.items():
            if process in one.accepting:
                self._set_accepting(process, name, None)

    def _set_accepting(self, process: str, name: Name, epoch: int | None) -> None:
        """A broker accepts records from now on, or no longer (None)."""
        one = self._partitions[name]
        if epoch is None:
            one.accepting.pop(process, None)
        else:
            if process not in one.accepting:
                self.accepted_us = self._scheduler.now_us
            one.accepting[process] = epoch
            one.epoch = max(one.epoch, epoch)
        now = (self._scheduler.now_us, self._kind)
        if not self._kind:
            return
        count = len(one.accepting)
        if count == 0 and one.empty_since is None:
            one.empty_since = now
            one.failed = one.failed or _Failed(*now, one.epoch)
        elif count:
            self._end_gap(one)
        if count > 1 and one.two_since is None:
            one.two_since = now
        elif count < 2:
            self._end_overlap(one)

    def _end_gap(self, one: _Partition) -> None:
        if one.empty_since is not None:
            self._add(self.measured.gaps, one.empty_since)
            one.empty_since = None

    def _end_overlap(self, one: _Partition) -> None:
        if one.two_since is not None:
            self._add(self.measured.overlaps, one.two_since)
            one.two_since = None

    def _add(self, windows: dict[str, list[int]], since: tuple[int, str]) -> None:
        """A window ends. Two brokers that change at the same moment are no window."""
        since_us, kind = since
        if since_us < self._scheduler.now_us:
            windows.setdefault(kind, []).append(self._scheduler.now_us - since_us)

    # Records

    def produced(self, process: str, partition: Name, record: int) -> None:
        acks = self._acks[id_in(process)]
        sent = self.measured.sent
        sent[_NAMES_OF_ACKS[acks]] = sent.get(_NAMES_OF_ACKS[acks], 0) + 1

    def acknowledged(self, process: str, one: AcknowledgedRecord) -> None:
        by_acks = self._records.setdefault(one.name, {})
        by_acks.setdefault(_NAMES_OF_ACKS[one.acks], []).append(one.record)
        partition = self._partitions[one.name]
        failed = partition.failed
        if one.acks == -1 and failed is not None and one.leader_epoch > failed.epoch:
            waited_us = self._scheduler.now_us - failed.at_us
            self.measured.commit_gaps.setdefault(failed.kind, []).append(waited_us)
            partition.failed = None

    def read(
        self, process: str, partition: Name, offset: int, leader_epoch: int, records: Sequence[int]
    ) -> None:
        self._read.setdefault(partition, []).extend(records)

    # Operations

    @property
    def _counts(self) -> bool:
        return self._scheduler.now_us >= self.operations_since_us

    def _count_request(self, process: str, asked: RequestPacket, reply: Reply) -> None:
        if not self._counts:
            return
        operations, request = self.measured.operations, asked.request
        match request:
            case GetData(watch=watch) | Exists(watch=watch) | GetChildren(watch=watch):
                operations.reads += 1
                operations.watches += watch
            case AddWatch():
                operations.watches += 1
            case Multi() | Create() | CreateSequential() | SetData() | Delete():
                self._count_writes(request, reply)

    def _count_writes(self, request: Multi | Write, reply: Reply) -> None:
        operations = self.measured.operations
        operations.transactions += 1
        writes = request.operations if isinstance(request, Multi) else (request,)
        if any(one.error != OK for one in reply.results):
            operations.refused += 1
            operations.outdated += isinstance(writes[0], Check) and writes[0].path == znodes.EPOCH
            return
        operations.writes += sum(not isinstance(one, Check) for one in writes)
        operations.state_changes += sum(
            isinstance(one, CreateSequential) and one.path.startswith(f"{znodes.STATE}/")
            for one in writes
        )

    def _watch_fired(self, process: str) -> None:
        self.measured.operations.events += self._counts

    def applied_control_request(
        self,
        process: str,
        request: BrokerRequest,
        error: int,
        partition_errors: Sequence[PartitionError],
    ) -> None:
        if self._counts:
            self.measured.operations.control_requests += 1
            if isinstance(request, LeaderAndIsrRequest):
                self.measured.operations.entries += len(request.partitions)

    # The end

    def finish(self) -> Measurements:
        """The run is over: close the windows, and look which records are left."""
        measured, now_us = self.measured, self._scheduler.now_us
        measured.observed_us = len(self._partitions) * (now_us - FIRST_FAULT_MS * MS)
        if isinstance(self._cluster, NetworkedCluster):
            client_reads = sum(one.client_reads for one in self._cluster.brokers.values())
            measured.operations.client_reads = client_reads
            measured.operations.reads -= client_reads
        for name, one in self._partitions.items():
            self._end_gap(one)
            self._end_overlap(one)
            self._count_lost(name, one)
        return measured

    def _count_lost(self, name: Name, one: _Partition) -> None:
        measured = self.measured
        if not one.accepting:
            measured.leaderless += 1
            return
        leader = max(one.accepting, key=lambda process: one.accepting[process])
        kept = set(records_of(self._cluster, leader, name))
        for acks, records in self._records.get(name, {}).items():
            count = len(records)
            measured.acknowledged[acks] = measured.acknowledged.get(acks, 0) + count
            lost = sum(record not in kept for record in records)
            measured.lost[acks] = measured.lost.get(acks, 0) + lost
        measured.read_lost += sum(record not in kept for record in self._read.get(name, []))


def records_of(cluster: AnyCluster, process: str, name: Name) -> list[int]:
    """The records in a broker's log."""
    broker = id_in(process)
    if isinstance(cluster, NetworkedCluster):
        return cluster.brokers[broker].records(name)
    log = cluster.brokers[broker].disk.logs.get(name)
    return log.records if log is not None else []


def measure(cluster: AnyCluster, meter: Meter) -> Measurements:
    """Run a cluster to its end. The producers stop early enough that all replicas have all
    records."""
    end_us = cluster.scenario.end_ms * MS
    cluster.scheduler.call_at(end_us - 5 * SECOND, lambda: _stop_producers(cluster))
    while cluster.step():
        pass
    return meter.finish()


def _stop_producers(cluster: AnyCluster) -> None:
    for producer in cluster.clients.producers:
        producer.stop()
