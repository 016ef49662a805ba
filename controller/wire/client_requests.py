"""Headers and bodies of requests that the endpoint receives, and of their responses, with kio."""

import struct
from io import BytesIO
from struct import unpack_from
from typing import Any, Final, NamedTuple

from kio.index import KioIndexError, load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError

from controller.wire.errors import MalformedResponse, WireError
from controller.wire.reading import UNREADABLE, after_tags

HEAD_BYTES: Final = 8
"""The common start of every request, in all versions."""


class MalformedRequest(WireError):
    """The bytes are not a request of the version in their header."""


class UnknownTaggedField(MalformedRequest):
    """A request has a tagged field that kio does not know. It may be valid but cannot be
    decoded."""


class RequestHead(NamedTuple):
    """The part of a request header that all versions share."""

    api_key: int
    version: int
    correlation_id: int

    @property
    def description(self) -> str:
        """The request in error messages."""
        return f"request with api key {self.api_key} version {self.version}"


def read_head(frame: bytes) -> RequestHead:
    """The first `HEAD_BYTES` of a request."""
    return RequestHead(*unpack_from(">hhi", frame))


def read_header(frame: bytes, *, flexible: bool) -> tuple[str, int]:
    """The client id of a request, empty if it has none, and the position of its body.

    As in Kafka 3.9 (`RequestHeaderData.read`), a negative length means that there is no client id.
    Not for version 0 of ControlledShutdown, whose header has no client id. Raises
    `MalformedRequest`.
    """
    try:
        (length,) = unpack_from(">h", frame, HEAD_BYTES)
        begin = HEAD_BYTES + 2
        end = begin + max(int(length), 0)
        at = after_tags(frame, end) if flexible else end
    except UNREADABLE as fault:
        raise MalformedRequest("a request whose header cannot be read") from fault
    if at > len(frame):
        raise MalformedRequest("a request that ends within its header")
    return frame[begin:end].decode(errors="replace"), at


def response_schema(head: RequestHead) -> Any:
    """kio's class of the response to a request. Raises `MalformedRequest`."""
    try:
        return load_response_schema(head.api_key, head.version)
    except KioIndexError as fault:
        raise MalformedRequest(f"api key {head.api_key} version {head.version}: {fault}") from fault


def make_entity(schema: Any, fields: dict[str, Any]) -> Any:
    """An entity of kio, without the fields that its version does not have."""
    known = schema.__dataclass_fields__
    return schema(**{name: value for name, value in fields.items() if name in known})


def decode_request(head: RequestHead, frame: bytes) -> Any:
    """Decode the body of a whole request to kio's entity; bytes after it are ignored, as in Kafka.

    `read_header` reads the header, since kio does not treat a length below -1 as Kafka does. Raises
    `MalformedRequest`, `UnknownTaggedField`.
    """
    try:
        schema = load_request_schema(head.api_key, head.version)
        _, at = read_header(frame, flexible=schema.__header_schema__.__flexible__)
        return entity_reader(schema)(frame, at)[0]
    except (KioIndexError, SerialError, ValueError, struct.error) as fault:
        raise MalformedRequest(f"{head.description} cannot be read: {fault!r}") from fault
    except KeyError as fault:
        raise UnknownTaggedField(
            f"{head.description} has an unknown tagged field: {fault}"
        ) from fault


def encode_request(head: RequestHead, client_id: str, request: Any) -> bytes:
    """Encode a request as a frame: size, header, body."""
    header = request.__header_schema__(
        request_api_key=head.api_key,
        request_api_version=head.version,
        correlation_id=head.correlation_id,
        client_id=client_id,
    )
    return _frame(header, request)


def decode_response(head: RequestHead, frame: bytes) -> Any:
    """Decode the body of the response to a request. Raises `MalformedResponse`."""
    schema = response_schema(head)
    try:
        _, at = entity_reader(schema.__header_schema__)(frame, 0)
        return entity_reader(schema)(frame, at)[0]
    except (SerialError, ValueError, KeyError, struct.error) as fault:
        raise MalformedResponse(f"response to api key {head.api_key}: {fault!r}") from fault


def encode_response(head: RequestHead, response: Any) -> bytes:
    """Encode a response as a frame: size, header, body."""
    header = response.__header_schema__(correlation_id=head.correlation_id)
    return _frame(header, response)


def with_correlation_id(frame: bytes, correlation_id: int) -> bytes:
    """Return an encoded response with another correlation id, with which each response header
    begins, so that it answers another request."""
    return frame[:4] + struct.pack(">i", correlation_id) + frame[8:]


def _frame(header: Any, body: Any) -> bytes:
    frame = BytesIO()
    frame.write(bytes(4))
    entity_writer(type(header))(frame, header)
    entity_writer(type(body))(frame, body)
    size = frame.tell() - 4
    frame.seek(0)
    frame.write(struct.pack(">i", size))
    return frame.getvalue()
