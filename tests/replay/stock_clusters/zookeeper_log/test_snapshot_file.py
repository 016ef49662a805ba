"""A snapshot is read as it was written, plain or compressed, or rejected where it is damaged."""

import gzip
import io
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cramjam import snappy
from hypothesis import given
from hypothesis import strategies as st

from replay.stock_clusters.zookeeper_log.damage import DamagedSnapshotError
from replay.stock_clusters.zookeeper_log.snapshot_file import SnapshotDigest, SnapshotReader
from replay.stock_clusters.zookeeper_log.transactions import OPEN_ACL, ZooKeeperAcl
from replay.znode_tree.tree import Znode
from tests.replay.stock_clusters.zookeeper_log.samples import ACLS, INTS, LONGS, patient
from tools.zookeeper_log.file_format import write_snapshot

SNAPPY = Path(__file__).with_name("snapshot.38.snappy")

ROOT = Znode(b"", 0, 0, 0, 0, 0, 1, 0, 9)
A = Znode(b"data", 5, 6, 100, 200, 1, 1, 0, 9, 3)
CHILD = Znode(b"", 9, 9, 300, 300, 0, 0, 0x1000020D7780000, 9)
SESSIONS = {0x1000020D7780000: 6000, -0x10000000000000: 18_000}
ACL_CACHE = {
    1: OPEN_ACL,
    2: (ZooKeeperAcl(1, "digest", "reader:x"), ZooKeeperAcl(31, "sasl", "kafka")),
}
NODES = [("/", -1, ROOT), ("/a", 2, A), ("/a/b", 1, CHILD)]
DIGEST = SnapshotDigest(0x12, 2, -5)

STAT = (LONGS, LONGS, LONGS, LONGS, INTS, INTS, LONGS, LONGS, INTS)
SNAPSHOTS = st.tuples(
    st.dictionaries(LONGS, INTS, max_size=3),
    st.dictionaries(LONGS.filter(lambda one: one != -1), ACLS, max_size=3),
    st.lists(
        st.tuples(LONGS, st.builds(Znode, st.binary(max_size=20), *STAT)), min_size=1, max_size=4
    ).map(lambda nodes: [(path, *one) for path, one in zip(PATHS, nodes, strict=False)]),
    st.none() | st.builds(SnapshotDigest, LONGS, st.just(2), LONGS),
    st.none() | LONGS,
)
PATHS = ("/", "/a", "/a/b", "/c")


def snappy_file(content: bytes, block_bytes: int = 50) -> bytes:
    """The content in the framing of snappy-java's SnappyOutputStream."""
    blocks = [
        bytes(snappy.compress_raw(content[place : place + block_bytes]))
        for place in range(0, len(content), block_bytes)
    ]
    framed = b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + framed


def snapshot_bytes(
    name: str,
    sessions: Mapping[int, int],
    acls: Mapping[int, Any],
    nodes: list[tuple[str, int, Znode]],
    digest: SnapshotDigest | None = None,
    last_zxid: int | None = None,
) -> bytes:
    stream = io.BytesIO()
    write_snapshot(stream, sessions, acls, nodes, digest=digest, last_zxid=last_zxid)
    content = stream.getvalue()
    if name.endswith(".snappy"):
        return snappy_file(content)
    return gzip.compress(content) if name.endswith(".gz") else content


def read(content: bytes, name: str = "snapshot.8") -> tuple[SnapshotReader, list[Any]]:
    reader = SnapshotReader(io.BytesIO(content), name)
    return reader, list(reader.znodes())


@pytest.mark.parametrize("name", ["snapshot.8", "snapshot.8.gz", "snapshot.8.snappy"])
@patient
@given(SNAPSHOTS)
def test_written_snapshot_is_read(name: str, snapshot: tuple) -> None:
    sessions, acls, nodes, digest, last_zxid = snapshot
    reader, read_nodes = read(snapshot_bytes(name, *snapshot), name)
    assert reader.sessions == sessions
    assert reader.acls == {-1: OPEN_ACL, **acls}
    assert read_nodes == nodes
    assert (reader.digest, reader.last_zxid) == (digest, last_zxid)


def test_digest_of_version_1_is_read_as_hex() -> None:
    digest = SnapshotDigest(0x12, 1, 0xABC)
    reader, _ = read(snapshot_bytes("", SESSIONS, ACL_CACHE, NODES, digest))
    assert reader.digest == digest


def test_every_changed_byte_is_noticed() -> None:
    whole = snapshot_bytes("", SESSIONS, ACL_CACHE, NODES, DIGEST, 0x12)
    # The dbid in the file header has no effect, but the checksum covers it.
    for place in range(len(whole)):
        content = bytearray(whole)
        content[place] ^= 1
        with pytest.raises(DamagedSnapshotError):
            read(bytes(content))


