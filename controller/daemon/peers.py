"""The interfaces of the daemon's peers."""

from collections.abc import Sequence
from typing import Protocol

from controller.core.api_requests import ApiResponse
from controller.core.commands import (
    CloseChannel,
    CommandId,
    LeaderAndIsrRequest,
    OpenChannel,
    ProbeBroker,
    StopReplicaRequest,
    UpdateMetadataRequest,
    ZooKeeperCommand,
)
from controller.core.values import Broker


class ZooKeeperInterface(Protocol):
    """The interface of the ZooKeeper connection."""

    @property
    def silent_ms_at_end(self) -> int:
        """How long ZooKeeper had sent nothing when the last session ended."""

    def submit(self, command_id: CommandId, command: ZooKeeperCommand, /) -> None:
        """Carry out a command; its outcome becomes an event."""

    async def run(self) -> None:
        """Keep a session until the connection is closed."""

    async def close(self) -> None:
        """Close the session and the connection."""


class ChannelsInterface(Protocol):
    """The interface of the broker channels."""

    def open(self, command: OpenChannel, /) -> None:
        """Open the channel to a broker."""

    def close(self, command: CloseChannel, /) -> None:
        """Close the channel to a broker."""

    def probe(self, command: ProbeBroker, /) -> None:
        """Find out whether a broker's process can be reached; the result becomes an event."""

    def send(
        self,
        command_id: CommandId,
        request: LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest,
        /,
    ) -> None:
        """Queue a request; the response of the broker becomes an event."""

    def close_all(self) -> None:
        """Close the channels to all brokers."""

    async def run(self) -> None:
        """Send requests until cancelled."""


class EndpointInterface(Protocol):
    """The interface of the Kafka protocol endpoint."""

    def answer(self, response: ApiResponse, /) -> None:
        """Send a response to the client that waits for it."""

    def answer_later(self, request: int, /) -> None:
        """The response to a request follows later: release the request's resources."""

    def throttle(self, request: int, until_ms: int, /) -> None:
        """Delay the response to a request until a time."""

    def set_brokers(self, brokers: Sequence[Broker], /) -> None:
        """Use these brokers to forward requests."""

    async def close(self) -> None:
        """Stop accepting requests, and close the connections."""

    async def run(self) -> None:
        """Serve requests until cancelled."""
