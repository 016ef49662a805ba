"""Invariants of the metadata that brokers get."""

from typing import ClassVar

from controller.core.commands import (
    BrokerRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from controller.core.values import LEADER_DURING_DELETE
from controller.core.znodes import Name
from replay.explore.invariants.invariant import (
    AppliedRequest,
    Invariant,
    Report,
    StateWrite,
    forget_topic_without_id,
)
from replay.explore.invariants.known_cluster import KnownCluster, KnownTopic, without_controller
from replay.names import partition_name

_Version = tuple[int, int]


class SentStatesStored(Invariant):
    """Source: KB 5.2, 12.3.1: a state is stored before brokers get it."""

    NAME: ClassVar[str] = "sent-states-stored"
    STATEMENT: ClassVar[str] = (
        "Each state of a partition that a controller sends in a LeaderAndIsr or UpdateMetadata "
        "request is one that the partition's state znode has had (leader, leader epoch, ISR and "
        "partition epoch). It is not older than the one that this controller has stored or sent "
        "last. The leader epoch in a StopReplica request is one that the partition has had. "
        "Requests that the broker rejects count, too."
    )

    def __init__(self, known: KnownCluster, report: Report) -> None:
        super().__init__(known, report)
        self._own: dict[str, dict[Name, int]] = {}
        """For each controller the partition epochs that it has stored in its term."""
        self._sent: dict[tuple[str, int, str, bytes, int], _Version] = {}
        """The newest state that a controller has sent in a term. Without a topic id, a partition
        may be that of a later topic of the same name."""

    def state_written(self, write: StateWrite) -> None:
        if write.is_controller:
            own = self._own.setdefault(write.process, {})
            own[write.name] = write.after.partition_epoch

    def topic_deleted(self, topic: KnownTopic) -> None:
        for own in self._own.values():
            for number in topic.assignments:
                own.pop((topic.name, number), None)

    def noticed(self, process: str, code: str, subject: str) -> None:
        if code == "elected":
            self._own.pop(process, None)

    def sent(self, process: str, epoch: int, request: BrokerRequest) -> None:
        if epoch != self.known.epoch:
            return
        if isinstance(request, StopReplicaRequest):
            self._check_stops(process, request)
            return
        own = self._own.get(process, {})
        for one in request.partitions:
            name, state = (one.topic, one.partition), one.leadership
            if state.leader == LEADER_DURING_DELETE:
                continue
            version = state.leader_epoch, state.partition_epoch
            newest = version
            if one.topic_id:
                key = process, epoch, one.topic, one.topic_id, one.partition
                newest = self._sent[key] = max(version, self._sent.get(key, version))
            if without_controller(state) not in self.known.past_states.get(name, {}):
                what = "that was never stored"
            elif state.partition_epoch < own.get(name, 0):
                what = "that is older than the one that it has stored"
            elif version < newest:
                what = "that is older than one that it has sent"
            else:
                continue
            self.violated(
                partition_name(*name),
                f"{process} sends broker {request.broker} a state {what}: {state}",
            )

    def _check_stops(self, process: str, request: StopReplicaRequest) -> None:
        for one in request.partitions:
            name = one.topic, one.partition
            past = self.known.past_states.get(name, {})
            if one.leader_epoch >= 0 and all(one.leader_epoch != e.leader_epoch for e in past):
                self.violated(
                    partition_name(*name),
                    f"{process} asks broker {request.broker} to stop its replica with leader epoch "
                    f"{one.leader_epoch}, which the partition has not had",
                )


class MetadataForward(Invariant):
    """Source: race R25 (KAFKA-9212)."""

    NAME: ClassVar[str] = "metadata-forward"
    STATEMENT: ClassVar[str] = (
        "The leader epoch and partition epoch of a partition in an UpdateMetadata request are "
        "never older than those in a request that the same broker has accepted before. A deposed "
        "controller's request with a state that its successor wrote does not count."
    )

    def __init__(self, known: KnownCluster, report: Report) -> None:
        super().__init__(known, report)
        self._accepted: dict[tuple[str, bytes | None, int, int, int], _Version] = {}

    def topic_deleted(self, topic: KnownTopic) -> None:
        forget_topic_without_id(self._accepted, topic)

    def applied(self, applied: AppliedRequest) -> None:
        request = applied.request
        if not isinstance(request, LeaderAndIsrRequest | UpdateMetadataRequest):
            return
        is_metadata = isinstance(request, UpdateMetadataRequest)
        for one in request.partitions:
            key = (one.topic, one.topic_id, one.partition, applied.broker, applied.run)
            leadership = one.leadership
            if leadership.leader == LEADER_DURING_DELETE:
                self._accepted.pop(key, None)
                continue
            if (one.topic, one.partition) in applied.refused:
                continue
            if leadership.controller_epoch > request.controller_epoch:
                # The first requests of the successor have older states and may arrive later.
                continue
            version = leadership.leader_epoch, leadership.partition_epoch
            before = self._accepted.get(key)
            if before is not None and version < before:
                if is_metadata:
                    self.violated(
                        partition_name(one.topic, one.partition),
                        f"broker {applied.broker} got UpdateMetadata with leader epoch "
                        f"{version[0]}, partition epoch {version[1]} after {before[0]}, "
                        f"{before[1]}",
                    )
            else:
                self._accepted[key] = version