@pytest.mark.parametrize("digest", [None, DIGEST])
def test_every_truncation_is_noticed_except_to_an_older_format(
    digest: SnapshotDigest | None,
) -> None:
    whole = snapshot_bytes("", SESSIONS, ACL_CACHE, NODES, digest)
    without_digest = len(snapshot_bytes("", SESSIONS, ACL_CACHE, NODES))
    for size in range(len(whole)):
        if size != without_digest:
            with pytest.raises(DamagedSnapshotError, match=r"snapshot\.8 ends at offset"):
                read(whole[:size])


def test_truncated_gzip_is_rejected() -> None:
    whole = snapshot_bytes("x.gz", SESSIONS, ACL_CACHE, NODES)
    for size in (0, 5, len(whole) // 2, len(whole) - 1):
        with pytest.raises(DamagedSnapshotError, match=r"snapshot\.8\.gz"):
            read(whole[:size], "snapshot.8.gz")


def test_znode_before_its_parent_is_damage() -> None:
    with pytest.raises(DamagedSnapshotError, match="'/a/b' is invalid or comes before its parent"):
        read(snapshot_bytes("", {}, {}, [NODES[0], NODES[2]]))


@pytest.mark.parametrize("size", [2**31 - 1, -2])
def test_impossible_length_is_damage(size: int) -> None:
    head = b"ZKSN" + struct.pack(">iqii", 2, -1, 0, 0)
    with pytest.raises(DamagedSnapshotError, match=f"a field of {size} bytes is impossible"):
        read(head + struct.pack(">i", size) + bytes(100))


@pytest.mark.parametrize("count", [2**31 - 1, -1])
def test_impossible_count_is_damage(count: int) -> None:
    head = b"ZKSN" + struct.pack(">iq", 2, -1)
    with pytest.raises(DamagedSnapshotError):
        read(head + struct.pack(">i", count) + bytes(100))


@pytest.mark.parametrize(
    ("head", "text"),
    [
        (b"ZKLG" + struct.pack(">iq", 2, -1), "begins with b'ZKLG'"),
        (b"ZKSN" + struct.pack(">iq", 3, -1), "format version 3"),
    ],
)
def test_file_of_another_format_is_rejected(head: bytes, text: str) -> None:
    with pytest.raises(DamagedSnapshotError, match=text):
        read(head + bytes(100))


def test_damaged_snappy_is_rejected() -> None:
    whole = snapshot_bytes("x.snappy", SESSIONS, ACL_CACHE, NODES)
    wrong = (
        b"",
        whole[:10],
        whole[:18],
        whole[:40],
        b"x" + whole[1:],
        whole[:16] + struct.pack(">i", 2**31 - 1),
        whole[:16] + struct.pack(">i", -1),
        whole[:16] + struct.pack(">i", 2) + b"\x05a",
        whole[:16] + struct.pack(">i", 1) + b"\xff",
    )
    for content in wrong:
        with pytest.raises(DamagedSnapshotError, match=r"snapshot\.8\.snappy .* decompressed"):
            read(content, "snapshot.8.snappy")


def test_snappy_block_with_a_huge_length_is_not_decoded() -> None:
    whole = snapshot_bytes("x.snappy", SESSIONS, ACL_CACHE, NODES)
    huge = struct.pack(">i", 8) + b"\xff\xff\xff\xff\x0fabc"
    with pytest.raises(DamagedSnapshotError, match="a block decodes to 4294967295 bytes"):
        read(whole[:16] + huge, "snapshot.8.snappy")


def test_snappy_snapshot_of_a_server_is_read() -> None:
    """ZooKeeper 3.9.5 wrote the file: its checksums match the decoded content."""
    with SNAPPY.open("rb") as stream:
        reader = SnapshotReader(stream, SNAPPY.name)
        nodes = {path: znode for path, _, znode in reader.znodes()}
    assert len(nodes) == 32
    assert nodes["/a/1"].data == b"y"
    assert reader.digest == SnapshotDigest(0x38, 2, 59077559400)
    assert reader.last_zxid == 0x38
    assert len(reader.sessions) == 2


def test_damage_of_a_compressed_snapshot_has_its_offset() -> None:
    """The content is complete; only the checksum that gzip writes after it is wrong."""
    content = snapshot_bytes("", SESSIONS, ACL_CACHE, NODES)
    packed = bytearray(gzip.compress(content))
    packed[-8] ^= 1
    with pytest.raises(DamagedSnapshotError) as raised:
        read(bytes(packed), "snapshot.8.gz")
    assert raised.value.damage.offset == len(content)
    assert "cannot be decompressed: CRC check failed" in raised.value.damage.reason
