"""A transaction log is read as it was written, up to its damage."""

import io
import struct
import tracemalloc
from zlib import adler32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.stock_clusters.zookeeper_log.log_file import RECORD_BYTES_MAX, TransactionLogReader
from replay.stock_clusters.zookeeper_log.transactions import (
    OPEN_ACL,
    CloseSession,
    Create,
    Delete,
    OpCode,
    Transaction,
    TreeDigest,
)
from tests.replay.stock_clusters.zookeeper_log.samples import (
    TRANSACTIONS,
    at,
    create,
    error,
    log_bytes,
    multi,
    patient,
    read,
)
from tools.zookeeper_log.file_format import encode_transaction, log_header, log_record

THREE = [error(1), error(2), error(3)]
RECORD_BYTES = len(log_record(THREE[0]))
HEADER_BYTES = len(log_header())
TWO_RECORDS_BYTES = HEADER_BYTES + 2 * RECORD_BYTES


def raw_record(body: bytes) -> bytes:
    return struct.pack(">qi", adler32(body), len(body)) + body + b"B"


@patient
@given(st.lists(TRANSACTIONS, max_size=5), st.sampled_from([0, 1000, 100_000]))
def test_written_transactions_are_read(transactions: list[Transaction], preallocated: int) -> None:
    assert read(log_bytes(transactions, preallocated)) == (transactions, None)


@patient
@given(st.lists(TRANSACTIONS, min_size=1, max_size=3), st.data())
def test_complete_records_of_a_truncated_log_are_read(
    transactions: list[Transaction], data: st.DataObject
) -> None:
    whole = log_bytes(transactions)
    size = data.draw(st.integers(0, len(whole) - 1))
    good, damage = read(whole[:size])
    assert good == transactions[: len(good)]
    boundaries = [len(log_bytes(transactions[:count])) for count in range(len(transactions) + 1)]
    begin = max((one for one in boundaries if one <= size), default=0)
    if begin and not any(whole[begin:size]):
        # A checksum begins with zeros, so nothing shows that a record was begun.
        assert damage is None
    else:
        assert damage is not None
        assert damage.is_torn
        assert damage.offset == begin


def test_empty_file_is_torn() -> None:
    good, damage = read(b"")
    assert (good, damage and damage.is_torn) == ([], True)


def test_incomplete_record_in_preallocated_space_is_torn() -> None:
    whole = log_bytes(THREE)
    # A checksum begins with four zeros: a shorter remainder does not differ from free space.
    for lost in range(1, RECORD_BYTES - 4):
        good, damage = read(whole[:-lost] + bytes(1000))
        assert good == THREE[:2], lost
        assert damage is not None
        assert damage.is_torn, lost
        assert (damage.offset, damage.zxid) == (HEADER_BYTES + 2 * RECORD_BYTES, 2)


@pytest.mark.parametrize(
    ("size", "zeros", "is_cut"),
    [
        (TWO_RECORDS_BYTES - 1, 0, True),
        (TWO_RECORDS_BYTES, 0, True),
        (TWO_RECORDS_BYTES + 4, 0, True),
        (TWO_RECORDS_BYTES - 1, 5000, False),
        (TWO_RECORDS_BYTES, 5000, False),
    ],
)
def test_file_is_cut_if_no_zeros_follow_the_last_record(
    size: int, zeros: int, is_cut: bool
) -> None:
    reader = TransactionLogReader(io.BytesIO(log_bytes(THREE)[:size] + bytes(zeros)), "log.1")
    assert [*reader] == THREE[: reader.zxid]
    assert reader.is_cut == is_cut


def test_damage_has_its_file_offset_and_zxid() -> None:
    content = bytearray(log_bytes(THREE))
    content[HEADER_BYTES + 2 * RECORD_BYTES + 20] ^= 1
    good, damage = read(bytes(content), "server1/version-2/log.1")
    assert good == THREE[:2]
    assert str(damage) == (
        f"server1/version-2/log.1 ends at offset {HEADER_BYTES + 2 * RECORD_BYTES}, at zxid 0x2:"
        " the checksum of the record there is wrong"
    )


@pytest.mark.parametrize("place", range(HEADER_BYTES, HEADER_BYTES + RECORD_BYTES))
def test_every_changed_bit_of_a_record_is_noticed(place: int) -> None:
    content = bytearray(log_bytes(THREE))
    content[place] ^= 0x10
    good, damage = read(bytes(content))
    assert good == []
    assert damage is not None
    assert (damage.offset, damage.zxid) == (HEADER_BYTES, None)


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, RECORD_BYTES_MAX + 1])
def test_impossible_length_ends_the_file(size: int) -> None:
    content = log_bytes(THREE[:1]) + struct.pack(">qi", 1, size) + b"x" * 100
    good, damage = read(content)
    assert good == THREE[:1]
    assert damage is not None
    assert f"a record of {size} bytes is impossible" in damage.reason
    assert not damage.is_torn


