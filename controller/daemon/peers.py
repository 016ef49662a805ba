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


class ZooKeeper(Protocol):
    """The interface of the ZooKeeper connection."""

    @property
    def silent_ms_at_end(self) -> int: ...
    def submit(self, command_id: CommandId, command: ZooKeeperCommand, /) -> None: ...
    async def run(self) -> None: ...
    async def close(self) -> None: ...


class Channels(Protocol):
    """The interface of the broker channels."""

    def open(self, command: OpenChannel, /) -> None: ...
    def close(self, command: CloseChannel, /) -> None: ...
    def probe(self, command: ProbeBroker, /) -> None: ...
    def send(
        self,
        command_id: CommandId,
        request: LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest,
        /,
    ) -> None: ...
    def close_all(self) -> None: ...
    async def run(self) -> None: ...


class Endpoint(Protocol):
    """The interface of the Kafka protocol endpoint."""

    def answer(self, answer: ApiResponse, /) -> None: ...
    def answer_later(self, request: int, /) -> None: ...
    def throttle(self, request: int, until_ms: int, /) -> None: ...
    def set_brokers(self, brokers: Sequence[Broker], /) -> None: ...
    async def close(self) -> None: ...
    async def run(self) -> None: ...
