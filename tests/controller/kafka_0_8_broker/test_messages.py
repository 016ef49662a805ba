"""Frames: what is read back, and what is rejected."""

from asyncio import StreamReader

import msgspec
import pytest

from controller.kafka_0_8_broker.errors import BadFrame
from controller.kafka_0_8_broker.messages import (
    FRAME_BYTES_MAX,
    FetchRequest,
    FetchResponse,
    ProduceRequest,
    ProduceResponse,
    framed,
    read_request,
    read_response,
)


def stream(*parts: bytes) -> StreamReader:
    """A connection that ends after these bytes."""
    reader = StreamReader()
    for part in parts:
        reader.feed_data(part)
    reader.feed_eof()
    return reader


def frame_of(content: object) -> bytes:
    """A frame with any MessagePack content."""
    body = msgspec.msgpack.encode(content)
    return len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize(
    "request_",
    [ProduceRequest(1, "t", 0, -1, [b"a", b""]), FetchRequest(2, -1, "t", 3, 2**40, 5)],
)
async def test_request_is_read_back(request_) -> None:
    reader = stream(framed(request_), framed(request_))
    assert [await read_request(reader) for _ in range(3)] == [request_, request_, None]


@pytest.mark.parametrize(
    "response", [ProduceResponse(1, 6, 0, -1), FetchResponse(2, 0, [b"a"], 1, 2)]
)
async def test_response_is_read_back(response) -> None:
    assert await read_response(stream(framed(response))) == response


@pytest.mark.parametrize(
    "content",
    [
        7,
        "text",
        [],
        ["produce"],
        ["fetch", 1, -2, "t", 0, 0, 0],
        ["fetch", 1, -1, "t", -1, 0, 0],
        ["fetch", 1, -1, "t", 0, -1, 0],
        ["fetch", 1, -1, "", 0, 0, 0],
        ["fetched", 1, 0, [], 0, 0],
        ["produce", 1, "t", 0, 2, [b"a"]],
        ["produce", 1, "t", 0, 1, []],
        ["produce", 1, "t", 0, 1, ["text", 3]],
        ["produce", 1, "t", 0, 1, [b"x" * (1 << 20) + b"y"]],
        ["produce", -1, "t", 0, 1, [b"a"]],
    ],
)
async def test_frame_that_is_no_request_is_rejected(content: object) -> None:
    with pytest.raises(BadFrame, match="a frame is no request"):
        await read_request(stream(frame_of(content)))


async def test_garbage_is_rejected() -> None:
    with pytest.raises(BadFrame):
        await read_request(stream(b"\0\0\0\3\xc1\xc1\xc1"))


@pytest.mark.parametrize("start", [b"GET / HTTP/1.1\r\n\r\n", b"\xff\xff\xff\xff", b"\0\x40\0\1"])
async def test_oversized_frame_is_rejected_before_it_is_read(start: bytes) -> None:
    with pytest.raises(BadFrame, match=f"at most {FRAME_BYTES_MAX} are allowed"):
        await read_request(stream(start))


@pytest.mark.parametrize("part", [b"\0", b"\0\0\0\5abc"])
async def test_connection_that_ends_within_a_frame_is_only_ended(part: bytes) -> None:
    assert await read_request(stream(part)) is None


def test_message_that_is_too_long_is_not_sent() -> None:
    records = [b"x" * (1 << 20)] * 5
    with pytest.raises(BadFrame, match="at most"):
        framed(ProduceRequest(1, "t", 0, 1, records))
