"""The server's encoding, against the client of the tests that compare with a real server."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.events import WatchFired
from controller.core.operations import Check, Create, CreateSequential, Delete, SetData
from controller.zookeeper import wire
from replay.world.ensemble.codec import BadRequest, ServerCodec, Unimplemented
from replay.world.ensemble.protocol import (
    CloseSession,
    ConnectRequest,
    ConnectResponse,
    Ping,
    ReplyPacket,
    RequestPacket,
)
from replay.world.requests import (
    AddWatch,
    Exists,
    GetChildren,
    GetData,
    Multi,
    MultiRead,
    Request,
    SetWatches,
    Sync,
)
from replay.world.zookeeper import ZooKeeper
from tests.replay.world.real_zookeeper import Packet, encode
from tests.replay.world.test_conformance import as_on_the_wire

PATHS = st.sampled_from(["/a", "/b", "/a/c", "/ä", "none"])
DATA = st.binary(max_size=3)
VERSIONS = st.integers(-1, 1)
WRITES = st.one_of(
    st.builds(Create, PATHS, DATA, st.booleans()),
    st.builds(CreateSequential, PATHS, DATA, st.booleans()),
    st.builds(SetData, PATHS, DATA, VERSIONS),
    st.builds(Delete, PATHS, VERSIONS),
)
READS = st.one_of(st.builds(GetData, PATHS), st.builds(GetChildren, PATHS))
LISTS = st.lists(PATHS, max_size=2).map(tuple)
REQUESTS = st.one_of(
    WRITES,
    READS,
    st.builds(Exists, PATHS, st.booleans()),
    st.builds(AddWatch, PATHS, st.booleans()),
    st.builds(Sync, PATHS),
    st.lists(st.one_of(WRITES, st.builds(Check, PATHS, VERSIONS)), max_size=3).map(
        lambda operations: Multi(tuple(operations))
    ),
    st.lists(READS, max_size=3).map(lambda reads: MultiRead(tuple(reads))),
    st.builds(SetWatches, st.integers(0, 3), LISTS, LISTS, LISTS, LISTS, LISTS),
)


def connected(*, is_old: bool = False) -> ServerCodec:
    """The codec of a connection after its ConnectRequest."""
    codec = ServerCodec(is_old=is_old)
    assert list(codec.read(wire.connect_request(5, 6_000, 7, b"p" * 16))) == [
        ConnectRequest(5, 6_000, 7, b"p" * 16)
    ]
    return codec


@given(st.lists(REQUESTS, max_size=6))
def test_requests_and_replies_are_what_the_client_means(requests: list[Request]) -> None:
    server, codec = ZooKeeper(), connected()
    session = server.create_session()
    for xid, request in enumerate(requests):
        opcode, body = encode(request)
        (packet,) = codec.read(wire.framed(xid, struct.pack(">i", opcode) + body))
        assert isinstance(packet, RequestPacket)
        assert (packet.xid, packet.request) == (xid, request)
        reply = server.apply(session, request, 0)
        encoded = codec.write(ReplyPacket(xid, reply), packet.forms)
        assert struct.unpack_from(">i", encoded) == (len(encoded) - 4,)
        answer = Packet(encoded[4:])
        assert answer.number() == xid
        assert answer.reply(opcode) == as_on_the_wire(request, reply)


def test_requests_without_arguments_and_handshakes() -> None:
    codec = connected()
    frames = wire.ping_request() + wire.framed(3, wire.close_request())
    assert [
        (one.xid, one.request) for one in codec.read(frames) if isinstance(one, RequestPacket)
    ] == [
        (-2, Ping()),
        (3, CloseSession()),
    ]
    answer = codec.write(ConnectResponse(6_000, 9, b"q" * 16))
    assert wire.read_handshake(answer[4:]) == wire.Handshake(6_000, 9, b"q" * 16)


@pytest.mark.parametrize("change", ["created", "deleted", "data", "children"])
def test_watch_event_has_its_change_and_zxid(change: str) -> None:
    frame = connected().write(WatchFired("/ä", change, 4))[4:]
    assert wire.read_header(frame) == wire.ReplyHeader(wire.WATCH_EVENT_XID, 4, 0)
    assert wire.read_watch_event(frame) == wire.WatchNotice("/ä", change)


def test_incomplete_requests_are_read_when_they_are_complete() -> None:
    codec, ping = connected(), wire.ping_request()
    assert list(codec.read(ping[:5])) == []
    assert len(list(codec.read(ping[5:] + ping))) == 2


@pytest.mark.parametrize(
    "body",
    [
        struct.pack(">i", 77) + b"\0\0\0\1/",
        struct.pack(">i", 13) + b"\0\0\0\1/" + b"\0\0\0\0",
        struct.pack(">i", 4) + b"\0\0\0\7/",
        struct.pack(">i", 4),
        struct.pack(">i", 4) + b"\0\0\0\1\xff\0",
    ],
)
def test_malformed_request_is_an_error(body: bytes) -> None:
    with pytest.raises(BadRequest):
        list(connected().read(wire.framed(1, body)))


def test_old_server_does_not_know_multi_reads() -> None:
    opcode, body = encode(MultiRead((GetData("/"),)))
    with pytest.raises(Unimplemented):
        list(connected(is_old=True).read(wire.framed(1, struct.pack(">i", opcode) + body)))
