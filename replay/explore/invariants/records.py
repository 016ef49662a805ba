"""Invariants of records: what was acknowledged and what was read."""

from collections.abc import Callable
from typing import ClassVar, NamedTuple

from controller.core.znodes import Name
from replay.explore.invariants.invariant import (
    Invariant,
    Report,
    TopicReplica,
)
from replay.explore.invariants.known_cluster import KnownCluster, KnownTopic
from replay.names import partition_name
from replay.world.observer import AcknowledgedRecord

RecordAt = Callable[[int, Name, int], int | None]
"""Takes a broker, a partition and an offset; returns the record there, None if there is none."""


class _Stored(NamedTuple):
    """A record that the members of an ISR had at a time (losses)."""

    record: int
    isr: tuple[int, ...]
    at: int
    leader_epoch: int


class _Log:
    """The acknowledged records of a partition by offset, and for each broker up to which offset its
    log was compared with them."""

    __slots__ = ("compared", "last", "records")

    def __init__(self) -> None:
        self.records: dict[int, _Stored] = {}
        self.last = -1
        self.compared: dict[int, int] = {}


class AcknowledgedRecordsKept(Invariant):
    """Source: acks=all and the ISR; races R4, R9, R18, R27.

    The log of a replica is compared when it begins to lead, from where it was compared before. A
    record that an earlier leader acknowledges later is compared with the log of the latest leader.
    """

    NAME: ClassVar[str] = "acknowledged-records-kept"
    STATEMENT: ClassVar[str] = (
        "Every leader in the newest leader epoch has each record that was acknowledged to a "
        "producer with acks=all. Exceptions: a leader outside of the ISR was elected; the topic "
        "is being deleted; the leader itself has lost the record in a case that Kafka with "
        "ZooKeeper does not prevent."
    )

    def __init__(self, known: KnownCluster, report: Report) -> None:
        super().__init__(known, report)
        self._logs: dict[Name, _Log] = {}
        self.record_at: RecordAt = lambda broker, name, offset: None

    def acknowledged(self, one: AcknowledgedRecord) -> None:
        name, offset = one.name, one.offset
        log = self._logs.get(name)
        if log is None:
            log = self._logs[name] = _Log()
        before = log.records.get(offset)
        at = self.known.losses.next()
        if before is not None and before.record != one.record:
            if one.leader_epoch < before.leader_epoch:
                self._report_late_acknowledgement(one, at, before)
                return
            self._compare(log, name, offset, one.record, "where now another record is acknowledged")
        log.records[offset] = _Stored(one.record, one.isr, at, one.leader_epoch)
        log.last = max(log.last, offset)
        state = self.known.states.get(name)
        if state is not None and one.leader_epoch < state.leader_epoch:
            leader = self.known.losses.leader_in(name, state.leader_epoch)
            if leader is not None:
                self._compare_leader(log, name, offset, leader, state.leader_epoch)

    def _report_late_acknowledgement(
        self, one: AcknowledgedRecord, at: int, newer: _Stored
    ) -> None:
        """A leader of an earlier leader epoch acknowledges a record where a newer one has
        acknowledged another: the earlier leader's record is lost."""
        may_be_lost = self.known.losses.may_be_lost
        if not may_be_lost(one.name, one.offset, one.record, at, one.leader_epoch):
            self.violated(
                partition_name(*one.name),
                f"record {one.record} at offset {one.offset} was acknowledged by the ISR "
                f"{list(one.isr)} in leader epoch {one.leader_epoch}; in leader epoch "
                f"{newer.leader_epoch}, record {newer.record} was acknowledged there",
            )

    def _compare_leader(
        self, log: _Log, name: Name, offset: int, broker: int, leader_epoch: int
    ) -> bool:
        found = self.record_at(broker, name, offset)
        what = "no record" if found is None else f"record {found}"
        instead = f"broker {broker}, the leader in leader epoch {leader_epoch}, has {what} there"
        return self._compare(log, name, offset, found, instead)

    def _compare(self, log: _Log, name: Name, offset: int, found: int | None, instead: str) -> bool:
        """Whether the acknowledged record at an offset is the one that is found there, or its loss
        is excused."""
        expected = log.records[offset]
        if found == expected.record or self.known.is_queued(name[0]):
            # The deletion of a topic takes its records, one replica after the other.
            return True
        may_be_lost = self.known.losses.may_be_lost
        if may_be_lost(name, offset, expected.record, expected.at, expected.leader_epoch):
            del log.records[offset]
            return True
        self.violated(
            partition_name(*name),
            f"record {expected.record} at offset {offset} was acknowledged by the ISR "
            f"{list(expected.isr)}; {instead}",
        )
        return False

    def topic_deleted(self, topic: KnownTopic) -> None:
        for number in topic.assignments:
            self._logs.pop((topic.name, number), None)

    def truncated(self, replica: TopicReplica, offset: int) -> None:
        log = self._logs.get(replica.name)
        if log is not None and log.compared.get(replica.broker, 0) > offset:
            log.compared[replica.broker] = offset

    def lost(self, replica: TopicReplica, offset: int) -> None:
        self.truncated(replica, offset)

    def replica_deleted(self, replica: TopicReplica) -> None:
        self.truncated(replica, 0)

    def leads(self, replica: TopicReplica, leader_epoch: int) -> None:
        broker, name = replica.broker, replica.name
        log = self._logs.get(name)
        if log is None or self.known.is_queued(replica.topic):
            return
        state = self.known.states.get(name)
        if state is not None and state.leader_epoch > leader_epoch:
            # A late request, or one of a deposed controller: this leader is replaced already, and
            # followers in the newer leader epoch do not fetch from it.
            return
        for offset in range(log.compared.get(broker, 0), log.last + 1):
            if offset in log.records and not self._compare_leader(
                log, name, offset, broker, leader_epoch
            ):
                return
        log.compared[broker] = log.last + 1


class ReadRecordsStable(Invariant):
    """Source: KIP-101, KIP-279: consumers read up to the high watermark, which all members of the
    ISR have."""

    NAME: ClassVar[str] = "read-records-stable"
    STATEMENT: ClassVar[str] = (
        "An offset that a consumer has read never yields another record, with the same exceptions."
    )

    def __init__(self, known: KnownCluster, report: Report) -> None:
        super().__init__(known, report)
        self._read: dict[Name, dict[int, _Stored]] = {}

    def consumed(
        self, consumer: str, name: Name, offset: int, record: int, leader_epoch: int
    ) -> None:
        read = self._read.get(name)
        if read is None:
            read = self._read[name] = {}
        first = read.get(offset)
        if first is not None and first.record == record:
            return
        losses = self.known.losses
        if first is not None and not losses.may_be_lost(
            name, offset, first.record, first.at, first.leader_epoch
        ):
            self.violated(
                partition_name(*name),
                f"{consumer} read record {record} at offset {offset}, where record "
                f"{first.record} was read before",
            )
        state = self.known.states.get(name)
        isr = state.isr if state is not None else ()
        read[offset] = _Stored(record, isr, losses.next(), leader_epoch)

    def topic_deleted(self, topic: KnownTopic) -> None:
        for number in topic.assignments:
            self._read.pop((topic.name, number), None)
