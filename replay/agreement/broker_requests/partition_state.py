"""A partition of a request as Kafka logs it: as JSON, or as the output of Java's toString.

The names are those of LeaderAndIsrRequest.json, StopReplicaRequest.json and
UpdateMetadataRequest.json. A field that a version of the request lacks is None.
"""

import re
from typing import Final

import msgspec
from msgspec import Struct

from replay.agreement.broker_requests.sent_request import SentPartition

_FIELD: Final = re.compile(r"(\w+)=(?:'[^']*'|\[([-\d, ]*)\]|([-\w]+))")


class RequestPartitionState(Struct, rename="camel"):
    """One partition, of any of the three requests in any version."""

    partition_index: int
    topic_name: str = ""
    controller_epoch: int | None = None
    leader: int | None = None
    leader_epoch: int | None = None
    isr: tuple[int, ...] | None = None
    partition_epoch: int | None = None
    zk_version: int | None = None
    """The name of partition_epoch in UpdateMetadata, and before Kafka 3.2 in LeaderAndIsr."""
    replicas: tuple[int, ...] | None = None
    adding_replicas: tuple[int, ...] | None = None
    removing_replicas: tuple[int, ...] | None = None
    offline_replicas: tuple[int, ...] | None = None
    is_new: bool | None = None
    leader_recovery_state: int | None = None
    delete_partition: bool | None = None

    def sent_partition(self, topic: str, delete: bool | None = None) -> SentPartition:
        """The partition of `topic`; `delete` is the value of the whole request, if it has one."""
        return SentPartition(
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


def partition_state(text: str) -> RequestPartitionState:
    """Parse the fields inside `LeaderAndIsrPartitionState(...)`, except the topic.

    Raises msgspec.ValidationError.
    """
    fields: dict[str, object] = {}
    for name, members, value in _FIELD.findall(text):
        if name == "topicName":
            continue
        fields[name] = value or re.findall(r"-?\d+", members)
    return msgspec.convert(fields, RequestPartitionState, strict=False)
