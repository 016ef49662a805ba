"""The fields with which a partition begins, in LeaderAndIsr and UpdateMetadata alike (KB 12.3.1,
12.3.2)."""

from struct import Struct

from controller.core.prepared_topics import PreparedPartitions
from controller.core.values import LeaderAndIsr
from controller.wire.primitives import Int32Arrays, Int32s, Layout

_fixed = Struct(">iiii").pack


class StateEncoder:
    """Encodes the leader, the ISR and the replicas of partitions in one layout."""

    def __init__(self, layout: Layout) -> None:
        self._name = f"states, {layout.name}"
        self._arrays = Int32Arrays(layout)
        self._ints = Int32s()

    def encode(self, partition: int, state: LeaderAndIsr, replicas: tuple[int, ...]) -> bytes:
        """The fields from the partition's number to its replicas."""
        return (
            _fixed(partition, state.controller_epoch, state.leader, state.leader_epoch)
            + self._arrays[state.isr]
            + self._ints[state.partition_epoch]
            + self._arrays[replicas]
        )

    def of_prepared(self, whole: PreparedPartitions) -> list[bytes]:
        """These fields of all partitions of a prepared topic, encoded once for all requests."""
        encoded = whole.encoded.get(self._name)
        if encoded is None:
            encoded = whole.encoded[self._name] = [
                self.encode(one.partition, one.leadership, one.assignment.replicas)
                for one in whole.entries
            ]
        return encoded
