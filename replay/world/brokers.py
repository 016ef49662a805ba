"""Brokers as a controller sees them: the effect of its requests, and their answers (KB 12.4)."""

from collections.abc import Collection
from typing import Final, NamedTuple

from controller.core import error_codes as codes
from controller.core.commands import (
    BrokerRequest,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from controller.core.values import LEADER_DURING_DELETE, NO_EPOCH

_FIRST_BY_TOPIC_ID: Final = 5
_FIRST_WITH_LEADER_EPOCHS: Final = 3
_INCONSISTENT_TOPIC_ID: Final = 103

Name = tuple[str, int]
"""A partition: its topic and number."""

PartitionError = tuple[str, int, int]
"""Topic, partition and error code in an answer. The topic is an id in hex if the version of the
request names topics by id."""


class Answer(NamedTuple):
    """The error of the whole request, and the partition errors that are not zero."""

    error: int
    partition_errors: list[PartitionError]


class SimulatedBroker:
    """The broker with one id, over all its runs.

    `logs` are its partitions on disk, each with the topic id that is stored there (None: none).
    `metadata` is what it returns to clients: the leader of each partition. Only `logs` survive a
    restart.
    """

    def __init__(self, id: int) -> None:
        self.logs: dict[Name, bytes | None] = {}
        self.metadata: dict[Name, int] = {}
        self._id = id
        self._epoch = NO_EPOCH
        self._controller_epoch = 0
        self._leader_epochs: dict[Name, int] = {}

    def run(self, epoch: int) -> None:
        """The broker is registered with this broker epoch; a new epoch means a restart."""
        if epoch != self._epoch:
            self._epoch, self._controller_epoch = epoch, 0
            self._leader_epochs.clear()
            self.metadata.clear()

    def answer(self, request: BrokerRequest, failing: Collection[PartitionError]) -> Answer:
        """Carry out a request, except for partitions in `failing`, which get that error."""
        stale = self._staleness(request)
        match request:
            case LeaderAndIsrRequest():
                return Answer(stale, self._lead_or_follow(request, stale, failing))
            case UpdateMetadataRequest():
                if not stale:
                    self._take_metadata(request)
                return Answer(stale, [])
            case StopReplicaRequest():
                return Answer(stale, [] if stale else self._stop(request, failing))

    def _staleness(self, request: BrokerRequest) -> int:
        """The request's error (KB 12.4.1). Without an error its controller epoch is adopted."""
        if request.broker_epoch < self._epoch:
            return codes.STALE_BROKER_EPOCH
        if request.controller_epoch < self._controller_epoch:
            return codes.STALE_CONTROLLER_EPOCH
        self._controller_epoch = request.controller_epoch
        return codes.NONE

    def _lead_or_follow(
        self, request: LeaderAndIsrRequest, stale: int, failing: Collection[PartitionError]
    ) -> list[PartitionError]:
        failures = {(topic, number): code for topic, number, code in failing}
        errors = []
        for one in request.partitions:
            by_id = request.version >= _FIRST_BY_TOPIC_ID and one.topic_id is not None
            name = one.topic_id.hex() if by_id and one.topic_id else one.topic
            code = stale or failures.get((name, one.partition)) or self._lead_or_follow_one(one)
            if code:
                errors.append((name, one.partition, code))
        return errors

    def _lead_or_follow_one(self, asked: LeaderAndIsrPartition) -> int:
        """KB 12.4.2."""
        name, epoch = (asked.topic, asked.partition), asked.leadership.leader_epoch
        known_id = self.logs.get(name)
        if asked.topic_id is not None and known_id not in (None, asked.topic_id):
            return _INCONSISTENT_TOPIC_ID
        known_epoch = self._leader_epochs.get(name, NO_EPOCH)
        if epoch == known_epoch and asked.topic_id is not None and known_id is None:
            self.logs[name] = asked.topic_id
            return codes.NONE
        if epoch <= known_epoch:
            return codes.STALE_CONTROLLER_EPOCH
        if self._id not in asked.assignment.replicas:
            return codes.UNKNOWN_TOPIC_OR_PARTITION
        self._leader_epochs[name] = epoch
        self.logs[name] = asked.topic_id or known_id
        return codes.NONE

    def _take_metadata(self, request: UpdateMetadataRequest) -> None:
        """KB 12.4.4."""
        for one in request.partitions:
            name = (one.topic, one.partition)
            if one.leadership.leader == LEADER_DURING_DELETE:
                self.metadata.pop(name, None)
            else:
                self.metadata[name] = one.leadership.leader

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

    def _stop_one(self, asked: StopReplicaPartition, *, has_epochs: bool) -> int:
        """KB 12.4.3. A log on disk is deleted even if the broker does not host the partition since
        its restart."""
        name = (asked.topic, asked.partition)
        known_epoch = self._leader_epochs.get(name, NO_EPOCH)
        if has_epochs and 0 <= asked.leader_epoch < known_epoch:
            return codes.FENCED_LEADER_EPOCH
        if asked.delete:
            self.logs.pop(name, None)
            self._leader_epochs.pop(name, None)
        return codes.NONE
