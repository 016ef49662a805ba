"""The protocol between brokers and clients: a frame is the length of its content (4 bytes, big
endian) and a message in MessagePack."""

from asyncio import IncompleteReadError, StreamReader
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from controller.core.values import ANY_VERSION
from controller.core.znodes.schema import Int32, Natural32
from controller.kafka_0_8.events import CONSUMER
from controller.kafka_0_8_broker.errors import BadFrame
from controller.kafka_0_8_broker.segment import RECORD_BYTES_MAX

FRAME_BYTES_MAX: Final = 4 * RECORD_BYTES_MAX
_LENGTH_BYTES: Final = 4

Topic = Annotated[str, Meta(min_length=1)]
Offset = Annotated[int, Meta(ge=0, le=2**62)]
Replica = Annotated[int, Meta(ge=CONSUMER, le=2**31 - 1)]
Version = Annotated[int, Meta(ge=ANY_VERSION, le=2**31 - 1)]
Acks = Literal[-1, 0, 1]
Record = Annotated[bytes, Meta(max_length=RECORD_BYTES_MAX)]


class ProduceRequest(Struct, frozen=True, array_like=True, tag="produce"):
    """Append records to a partition."""

    correlation: Natural32
    topic: Topic
    partition: Natural32
    acks: Acks
    records: Annotated[list[Record], Meta(min_length=1)]


class FetchRequest(Struct, frozen=True, array_like=True, tag="fetch"):
    """Read a partition from an offset on. `replica` is CONSUMER for a consumer, `epoch` the leader
    epoch that a replica follows, `replicas_version` that of the replicas znode as it has read
    it last, `run` the run of its broker (ANY_VERSION: unknown)."""

    correlation: Natural32
    replica: Replica
    topic: Topic
    partition: Natural32
    offset: Offset
    epoch: Natural32
    replicas_version: Version = ANY_VERSION
    run: Version = ANY_VERSION


class ProduceResponse(Struct, frozen=True, array_like=True, tag="produced"):
    """A Kafka error code, the offset after the last record, and the leader if it is known."""

    correlation: Natural32
    error: Int32
    offset: Offset
    leader: Int32


class FetchResponse(Struct, frozen=True, array_like=True, tag="fetched"):
    """A Kafka error code, the records, and the leader's high watermark and log end offset."""

    correlation: Natural32
    error: Int32
    records: list[Record]
    hw: Offset
    leo: Offset


Request = ProduceRequest | FetchRequest
Response = ProduceResponse | FetchResponse

_requests: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_responses: msgspec.msgpack.Decoder[Response] = msgspec.msgpack.Decoder(Response)


def framed(message: Request | Response) -> bytes:
    """A message as a frame. Raises BadFrame if it is too long."""
    body = msgspec.msgpack.encode(message)
    if len(body) > FRAME_BYTES_MAX:
        raise BadFrame(f"a message of {len(body)} bytes; at most {FRAME_BYTES_MAX} are allowed")
    return len(body).to_bytes(_LENGTH_BYTES, "big") + body


async def read_request(stream: StreamReader) -> Request | None:
    """The next request; None at the end of the connection. Raises BadFrame, OSError."""
    frame = await _read_frame(stream)
    try:
        return None if frame is None else _requests.decode(frame)
    except msgspec.DecodeError as error:
        raise BadFrame(f"a frame is no request: {error}") from None


async def read_response(stream: StreamReader) -> Response | None:
    """The next response; None at the end of the connection. Raises BadFrame, OSError."""
    frame = await _read_frame(stream)
    try:
        return None if frame is None else _responses.decode(frame)
    except msgspec.DecodeError as error:
        raise BadFrame(f"a frame is no response: {error}") from None


async def _read_frame(stream: StreamReader) -> bytes | None:
    try:
        length = int.from_bytes(await stream.readexactly(_LENGTH_BYTES), "big")
        if length > FRAME_BYTES_MAX:
            raise BadFrame(f"a frame of {length} bytes; at most {FRAME_BYTES_MAX} are allowed")
        return await stream.readexactly(length)
    except IncompleteReadError:
        return None
