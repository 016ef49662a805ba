"""Kafka's APIs with the versions that refold supports; those that a controller calls at brokers."""

from dataclasses import dataclass

from controller.core.commands import (
    BrokerRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from controller.wire.errors import UnsupportedVersion
from controller.wire.primitives import FLEXIBLE, LEGACY, Layout


@dataclass(frozen=True, slots=True)
class Api:
    """One of Kafka's requests: its key, and the supported versions `first` to `last`."""

    key: int
    name: str
    first: int
    last: int
    first_flexible: int

    @property
    def versions(self) -> range:
        """The supported versions."""
        return range(self.first, self.last + 1)

    def is_flexible(self, version: int) -> bool:
        """Whether a version has compact types and tagged fields, also in its headers."""
        return version >= self.first_flexible

    def layout(self, version: int) -> Layout:
        """The encoding of types in a version. Raises `UnsupportedVersion`."""
        if version not in self.versions:
            raise UnsupportedVersion(
                f"{self.name} version {version}: refold supports {self.first} to {self.last}"
            )
        return FLEXIBLE if self.is_flexible(version) else LEGACY


LEADER_AND_ISR = Api(4, "LeaderAndIsr", first=3, last=7, first_flexible=4)
STOP_REPLICA = Api(5, "StopReplica", first=1, last=4, first_flexible=2)
UPDATE_METADATA = Api(6, "UpdateMetadata", first=5, last=8, first_flexible=6)


def api_of(request: BrokerRequest) -> Api:
    """The request that a command is sent as."""
    match request:
        case LeaderAndIsrRequest():
            return LEADER_AND_ISR
        case UpdateMetadataRequest():
            return UPDATE_METADATA
        case StopReplicaRequest():
            return STOP_REPLICA
