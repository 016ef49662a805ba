"""Reading a file of any bytes ends, with no error other than `ReplayError`."""

import io
from contextlib import suppress
from zlib import adler32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.errors import ReplayError
from replay.stock_clusters.zookeeper_log.log_file import TransactionLogReader
from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState
from replay.stock_clusters.zookeeper_log.transactions import Transaction
from tests.replay.stock_clusters.zookeeper_log.samples import TRANSACTIONS, log_bytes, patient
from tests.replay.stock_clusters.zookeeper_log.test_snapshot_file import SNAPSHOTS, snapshot_bytes
from tools.zookeeper_log.file_format import encode_transaction, log_header

EDITS = st.lists(
    st.tuples(
        st.sampled_from(["flip", "cut", "insert", "drop", "zero"]),
        st.floats(0, 1, exclude_max=True),
        st.binary(min_size=1, max_size=12),
    ),
    min_size=1,
    max_size=4,
)


def edited(content: bytes, edits: list[tuple[str, float, bytes]]) -> bytes:
    """The content with bytes flipped, cut off, inserted, removed or zeroed."""
    for how, where, edit in edits:
        place = int(where * len(content))
        end = place + len(edit)
        match how:
            case "flip":
                flipped = [a ^ b for a, b in zip(content[place:end], edit, strict=False)]
                content = content[:place] + bytes(flipped) + content[end:]
            case "cut":
                content = content[:place]
            case "insert":
                content = content[:place] + edit + content[place:]
            case "drop":
                content = content[:place] + content[end:]
            case _:
                content = content[:place] + bytes(len(edit)) + content[end:]
    return content


def apply_all(content: bytes) -> int:
    state, count = ZooKeeperState(), 0
    for transaction in TransactionLogReader(io.BytesIO(content), "log.1"):
        state.apply(transaction)
        count += 1
    return count


@patient
@given(st.lists(TRANSACTIONS, min_size=1, max_size=4), EDITS)
def test_edited_log_is_read_without_a_traceback(
    transactions: list[Transaction], edits: list[tuple[str, float, bytes]]
) -> None:
    apply_all(edited(log_bytes(transactions), edits))


@patient
@given(TRANSACTIONS, EDITS)
def test_edited_transaction_with_a_valid_checksum_is_read_without_a_traceback(
    transaction: Transaction, edits: list[tuple[str, float, bytes]]
) -> None:
    body = edited(encode_transaction(transaction), edits)
    size = len(body).to_bytes(4, "big")
    content = log_header() + adler32(body).to_bytes(8, "big") + size + body + b"B"
    assert apply_all(content) <= 1


@patient
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_read_as_a_log_without_a_traceback(content: bytes) -> None:
    apply_all(content)
    apply_all(log_header() + content)


@patient
@given(st.lists(TRANSACTIONS, max_size=30))
def test_transactions_that_no_server_wrote_are_applied(transactions: list[Transaction]) -> None:
    assert apply_all(log_bytes(transactions)) == len(transactions)


@pytest.mark.parametrize("name", ["snapshot.1", "snapshot.1.gz", "snapshot.1.snappy"])
@patient
@given(SNAPSHOTS, EDITS)
def test_edited_snapshot_is_read_or_rejected(
    name: str, snapshot: tuple, edits: list[tuple[str, float, bytes]]
) -> None:
    content = edited(snapshot_bytes(name, *snapshot), edits)
    # Bytes after the checksums may be missing without an error.
    with suppress(ReplayError):
        ZooKeeperState.load(io.BytesIO(content), name, 1)


@pytest.mark.parametrize("name", ["snapshot.1", "snapshot.1.gz", "snapshot.1.snappy"])
@patient
@given(st.binary(max_size=100))
def test_arbitrary_bytes_are_rejected_as_a_snapshot(name: str, content: bytes) -> None:
    with pytest.raises(ReplayError, match=name):
        ZooKeeperState.load(io.BytesIO(content), name, 1)
