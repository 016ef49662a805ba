"""A client or broker that connects to the endpoint, with kio as its codec."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from struct import pack, unpack
from types import TracebackType
from typing import Any, Self

from kio.schema.index import api_key_map

from controller.wire.client_requests import RequestHead, decode_response, encode_request
from tests.controller.api_keys import ALLOCATE_PRODUCER_IDS, ALTER_PARTITION

API_VERSIONS = 18
METADATA = 3

CLOSED_WITHIN_S = 5


def request_schema(api_key: int, version: int) -> Any:
    """kio's module of a request."""
    return import_module(f"kio.schema.{api_key_map[api_key]}.v{version}.request")


def allocate_producer_ids(broker: int = 1, broker_epoch: int = 10) -> Any:
    schema = request_schema(ALLOCATE_PRODUCER_IDS, 0)
    return schema.AllocateProducerIdsRequest(broker_id=broker, broker_epoch=broker_epoch)


def alter_partition(partitions: int = 1, broker: int = 1, broker_epoch: int = 10) -> Any:
    """A version 1 request for partitions of the topic t."""
    schema = request_schema(ALTER_PARTITION, 1)
    states = tuple(
        schema.PartitionData(
            partition_index=number, leader_epoch=3, new_isr=(1, 2, 3), partition_epoch=4
        )
        for number in range(partitions)
    )
    topics = (schema.TopicData(topic_name="t", partitions=states),)
    return schema.AlterPartitionRequest(broker_id=broker, broker_epoch=broker_epoch, topics=topics)


def api_versions(version: int = 3) -> Any:
    software = {"client_software_name": "test", "client_software_version": "1"}
    schema = request_schema(API_VERSIONS, version)
    return schema.ApiVersionsRequest(**(software if version >= 3 else {}))


def metadata_request() -> Any:
    schema = request_schema(METADATA, 12)
    return schema.MetadataRequest(topics=None, include_topic_authorized_operations=False)


class Client:
    """One connection, from a loopback address. A broker's client id is its broker id."""

    def __init__(
        self,
        port: int,
        address: str = "127.0.0.1",
        client_id: str = "test",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._port = port
        self._address = address
        self._client_id = client_id
        self._tls = tls
        self._correlation = 100

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", self._port, local_addr=(self._address, 0), ssl=self._tls
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.writer.transport.abort()

    def send(self, api_key: int, version: int, request: Any) -> RequestHead:
        """Send a request without waiting for its response."""
        self._correlation += 1
        head = RequestHead(api_key, version, self._correlation)
        self.writer.write(encode_request(head, self._client_id, request))
        return head

    async def receive(self) -> bytes:
        """The next answer, without its size."""
        (size,) = unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def answer_to(self, head: RequestHead) -> Any:
        """The next answer, which must have the request's correlation id."""
        frame = await self.receive()
        assert frame[:4] == pack(">i", head.correlation_id)
        return decode_response(head, frame)

    async def ask(self, api_key: int, version: int, request: Any) -> Any:
        """Send a request and wait for its response."""
        return await self.answer_to(self.send(api_key, version, request))

    async def closed(self) -> bool:
        """Wait until the endpoint closes the connection. False if this takes too long, or a byte
        arrives."""
        try:
            async with asyncio.timeout(CLOSED_WITHIN_S):
                return await self.reader.read(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False


@asynccontextmanager
async def connected(count: int, port: int) -> AsyncIterator[list[Client]]:
    """Open `count` connections."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(Client(port)) for _ in range(count)]
