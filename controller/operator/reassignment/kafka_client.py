"""Sends requests to a cluster's nodes with aiokafka's client; kio encodes them."""

import asyncio
import logging
from importlib import import_module
from typing import Any, Final, NamedTuple, Self

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError
from kio.schema.index import api_key_map

from controller.operator.reassignment.errors import KafkaUnavailable
from controller.wire.aiokafka_request import AiokafkaRequest
from controller.wire.client_requests import RequestHead, decode_response, encode_request
from controller.wire.errors import MalformedResponse

_CLIENT_ID: Final = "reassign-partitions-tool"
"""The client id of Kafka's own tool."""

BOOTSTRAP_SECONDS: Final = 10
"""Time limit for each bootstrap server, Kafka's default `socket.connection.setup.timeout.ms`. A
process that is stopped accepts connections and never answers."""

_SIZE_BYTES: Final = 4


class RequestVersion(NamedTuple):
    """An API key and a version of it."""

    api_key: int
    version: int

    @property
    def schema(self) -> Any:
        """kio's module with the classes of the request."""
        return import_module(f"kio.schema.{api_key_map[self.api_key]}.v{self.version}.request")


class KafkaClient:
    """A connection to a cluster while its block runs. Entering and `ask` raise KafkaUnavailable."""

    def __init__(self, bootstrap: str, options: dict[str, Any]) -> None:
        self._bootstrap = bootstrap
        self._options = {"client_id": _CLIENT_ID, **options}
        self._client: Any = None
        self._answered: int | None = None

    async def __aenter__(self) -> Self:
        # aiokafka would log unreachable servers on standard error; this client reports them itself.
        logging.getLogger("aiokafka").addHandler(logging.NullHandler())
        faults = []
        for server in self._bootstrap.split(","):
            try:
                await self._connect(server)
            except (KafkaError, OSError, ValueError, TimeoutError) as error:
                faults.append(_reason(error))
            else:
                return self
        text = f"no broker answers at {self._bootstrap}: {'; '.join(faults)}"
        raise KafkaUnavailable(f"{text}: check --bootstrap-server")

    async def _connect(self, server: str) -> None:
        client = AIOKafkaClient(bootstrap_servers=server, **self._options)
        try:
            async with asyncio.timeout(BOOTSTRAP_SECONDS):
                await client.bootstrap()
        except BaseException:
            await client.close()
            raise
        self._client = client
        [(host, port, _)] = client.hosts
        brokers = client.cluster.brokers()
        answered = (one.nodeId for one in brokers if (one.host, one.port) == (host, port))
        self._answered = next(answered, None)

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def ask(self, node: int | None, asked: RequestVersion, request: Any) -> Any:
        """The response of a node; None means any node, the one that answered last first."""
        if node is not None:
            return await self._ask(node, asked, request)
        faults = []
        for one in self._nodes:
            try:
                response = await self._ask(one, asked, request)
            except KafkaUnavailable as fault:
                faults.append(str(fault))
            else:
                self._answered = one
                return response
        raise KafkaUnavailable("; ".join(faults) or "the cluster has no nodes")

    @property
    def _nodes(self) -> list[int]:
        """The nodes in the latest metadata, the one that answered last first."""
        nodes = (one.nodeId for one in self._client.cluster.brokers())
        return sorted(nodes, key=lambda node: (node != self._answered, node))

    async def _ask(self, node: int, asked: RequestVersion, request: Any) -> Any:
        head = RequestHead(asked.api_key, asked.version, 0)

        def encoded(correlation_id: int, client_id: str) -> bytes:
            numbered = head._replace(correlation_id=correlation_id)
            return encode_request(numbered, client_id, request)[_SIZE_BYTES:]

        try:
            frame = await self._client.send(node, AiokafkaRequest(encoded))
            return decode_response(head, frame)
        except (KafkaError, OSError, TimeoutError, MalformedResponse) as error:
            raise KafkaUnavailable(f"node {node} does not answer: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return str(error) or "it accepted the connection and sent no response in time"
    return str(error) or type(error).__name__
