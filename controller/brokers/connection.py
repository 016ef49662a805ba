"""One connection to a broker: aiokafka's, which requests pass as ready-made bytes."""

from collections.abc import Sequence
from io import BytesIO
from typing import Final, NamedTuple

from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import CorrelationIdError, KafkaError
from aiokafka.protocol.admin import DescribeConfigsRequest

from controller.brokers.errors import RequestRefused, Unreachable, WrongVersion
from controller.core.values import Endpoint
from controller.wire.answers import Answer, decode_answer
from controller.wire.apis import Api
from controller.wire.errors import MalformedResponse
from controller.wire.framing import EncodedRequest, read_response_header

WRONG_PROTOCOL_VERSION = "inter.broker.protocol.version is probably wrong for this broker"

_BROKER: Final = 4
"""ConfigResource.Type of a broker."""


class BrokerConnection:
    """A connection that stands, for one request at a time."""

    def __init__(self, connection: AIOKafkaConnection, address: str) -> None:
        self._connection = connection
        self._address = address

    @classmethod
    async def open(cls, endpoint: Endpoint, client_id: str, timeout_ms: int) -> "BrokerConnection":
        """Connect and ask which versions the broker offers. Raises `Unreachable`."""
        address = f"{endpoint.host}:{endpoint.port} ({endpoint.listener})"
        if endpoint.security_protocol != "PLAINTEXT":
            raise Unreachable(f"{address}: refold does not speak {endpoint.security_protocol} yet")
        connection = AIOKafkaConnection(
            endpoint.host, endpoint.port, client_id=client_id, request_timeout_ms=timeout_ms
        )
        try:
            await connection.connect()
        except TimeoutError as fault:
            raise Unreachable(f"{address}: no connection within {timeout_ms} ms") from fault
        # Its ApiVersions answer is checked by assertions and by unpacking: garbage raises those.
        except (OSError, KafkaError, AssertionError, ValueError) as fault:
            raise Unreachable(f"{address}: {fault}") from fault
        return cls(connection, address)

    @property
    def is_open(self) -> bool:
        """Whether the broker has not closed it yet, as far as is known."""
        return bool(self._connection.connected())

    @property
    def highest_versions(self) -> list[tuple[int, int]]:
        """The highest version that the broker offers of each API, by API key."""
        offered: dict[int, tuple[int, int]] = self._connection._versions
        return sorted((api_key, highest) for api_key, (_, highest) in offered.items())

    def version_for(self, api: Api, wanted: int) -> int:
        """The version to send: the one wanted, or the highest offered below it.

        Raises `WrongVersion` where the broker and refold have none in common.
        """
        # aiokafka keeps the answer to ApiVersions to itself; it hands it to prepare() only, and
        # by then a request is encoded already.
        offered: tuple[int, int] | None = self._connection._versions.get(api.key)
        if offered is None:
            raise WrongVersion(
                f"{self._address} does not offer {api.name}: is it a ZooKeeper-mode broker?"
            )
        lowest, highest = offered
        version = min(wanted, highest, api.last)
        if version < max(lowest, api.first):
            raise WrongVersion(
                f"{self._address} offers {api.name} {lowest} to {highest}, version {wanted} is "
                f"wanted and refold speaks from {api.first} on: {WRONG_PROTOCOL_VERSION}"
            )
        return version

    async def exchange(self, request: EncodedRequest) -> Answer:
        """Send a request and wait for its answer. The connection is of no use after an error.

        Raises `Unreachable` (no answer in time), `RequestRefused`, `WrongVersion`.
        """
        what = f"{request.api.name} version {request.version}"
        try:
            body: bytes = await self._connection.send(_ReadyRequest(request))
        except TimeoutError as fault:
            raise Unreachable(f"{self._address}: no answer to {what} in time") from fault
        except (OSError, KafkaError) as fault:
            if isinstance(fault, CorrelationIdError) or isinstance(fault.__cause__, _Unreadable):
                raise WrongVersion(f"{self._address}: answer to {what}: {fault}") from fault
            raise RequestRefused(
                f"{self._address} closed the connection at {what}: {WRONG_PROTOCOL_VERSION}"
            ) from fault
        try:
            return decode_answer(request.api, request.version, body)
        except MalformedResponse as fault:
            raise WrongVersion(f"{self._address}: {fault}: {WRONG_PROTOCOL_VERSION}") from fault

    async def settings_of(self, broker: int, keys: Sequence[str]) -> dict[str, str]:
        """Those of these settings that the broker has a value for.

        Raises `Unreachable` (no answer that can be read), `RequestRefused`.
        """
        try:
            answer = await self._connection.send(
                DescribeConfigsRequest([(_BROKER, str(broker), list(keys))])
            )
        except (OSError, KafkaError, ValueError) as fault:
            raise Unreachable(f"{self._address}: no answer to DescribeConfigs: {fault}") from fault
        ((error, message, _, _, entries),) = answer.resources
        if error:
            raise RequestRefused(f"{self._address}: DescribeConfigs: {message} (code {error})")
        return {name: value for name, value, *_ in entries if value}

    def close(self) -> None:
        """Close at once; an answer that is still awaited is given up."""
        self._connection.close()


class _Unreadable(EOFError):
    """A response without a whole header: an EOFError, so that aiokafka just closes."""


class _ResponseHeader(NamedTuple):
    correlation_id: int


class _Bytes(NamedTuple):
    """A header that is encoded already, in the form that aiokafka asks for."""

    encoded: bytes

    def encode(self) -> bytes:
        return self.encoded


class _Body:
    """What aiokafka takes for the response type: leaves the body as it is."""

    @staticmethod
    def decode(frame: BytesIO) -> bytes:
        return frame.read()


class _ReadyRequest:
    """An encoded request as aiokafka wants it (its Request and RequestStruct in one)."""

    RESPONSE_TYPE = _Body

    def __init__(self, request: EncodedRequest) -> None:
        self._request = request

    def prepare(self, versions: dict[int, tuple[int, int]]) -> "_ReadyRequest":
        return self

    def build_request_header(self, correlation_id: int, client_id: str) -> _Bytes:
        # The broker's own head goes with the header: the shared rest is passed on uncopied.
        return _Bytes(self._request.header(correlation_id, client_id) + self._request.head)

    def encode(self) -> bytes:
        return self._request.rest

    def parse_response_header(self, frame: BytesIO) -> _ResponseHeader:
        api, version = self._request.api, self._request.version
        try:
            header = read_response_header(frame.getvalue(), api.is_flexible(version))
        except MalformedResponse as fault:
            raise _Unreadable(str(fault)) from fault
        frame.seek(header[1])
        return _ResponseHeader(header[0])
