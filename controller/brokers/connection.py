"""One connection to a broker, through aiokafka. Requests are encoded before they are passed to
it."""

import errno
from collections.abc import Sequence
from typing import Final

from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import CorrelationIdError, KafkaError
from aiokafka.protocol.admin import DescribeConfigsRequest

from controller.brokers.errors import RefusedByBroker, Unreachable, WrongVersion
from controller.brokers.security import PLAIN, BrokerSecurity
from controller.core.events import ANSWERS, REFUSES, SILENT
from controller.core.topic_configs import ConfigEntry
from controller.core.values import Endpoint
from controller.security.tls_errors import reason_of
from controller.wire.aiokafka_request import AiokafkaRequest, UnreadableHeader
from controller.wire.apis import Api
from controller.wire.broker_responses import BrokerResponse, decode_broker_response
from controller.wire.errors import MalformedResponse
from controller.wire.framing import EncodedRequest, read_response_header

WRONG_PROTOCOL_VERSION = "inter.broker.protocol.version is probably wrong for this broker"

_BROKER: Final = 4
"""ConfigResource.Type of a broker."""


class BrokerConnection:
    """An open connection, for one request at a time."""

    def __init__(self, connection: AIOKafkaConnection, address: str) -> None:
        self._connection = connection
        self._address = address

    @classmethod
    async def open(
        cls,
        endpoint: Endpoint,
        client_id: str,
        timeout_ms: int,
        security: BrokerSecurity = PLAIN,
    ) -> "BrokerConnection":
        """Connect and request the broker's API versions. Raises `Unreachable`."""
        address = f"{endpoint.host}:{endpoint.port} ({endpoint.listener})"
        connection = AIOKafkaConnection(
            endpoint.host,
            endpoint.port,
            client_id=client_id,
            request_timeout_ms=timeout_ms,
            **security.arguments(endpoint),
        )
        try:
            await connection.connect()
        except TimeoutError as fault:
            raise Unreachable(f"{address}: no connection within {timeout_ms} ms") from fault
        # aiokafka checks the ApiVersions response with assertions and unpacking, which raise these.
        except (OSError, KafkaError, AssertionError, ValueError) as fault:
            raise Unreachable(
                f"{address}: {reason_of(fault)}", is_refused=_is_refused(fault)
            ) from fault
        return cls(connection, address)

    @property
    def is_open(self) -> bool:
        """Whether the broker has not closed the connection, as far as is known."""
        return bool(self._connection.connected())

    @property
    def highest_versions(self) -> list[tuple[int, int]]:
        """The highest version that the broker supports of each API, by API key."""
        offered: dict[int, tuple[int, int]] = self._connection._versions
        return sorted((api_key, highest) for api_key, (_, highest) in offered.items())

    def version_for(self, api: Api, wanted: int) -> int:
        """The version to send: the wanted one, or the highest supported one below it.

        Raises `WrongVersion` if the broker and refold have no common version.
        """
        # aiokafka passes the API versions only to prepare(), when a request is already encoded.
        offered: tuple[int, int] | None = self._connection._versions.get(api.key)
        if offered is None:
            raise WrongVersion(
                f"{self._address} does not support {api.name}: is it a ZooKeeper-mode broker?"
            )
        lowest, highest = offered
        version = min(wanted, highest, api.last)
        if version < max(lowest, api.first):
            raise WrongVersion(
                f"{self._address} supports {api.name} {lowest} to {highest}, but version "
                f"{wanted} is needed and refold supports versions from {api.first} on: "
                f"{WRONG_PROTOCOL_VERSION}"
            )
        return version

    async def exchange(self, request: EncodedRequest) -> BrokerResponse:
        """Send a request and wait for its response. The connection is unusable after an error.

        Raises `Unreachable` (no response in time), `RefusedByBroker`, `WrongVersion`.
        """
        what = f"{request.api.name} version {request.version}"
        try:
            # The header includes the broker's own part, so that the shared part is not copied.
            frame: bytes = await self._connection.send(
                AiokafkaRequest(
                    lambda *ids: request.header(*ids) + request.head,
                    request.rest,
                )
            )
        except TimeoutError as fault:
            raise Unreachable(f"{self._address}: no response to {what} in time") from fault
        except (OSError, KafkaError) as fault:
            if isinstance(fault, CorrelationIdError) or isinstance(
                fault.__cause__, UnreadableHeader
            ):
                raise WrongVersion(f"{self._address}: response to {what}: {fault}") from fault
            raise RefusedByBroker(
                f"{self._address} closed the connection on {what}: {WRONG_PROTOCOL_VERSION}"
            ) from fault
        try:
            _, start = read_response_header(frame, request.api.is_flexible(request.version))
            return decode_broker_response(request.api, request.version, frame[start:])
        except MalformedResponse as fault:
            raise WrongVersion(f"{self._address}: {fault}: {WRONG_PROTOCOL_VERSION}") from fault

    async def settings_of(self, broker: int, keys: Sequence[str]) -> list[ConfigEntry]:
        """The broker's values of these settings; unset ones are omitted.

        Raises `Unreachable` (no readable response), `RefusedByBroker`.
        """
        try:
            answer = await self._connection.send(
                DescribeConfigsRequest([(_BROKER, str(broker), list(keys))])
            )
        except (OSError, KafkaError, ValueError) as fault:
            raise Unreachable(
                f"{self._address}: no response to DescribeConfigs: {fault}"
            ) from fault
        ((error, message, _, _, entries),) = answer.resources
        if error:
            raise RefusedByBroker(f"{self._address}: DescribeConfigs: {message} (code {error})")
        return [ConfigEntry(name, value, source) for name, value, _, source, *_ in entries if value]

    def close(self) -> None:
        """Close at once; a pending response is abandoned."""
        self._connection.close()


def _is_refused(fault: Exception) -> bool:
    """Whether no process listens on the address. With several addresses of a host, asyncio puts the
    errors into one text."""
    text = str(fault)
    refused = text.count(f"[Errno {errno.ECONNREFUSED}]")
    return isinstance(fault, OSError) and 0 < refused == text.count("[Errno ")


async def probe(
    endpoint: Endpoint, client_id: str, timeout_ms: int, security: BrokerSecurity = PLAIN
) -> tuple[str, str]:
    """Whether a broker answers at an address: `ANSWERS`, `REFUSES` or `SILENT`, and the reason."""
    try:
        connection = await BrokerConnection.open(endpoint, client_id, timeout_ms, security)
    except Unreachable as error:
        return REFUSES if error.is_refused else SILENT, str(error)
    connection.close()
    return ANSWERS, ""
