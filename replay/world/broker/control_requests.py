"""LeaderAndIsr, UpdateMetadata and StopReplica: their effect and their errors (KB 12.4).

The rules are those of ReplicaManager.becomeLeaderOrFollower, stopReplicas and maybeUpdateMetadata-
Cache, and of the checks before them in KafkaApis.
"""

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple, Protocol

from msgspec import structs

from controller.core import error_codes as codes
from controller.core.commands import (
    BrokerRequest,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from controller.core.values import NO_EPOCH
from replay.world.broker.context import BrokerContext
from replay.world.broker.disk import Disk
from replay.world.broker.log import Log
from replay.world.broker.messages import NOT_LEADER_OR_FOLLOWER
from replay.world.broker.partition import IsrChanges, Partition
from replay.world.messages import PartitionError
from replay.world.observer import Name

_FIRST_BY_TOPIC_ID: Final = 5
_FIRST_WITH_LEADER_EPOCHS: Final = 3
_NO_TOPIC_ID: Final = bytes(16)


class RequestErrors(NamedTuple):
    """The error of the whole request, and the partition errors that are not zero."""

    error: int
    partition_errors: list[PartitionError]


class Followers(Protocol):
    """The fetchers of the partitions that this broker follows (ReplicaFetcherManager)."""

    def follow(self, partition: Partition) -> None:
        """Fetch from the partition's leader, at its current leader epoch."""

    def stop(self, name: Name) -> None:
        """Fetch a partition no longer."""


class Replicas:
    """The replicas of one run of a broker, and the highest controller epoch that it has seen."""

    def __init__(
        self, context: BrokerContext, disk: Disk, changes: IsrChanges, followers: Followers
    ) -> None:
        self.hosted: dict[Name, Partition] = {}
        self._context = context
        self._disk = disk
        self._changes = changes
        self._followers = followers
        self._controller_epoch = 0
        self._offline: dict[Name, None] = {}
        """Partitions in log directories that have failed."""

    def find(self, name: Name) -> Partition | int:
        """A partition, or the error for a request to it (getPartitionOrError)."""
        partition = self.hosted.get(name)
        if partition is not None:
            return partition
        if name in self._offline:
            return codes.KAFKA_STORAGE_ERROR
        if name in self._context.metadata.partitions:
            return NOT_LEADER_OR_FOLLOWER
        return codes.UNKNOWN_TOPIC_OR_PARTITION

    def fail(self, names: Iterable[Name]) -> list[Name]:
        """Log directories fail (handleLogDirFailure); returns the partitions that were in them."""
        failed = self._disk.fail(names)
        for name in failed:
            self._go_offline(name)
        return failed

    def _go_offline(self, name: Name) -> None:
        self._offline[name] = None
        self._drop(name)

    def _drop(self, name: Name) -> None:
        partition = self.hosted.pop(name, None)
        if partition is not None:
            partition.close()

    # Requests

    def answer(
        self, request: BrokerRequest, failing: Collection[PartitionError] = ()
    ) -> RequestErrors:
        """Carry out a request, except for partitions in `failing`, which get that error."""
        stale = self._staleness(request)
        errors: list[PartitionError] = []
        match request:
            case LeaderAndIsrRequest():
                errors = self._lead_or_follow(request, stale, failing)
            case UpdateMetadataRequest():
                if not stale:
                    self._context.metadata.update(request)
                    self._context.observer.metadata_updated(self._context.process, request)
            case StopReplicaRequest():
                errors = [] if stale else self._stop(request, failing)
        self._context.observer.applied_control_request(
            self._context.process, request, stale, errors
        )
        return RequestErrors(stale, errors)

    def _staleness(self, request: BrokerRequest) -> int:
        """The request's error (KB 12.4.1). Without an error its controller epoch is adopted."""
        if NO_EPOCH != request.broker_epoch < self._context.epoch:
            return codes.STALE_BROKER_EPOCH
        if request.controller_epoch < self._controller_epoch:
            return codes.STALE_CONTROLLER_EPOCH
        self._controller_epoch = request.controller_epoch
        return codes.NONE

    def _lead_or_follow(
        self, request: LeaderAndIsrRequest, stale: int, failing: Collection[PartitionError]
    ) -> list[PartitionError]:
        failures = {(topic, number): code for topic, number, code in failing}
        results: list[tuple[str, LeaderAndIsrPartition, int]] = []
        by_id = request.version >= _FIRST_BY_TOPIC_ID
        for one in request.partitions:
            if not by_id and one.topic_id is not None:
                one = structs.replace(one, topic_id=None)
            name = (one.topic_id or _NO_TOPIC_ID).hex() if by_id else one.topic
            code = stale or failures.get((name, one.partition)) or self._check(one)
            results.append((name, one, code if code != _APPLIES else codes.NONE))
            if code == _APPLIES and not self._apply(one):
                results[-1] = (name, one, codes.KAFKA_STORAGE_ERROR)
        return [(name, one.partition, code) for name, one, code in results if code]

    def _check(self, requested: LeaderAndIsrPartition) -> int:
        """The outcome for one partition, _APPLIES if the request takes effect (KB 12.4.2)."""
        name, epoch = (requested.topic, requested.partition), requested.leadership.leader_epoch
        if name in self._offline:
            return codes.KAFKA_STORAGE_ERROR
        partition, log = self.hosted.get(name), self._disk.logs.get(name)
        known_id = log.topic_id if log else None
        if requested.topic_id is not None and known_id not in (None, requested.topic_id):
            return codes.INCONSISTENT_TOPIC_ID
        known_epoch = partition.leader_epoch if partition else NO_EPOCH
        if epoch == known_epoch and log and known_id is None and requested.topic_id is not None:
            # The controller's protocol version was raised to 2.8 or later.
            log.topic_id = self._stored_topic_id(requested)
            return codes.NONE
        if epoch == known_epoch and requested.topic_id is None and known_id is not None:
            # It was lowered.
            leads = requested.leadership.leader == self._context.id
            return codes.STALE_CONTROLLER_EPOCH if leads else codes.NONE
        if epoch <= known_epoch:
            return codes.STALE_CONTROLLER_EPOCH
        if self._context.id not in requested.assignment.replicas:
            return codes.UNKNOWN_TOPIC_OR_PARTITION
        return _APPLIES

    def _apply(self, requested: LeaderAndIsrPartition) -> bool:
        """False: the log may be in a log directory that has failed."""
        name, leader = (requested.topic, requested.partition), requested.leadership.leader
        leads = leader == self._context.id
        # A broker follows no leader that it does not know to be live (makeFollowers).
        follows = not leads and leader in self._context.metadata.live
        if leads:
            self._followers.stop(name)
        partition = self.hosted.get(name)
        is_older = partition is not None and partition.is_newer_than(requested)
        if is_older and (leads or follows):
            return True
        log = self._open_log(name, requested)
        if log is None:
            self._go_offline(name)
            return False
        if partition is None:
            partition = self.hosted[name] = Partition(name, log, self._context, self._changes)
        if leads:
            partition.make_leader(requested)
        elif follows:
            partition.make_follower(requested)
            self._followers.stop(name)
            if not self._context.is_shutting_down:
                self._followers.follow(partition)
        return True

    def _open_log(self, name: Name, requested: LeaderAndIsrPartition) -> Log | None:
        """The log of a partition, created if there is none (createLogIfNotExists)."""
        disk = self._disk
        log = disk.logs.get(name)
        if log is None:
            if disk.failed and not requested.is_new:
                return None
            topic_id = self._stored_topic_id(requested)
            log = disk.logs[name] = Log(topic_id)
            self._context.observer.log_created(self._context.process, name, topic_id)
        elif log.topic_id is None:
            log.topic_id = self._stored_topic_id(requested)
        return log

    def _stored_topic_id(self, requested: LeaderAndIsrPartition) -> bytes | None:
        """Before inter.broker.protocol.version 2.8 logs have no topic ids (usesTopicId)."""
        return requested.topic_id if self._context.settings.protocol.has_topic_ids else None

    def _stop(
        self, request: StopReplicaRequest, failing: Collection[PartitionError]
    ) -> list[PartitionError]:
        failures = {(topic, number): code for topic, number, code in failing}
        has_epochs = request.version >= _FIRST_WITH_LEADER_EPOCHS
        errors = []
        for one in request.partitions:
            name = (one.topic, one.partition)
            code = failures.get(name) or self._stop_one(one, has_epochs=has_epochs)
            if code:
                errors.append((*name, code))
        return errors

    def _stop_one(self, requested: StopReplicaPartition, *, has_epochs: bool) -> int:
        """KB 12.4.3. A log on disk is deleted even if the broker does not host the partition since
        its restart. A leader that is stopped without deletion stays leader."""
        name, context = (requested.topic, requested.partition), self._context
        if name in self._offline:
            return codes.KAFKA_STORAGE_ERROR
        partition = self.hosted.get(name)
        known_epoch = partition.leader_epoch if partition else NO_EPOCH
        if has_epochs and 0 <= requested.leader_epoch < known_epoch:
            return codes.FENCED_LEADER_EPOCH
        self._followers.stop(name)
        context.observer.replica_stopped(context.process, name)
        if requested.delete:
            self._drop(name)
            if self._disk.logs.pop(name, None) is not None:
                context.observer.log_deleted(context.process, name)
        return codes.NONE


_APPLIES: Final = -2
"""No error code of Kafka: the request takes effect."""