def test_wrong_length_takes_no_memory() -> None:
    content = log_bytes(THREE[:1]) + struct.pack(">qi", 1, RECORD_BYTES_MAX) + b"x" * 100
    tracemalloc.start()
    try:
        read(content)
        assert tracemalloc.get_traced_memory()[1] < 8 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_long_log_is_read_in_bounded_memory() -> None:
    record = log_record(at(1, OpCode.CREATE, create("/a", 1, bytes(10_000))))
    stream = io.BytesIO(log_header() + record * 2000)
    tracemalloc.start()
    try:
        assert sum(1 for _ in TransactionLogReader(stream, "log.1")) == 2000
        assert tracemalloc.get_traced_memory()[1] < 8 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_zeros_before_more_records_are_damage() -> None:
    content = log_bytes(THREE[:1]) + bytes(2_000_000) + log_record(THREE[1])
    good, damage = read(content)
    assert good == THREE[:1]
    assert damage is not None
    assert damage.reason == "there are zeros, and then something else"
    assert not damage.is_torn


def test_missing_trailer_before_more_records_is_damage() -> None:
    content = log_bytes(THREE[:1])[:-1] + b"\0" + log_record(THREE[1])
    good, damage = read(content)
    assert good == []
    assert damage is not None
    assert not damage.is_torn
    assert "does not end with B" in damage.reason


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (b"ZKSN" + struct.pack(">iq", 2, 0), "begins with b'ZKSN'"),
        (b"ZKLG" + struct.pack(">iq", 1, 0), "format version 1"),
    ],
)
def test_file_of_another_format_is_rejected(header: bytes, text: str) -> None:
    good, damage = read(header + log_record(error(1)))
    assert good == []
    assert text in str(damage)


@pytest.mark.parametrize(
    ("opcode", "body", "text"),
    [
        (99, b"", "transactions of type 99 are unknown"),
        (OpCode.SET_DATA, struct.pack(">i", 5) + b"/a", "a name of 5 bytes does not fit"),
        (OpCode.SET_DATA, struct.pack(">i2s", 2, b"/a"), "longer than its record"),
        (OpCode.SET_DATA, struct.pack(">i2si", 2, b"/a", 9), "a field of 9 bytes does not fit"),
        (OpCode.DELETE, struct.pack(">i", -1), "a name of -1 bytes does not fit"),
        (OpCode.MULTI, struct.pack(">i", -2), "a list of -2 items"),
        (OpCode.MULTI, struct.pack(">i", 2**31 - 1), "longer than its record"),
        (OpCode.MULTI, struct.pack(">iii", 1, 14, 0), "operations of type 14 in a multi"),
        (OpCode.MULTI, struct.pack(">iiii", 1, -1, 3, 0), "an operation of 3 bytes does not fit"),
        (OpCode.MULTI, struct.pack(">iiii", 1, -1, 5, 0), "an operation of 5 bytes does not fit"),
    ],
)
def test_record_without_a_valid_transaction_ends_the_file(
    opcode: int, body: bytes, text: str
) -> None:
    record = struct.pack(">qiqqi", 7, 1, 2, 3, opcode) + body
    good, damage = read(log_bytes(THREE[:1]) + raw_record(record) + log_record(error(3)))
    assert good == THREE[:1]
    assert damage is not None
    assert text in damage.reason
    assert (damage.offset, damage.zxid) == (HEADER_BYTES + RECORD_BYTES, 1)


def test_create_of_servers_before_3_4_has_no_parent_cversion() -> None:
    body = encode_transaction(at(1, OpCode.CREATE, create("/a", 5, b"x", ephemeral=True)))[:-4]
    good, damage = read(log_header() + raw_record(body))
    assert damage is None
    assert good[0].content == Create("/a", b"x", OPEN_ACL, True, -1)


def test_close_session_before_3_6_lists_no_paths() -> None:
    closed = at(1, OpCode.CLOSE_SESSION, CloseSession(None))
    assert read(log_bytes([closed])) == ([closed], None)


@pytest.mark.parametrize("paths", [None, (), ("/a",), ("/abc",), ("/a", "/b")])
@pytest.mark.parametrize("value", [0, 0x100000000, -1])
def test_digest_after_a_close_session_is_not_read_as_a_path(
    paths: tuple[str, ...] | None, value: int
) -> None:
    plain = at(1, OpCode.CLOSE_SESSION, CloseSession(paths))
    digest = TreeDigest(2, value)
    summed = Transaction(2, 7, 1, 1002, OpCode.CLOSE_SESSION, CloseSession(paths), digest)
    assert read(log_bytes([plain, summed])) == ([plain, summed], None)


def test_refused_multi_has_its_error() -> None:
    check = (OpCode.DELETE, Delete("/a"))
    refused = (OpCode.ERROR, error(1, -103).content)
    not_tried = (OpCode.ERROR, error(1, -2).content)
    assert multi(1, check, refused, not_tried).content.error == -103
    assert multi(1, check, check).content.error == 0


def test_bytes_read_are_reported() -> None:
    content = log_bytes(THREE, preallocated=3_000_000)
    reported: list[int] = []
    list(TransactionLogReader(io.BytesIO(content), "log.1", reported.append))
    assert sum(reported) == len(content)
    assert len(reported) > 2
