"""Estimates the size of queued requests, which are not encoded until they are sent."""

from controller.core.commands import (
    BrokerRequest,
    LeaderAndIsrPartition,
    UpdateMetadataPartition,
)

_PARTITION_BYTES = 32
_REPLICA_BYTES = 8


class QueueSize:
    """The size of the requests queued on all channels. Partitions that brokers share count once."""

    def __init__(self) -> None:
        self.bytes = 0
        self._holders: dict[int, int] = {}

    def add(self, request: BrokerRequest) -> None:
        """A request was queued."""
        holders = self._holders.get(id(request.partitions), 0)
        self._holders[id(request.partitions)] = holders + 1
        if not holders:
            self.bytes += _estimate(request)

    def remove(self, request: BrokerRequest) -> None:
        """A request was answered or dropped."""
        holders = self._holders.pop(id(request.partitions))
        if holders > 1:
            self._holders[id(request.partitions)] = holders - 1
        else:
            self.bytes -= _estimate(request)


def _estimate(request: BrokerRequest) -> int:
    """The encoded size of the partitions, as if all had as many replicas as the first one."""
    replicas = 0
    match request.partitions:
        case (LeaderAndIsrPartition(assignment=assignment), *_):
            replicas = len(assignment.replicas)
        case (UpdateMetadataPartition(replicas=ids), *_):
            replicas = len(ids)
    return len(request.partitions) * (_PARTITION_BYTES + _REPLICA_BYTES * replicas)
