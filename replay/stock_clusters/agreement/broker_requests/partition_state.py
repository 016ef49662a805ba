"""A partition of a request as Kafka writes it down: as JSON, or as Java's toString does.

The names are those of LeaderAndIsrRequest.json, StopReplicaRequest.json and
UpdateMetadataRequest.json; what a version of the request lacks is not there.
"""

import re
from typing import Final

import msgspec
from msgspec import Struct

from replay.stock_clusters.agreement.broker_requests.told import ToldPartition

_FIELD: Final = re.compile(r"(\w+)=(?:'[^']*'|\[([-\d, ]*)\]|([-\w]+))")


class PartitionState(Struct, rename="camel"):
    """One partition, of any of the three requests in any version."""

    partition_index: int
    topic_name: str = ""
    controller_epoch: int | None = None
    leader: int | None = None
    leader_epoch: int | None = None
    isr: tuple[int, ...] | None = None
    partition_epoch: int | None = None
    zk_version: int | None = None
    """What partition_epoch is called in UpdateMetadata, and before Kafka 3.2 in LeaderAndIsr."""
    replicas: tuple[int, ...] | None = None
    adding_replicas: tuple[int, ...] | None = None
    removing_replicas: tuple[int, ...] | None = None
    offline_replicas: tuple[int, ...] | None = None
    is_new: bool | None = None
    leader_recovery_state: int | None = None
    delete_partition: bool | None = None

    def told(self, topic: str, delete: bool | None = None) -> ToldPartition:
        """What it tells of a partition of `topic`; `delete` is what the whole request says."""
        return ToldPartition(
            topic,
            self.partition_index,
            leader=self.leader,
            leader_epoch=self.leader_epoch,
            isr=self.isr,
            partition_epoch=(
                self.zk_version if self.partition_epoch is None else self.partition_epoch
            ),
            controller_epoch=self.controller_epoch,
            recovery_state=self.leader_recovery_state,
            replicas=self.replicas,
            adding_replicas=self.adding_replicas,
            removing_replicas=self.removing_replicas,
            offline_replicas=self.offline_replicas,
            is_new=self.is_new,
            delete=self.delete_partition if delete is None else delete,
        )


def partition_state(text: str) -> PartitionState:
    """What stands between the brackets of `LeaderAndIsrPartitionState(...)`, without its topic.

    Raises msgspec.ValidationError.
    """
    fields: dict[str, object] = {}
    for name, members, value in _FIELD.findall(text):
        if name == "topicName":
            continue
        fields[name] = value or re.findall(r"-?\d+", members)
    return msgspec.convert(fields, PartitionState, strict=False)
