"""Feeds the invariants of the 0.8 design, most of which are those of the controller's design."""

from collections.abc import Sequence
from typing import Any, ClassVar

from controller.core.values import NO_LEADER
from controller.core.znodes import Name
from replay.explore.invariants.invariant import Invariant, Violation
from replay.explore.invariants.recovery import Recovery
from replay.explore.kafka_0_8.invariants import (
    ALWAYS,
    RECOVERY,
    CommittedRecordsKept,
    IsrHasCommittedRecords,
    LeaderInvariant,
    ProducersAnswered,
    ReplicasEqual,
)
from replay.explore.kafka_0_8.known_cluster import KnownCluster08, ZooKeeperFacts08
from replay.explore.kafka_0_8.losses import TRUNCATION
from replay.explore.monitor import Monitor
from replay.explore.processes import Processes
from replay.names import broker_named, partition_name
from replay.world.kafka_0_8.networked.cluster import NetworkedCluster
from replay.world.observer import AcknowledgedRecord


class Monitor08(Monitor):
    """The observer of a run that evaluates all invariants. `flaw`: the first loss of a record that
    the design does not prevent; the run ends with it."""

    always: ClassVar[Sequence[type[Invariant]]] = ALWAYS
    recovery: ClassVar[Sequence[type[Recovery]]] = RECOVERY
    known: KnownCluster08

    def __init__(self) -> None:
        super().__init__(known=KnownCluster08())
        self.flaw: Violation | None = None
        self.known.losses.on_flaw = self._note_flaw
        self._leader_invariants = [one for one in self._always if isinstance(one, LeaderInvariant)]
        self._of_producers: list[ProducersAnswered] = []
        self._committed = [one for one in self._always if isinstance(one, CommittedRecordsKept)]
        self._committed_to: dict[tuple[Name, int], int] = {}
        """Up to where records are known to be committed, by partition and czxid of the topic."""
        self._cluster: NetworkedCluster

    def _note_flaw(self, name: Name, text: str) -> None:
        if self.flaw is None:
            self.flaw = Violation(TRUNCATION, self._now(), partition_name(*name), text)

    @property
    def is_over(self) -> bool:
        return self.flaw is not None or super().is_over

    # The run

    def begins(self, cluster: Any) -> None:
        self._cluster = cluster
        facts = ZooKeeperFacts08(self.known, cluster.zookeeper.state, self._methods_for)
        self._follow(cluster, _Brokers(cluster, self.known), facts.on_commit)
        for one in (*self._always, *self._recovery):
            if isinstance(one, IsrHasCommittedRecords | ReplicasEqual):
                one.log_of = self._log_of
            elif isinstance(one, ProducersAnswered):
                one.now_us = self._now
                self._of_producers.append(one)
        facts.load()

    def _log_of(self, broker: int, name: Name) -> Sequence[int]:
        return self._logs.get((broker, name), ())

    def _follows_our_rules(self) -> bool:
        return True

    def poll(self) -> None:
        super().poll()
        if self.is_settled:
            for name, state in self.known.states.items():
                if state.leader == NO_LEADER:
                    continue
                replica = self._replica(state.leader, name)
                for one in self._committed:
                    one.leads(replica, state.leader_epoch)

    # Brokers

    def broker_folded(self, process: str) -> None:
        number = broker_named(process)
        run = self.processes.run_of(number)
        store = self._cluster.brokers[number].store
        for one in self._of_producers:
            one.folded(number, store.history[-1])
        for partition in store.fold.broker.partitions.values():
            if partition.is_leader:
                for check in self._leader_invariants:
                    check.leader_folded(number, run, partition)
                self._commit(number, partition.name, partition.epoch, partition.local.hw)

    def _commit(self, broker: int, name: Name, epoch: int, hw: int) -> None:
        """The high watermark of a leader: the new records are committed now."""
        topic = self.known.topics.get(name[0])
        if topic is None or self.known.is_of_earlier_topic(name, epoch):
            return
        before = self._committed_to.get((name, topic.czxid), 0)
        if hw <= before:
            return
        self._committed_to[name, topic.czxid] = hw
        state = self.known.states.get(name)
        isr = state.isr if state is not None else ()
        for offset, record in enumerate(self._log_of(broker, name)[before:hw], before):
            one = AcknowledgedRecord(name, offset, record, isr, epoch)
            for check in self._committed:
                check.acknowledged(one)

    def ended(self, process: str, cause: str) -> None:
        super().ended(process, cause)
        for one in self._of_producers:
            one.ended(broker_named(process))

    def appended(
        self, process: str, partition: Name, offset: int, leader_epoch: int, records: Sequence[int]
    ) -> None:
        broker = broker_named(process)
        self.known.losses.appended(partition, broker, offset, records)
        super().appended(process, partition, offset, leader_epoch, records)

    def truncated(self, process: str, partition: Name, end: int, cause: str) -> None:
        if cause == "high watermark":
            broker = broker_named(process)
            known = self._cluster.brokers[broker].partition(partition)
            # Records below its high watermark are none that the design removes.
            kept = end if known is None else max(end, known.local.hw)
            self.known.losses.cut(partition, broker, kept, self._log_of(broker, partition)[kept:])
        super().truncated(process, partition, end, cause)

    # Clients: results about an earlier topic of the same name come late.

    def acknowledged(self, process: str, one: AcknowledgedRecord) -> None:
        if not self.known.is_of_earlier_topic(one.name, one.leader_epoch):
            super().acknowledged(process, one)

    def read(
        self, process: str, partition: Name, offset: int, leader_epoch: int, records: Sequence[int]
    ) -> None:
        if not self.known.is_of_earlier_topic(partition, leader_epoch):
            super().read(process, partition, offset, leader_epoch, records)


class _Brokers(Processes):
    """The brokers, as the invariants about recovery see them."""

    def __init__(self, cluster: NetworkedCluster, known: KnownCluster08) -> None:
        super().__init__(cluster, known)
        self._brokers = cluster.brokers

    def leadership(self, broker: int, name: Name) -> tuple[int, int] | None:
        """The leader and leader epoch that a replica knows; None: none."""
        found = self._brokers[broker].partition(name) if broker in self._brokers else None
        return None if found is None else (found.leader, found.epoch)
