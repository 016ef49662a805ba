"""A request that is encoded already, in the form in which aiokafka's connections send it."""

from collections.abc import Callable
from io import BytesIO
from typing import NamedTuple

_CORRELATION_ID_BYTES = 4


class UnreadableHeader(EOFError):
    """A response without a correlation id. As an EOFError it makes aiokafka close the
    connection."""


class _RequestHeader(NamedTuple):
    encoded: bytes

    def encode(self) -> bytes:
        return self.encoded


class _ResponseHeader(NamedTuple):
    correlation_id: int


class AiokafkaRequest:
    """aiokafka's Request, RequestStruct and Response in one.

    `header` encodes the header, and what follows it up to `rest`, from the correlation id and the
    client id. `send` returns the response as bytes, its header included.
    """

    def __init__(self, header: Callable[[int, str], bytes], rest: bytes = b"") -> None:
        self._header = header
        self._rest = rest

    @property
    def RESPONSE_TYPE(self) -> "AiokafkaRequest":
        """The decoder of the response."""
        return self

    def prepare(self, versions: dict[int, tuple[int, int]]) -> "AiokafkaRequest":
        """The request in a version that the broker supports: always this one."""
        return self

    def build_request_header(self, correlation_id: int, client_id: str) -> _RequestHeader:
        """The encoded header, and what follows it up to the rest."""
        return _RequestHeader(self._header(correlation_id, client_id))

    def encode(self) -> bytes:
        """The rest of the request."""
        return self._rest

    def parse_response_header(self, frame: BytesIO) -> _ResponseHeader:
        """The correlation id of a response. Raises UnreadableHeader."""
        start = frame.read(_CORRELATION_ID_BYTES)
        if len(start) < _CORRELATION_ID_BYTES:
            raise UnreadableHeader(f"a response of {len(start)} bytes has no header")
        return _ResponseHeader(int.from_bytes(start, "big", signed=True))

    def decode(self, frame: BytesIO) -> bytes:
        """The response as bytes, its header included."""
        return frame.getvalue()
