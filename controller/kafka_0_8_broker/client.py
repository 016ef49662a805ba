"""A producer and consumer: finds the leader of a partition in ZooKeeper and asks it."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Self

from controller.core.error_codes import NONE, NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE
from controller.core.errors import ZnodeError
from controller.kafka_0_8 import znodes
from controller.kafka_0_8.events import CONSUMER
from controller.kafka_0_8.state import Name
from controller.kafka_0_8_broker.connection import Connection
from controller.kafka_0_8_broker.errors import BadFrame, ClientError, NoResponse, Unreachable
from controller.kafka_0_8_broker.messages import (
    FRAME_BYTES_MAX,
    Acks,
    FetchRequest,
    FetchResponse,
    ProduceRequest,
    ProduceResponse,
    Request,
    Response,
)
from controller.kafka_0_8_broker.segment import RECORD_BYTES_MAX
from controller.operator.zookeeper_client import ZooKeeperClient

_PAUSE_SECONDS: Final = 0.1
_FETCH_SECONDS_MAX: Final = 2.0
_RECORD_OVERHEAD_BYTES: Final = 5
"""The header of a byte string in MessagePack."""
_BATCH_BYTES_MAX: Final = FRAME_BYTES_MAX - (1 << 16)
"""The rest is for the other fields of the request."""


class FetchedRecords(NamedTuple):
    """Committed records from an offset on. `hw`: the offset after the last committed record."""

    records: list[bytes]
    hw: int


class BrokerClient:
    """Asks leaders, over one connection per broker; an async context manager. `timeout_s` is for
    each call. Methods raise ClientError, and ZooKeeperUnavailable while they look for a leader."""

    def __init__(self, zookeeper: ZooKeeperClient, timeout_s: float) -> None:
        self._zookeeper = zookeeper
        self._timeout_s = timeout_s
        self._connections: dict[str, Connection] = {}
        self._addresses: dict[Name, str] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in self._connections.values():
            await connection.close()

    async def produce(self, name: Name, records: list[bytes], acks: Acks) -> int | None:
        """Append records; returns the offset after the last one, None with acks 0.

        If a broker rejects the request, the next leader is asked. The first broker may have
        appended the records before it stepped down (L-06): then they can be in the log twice.
        Without a response they may have been appended: ClientError says so. Nothing is sent if a
        record is too long. Records that do not fit into one request are sent in several, one after
        the other; ClientError says how many went before.
        """
        for place, record in enumerate(records, 1):
            if len(record) > RECORD_BYTES_MAX:
                text = f"record {place} of {len(records)} has {len(record)} bytes, but at most"
                raise _partition_error(
                    name, f"{text} {RECORD_BYTES_MAX} are allowed; nothing was sent"
                )

        end, done = None, 0
        for batch in _batches(records):
            try:
                end = await self._produce_batch(name, batch, acks)
            except ClientError as error:
                if not done:
                    raise
                verb = "sent" if acks == 0 else "acknowledged"
                text = f"{error}; before, {done} of {len(records)} records were {verb}"
                raise ClientError(text) from None
            done += len(batch)
        return end

    async def _produce_batch(self, name: Name, records: list[bytes], acks: Acks) -> int | None:
        def request(correlation: int) -> Request:
            return ProduceRequest(correlation, *name, acks, records)

        response = await self._until_done(name, request, None if acks == 0 else self._timeout_s)
        return response.offset if isinstance(response, ProduceResponse) else None

    async def consume(self, name: Name, offset: int) -> FetchedRecords:
        """The next committed records; none if all were read."""

        def request(correlation: int) -> Request:
            return FetchRequest(correlation, CONSUMER, *name, offset, 0)

        response = await self._until_done(name, request, _FETCH_SECONDS_MAX)
        assert isinstance(response, FetchResponse)
        return FetchedRecords(response.records, response.hw)

    async def consume_all(self, name: Name, offset: int = 0) -> list[bytes]:
        """All records that are committed now, from an offset on."""
        records: list[bytes] = []
        while fetched := (await self.consume(name, offset + len(records))).records:
            records += fetched
        return records

    async def _until_done(
        self, name: Name, request: Callable[[int], Request], response_s: float | None
    ) -> Response | None:
        """Send a request to the leader, and wait `response_s` for the response (None: there is no
        response). Ask the next leader if the partition has another one."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                response = await self._try(name, request, response_s)
                if response is None or response.error == NONE:
                    return response
                fault = f"the broker rejected the request (error code {response.error})"
                if response.error == OFFSET_OUT_OF_RANGE:
                    raise _partition_error(
                        name, "it has no records at this offset: use a smaller one"
                    )
                if response.error != NOT_LEADER_OR_FOLLOWER:
                    raise _partition_error(name, fault)
            except NoResponse as error:
                # The leader may have ended: the next request looks for it again.
                self._addresses.pop(name, None)
                if isinstance(request(0), ProduceRequest):
                    text = f"{error}; the records may have been appended. Consume to find out"
                    raise _partition_error(name, text) from None
                fault = str(error)
            except Unreachable as error:
                fault = str(error)
            except BadFrame as error:
                raise _partition_error(name, str(error)) from None
            self._addresses.pop(name, None)
            if time.monotonic() > deadline:
                raise _partition_error(name, f"no leader within {self._timeout_s:g} s: {fault}")
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _try(
        self, name: Name, request: Callable[[int], Request], response_s: float | None
    ) -> Response | None:
        connection = await self._connection(await self._address(name))
        numbered = request(connection.next_correlation())
        if response_s is not None:
            return await connection.ask(numbered, response_s)
        connection.send(numbered)
        await connection.drain()
        return None

    async def _address(self, name: Name) -> str:
        """The address of the leader. Raises Unreachable if there is none now."""
        if name not in self._addresses:
            paths = znodes.replicas_path(*name), znodes.leader_path(*name)
            replicas, found = await self._zookeeper.read(paths)
            if replicas is None:
                raise _partition_error(
                    name, f"it does not exist (no znode {paths[0]}); create it first"
                )
            if found is None:
                raise Unreachable("it has no leader")
            try:
                path = znodes.broker_path(znodes.read_leader(paths[1], found.data).broker)
                (registered,) = await self._zookeeper.read((path,))
                if registered is None:
                    raise Unreachable(f"its leader is not registered ({path})")
                self._addresses[name] = znodes.read_address(path, registered.data)
            except ZnodeError as error:
                # It may have been corrected.
                raise Unreachable(str(error)) from None
        return self._addresses[name]

    async def _connection(self, address: str) -> Connection:
        connection = self._connections.pop(address, None)
        if connection is None or not connection.is_open:
            if connection is not None:
                await connection.close()
            connection = await Connection.open(address, _FETCH_SECONDS_MAX)
        self._connections[address] = connection
        return connection


def _batches(records: list[bytes]) -> Iterator[list[bytes]]:
    """The records in their order, divided by what fits into a request."""
    batch: list[bytes] = []
    size = 0
    for record in records:
        size += len(record) + _RECORD_OVERHEAD_BYTES
        if batch and size > _BATCH_BYTES_MAX:
            yield batch
            batch, size = [], len(record) + _RECORD_OVERHEAD_BYTES
        batch.append(record)
    if batch:
        yield batch


def _partition_error(name: Name, text: str) -> ClientError:
    topic, partition = name
    return ClientError(f"{topic}-{partition}: {text}")
