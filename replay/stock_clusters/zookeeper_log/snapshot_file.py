"""Reads one snapshot: sessions, ACLs, znodes with parents first, checksums (FileSnap, DataTree).

A server continues writing while it takes a snapshot, so the snapshot is fuzzy: it includes all
transactions up to the zxid in its name, and some later ones.
"""

import struct
from collections.abc import Iterator, Mapping
from io import BufferedIOBase
from typing import Any, BinaryIO, Final
from zlib import adler32

from msgspec import Struct

from replay.stock_clusters.zookeeper_log.compression import BROKEN, decompressed
from replay.stock_clusters.zookeeper_log.damage import DamagedSnapshotError, FileDamage
from replay.stock_clusters.zookeeper_log.transactions import OPEN_ACL, Acls, ZooKeeperAcl
from replay.znode_tree.paths import ROOT, is_valid, parent_of
from replay.znode_tree.tree import Znode

MAGIC: Final = b"ZKSN"
FORMAT_VERSION: Final = 2
FIELD_BYTES_MAX: Final = 64 * 1024 * 1024
"""The size of a znode's path or data; servers accept up to 1 MB by default."""

OPEN_ACL_ID: Final = -1

_FILE_HEADER: Final = struct.Struct(">4siq")
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_SESSION: Final = struct.Struct(">qi")
_ACL_AND_STAT: Final = struct.Struct(">qqqqqiiiqq")
_DIGEST_HEAD: Final = struct.Struct(">qi")
_CHUNK_BYTES: Final = 1024 * 1024

_SEAL_BYTES: Final = 8 + 4 + 1
_LAST_ZXID_BYTES: Final = 8 + _SEAL_BYTES


class SnapshotDigest(Struct, frozen=True):
    """The sum over all znodes after transaction `zxid` (from 3.6 on); `zxid` 0: no transaction
    yet."""

    zxid: int
    version: int
    value: int


class SnapshotReader:
    """Reads a snapshot once: `sessions` and `acls`, then `znodes()`, then the rest.

    `sessions` has the timeouts in ms by session, `acls` the ACLs by the number that znodes refer
    to. `digest` and `last_zxid` are set after `znodes()`; `last_zxid` is None unless the server
    wrote it (an option of 3.9). Raises DamagedSnapshotError at the first error, including a wrong
    checksum.
    """

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._bytes = _Bytes(decompressed(stream, name), name)
        self._read_file_header()
        self.sessions: Mapping[int, int] = dict(self._sessions())
        self.acls: Mapping[int, Acls] = {OPEN_ACL_ID: OPEN_ACL, **dict(self._acls())}
        self.digest: SnapshotDigest | None = None
        self.last_zxid: int | None = None

    def znodes(self) -> Iterator[tuple[str, int, Znode]]:
        """Path, number of the ACLs, and the znode; parents before their children."""
        source = self._bytes
        known: set[str] = set()
        while (path := source.string()) != ROOT:
            path = path or ROOT
            if path != ROOT and (not is_valid(path) or parent_of(path) not in known):
                raise source.damaged(f"{path!r} is invalid or comes before its parent")
            known.add(path)
            data = source.buffer()
            acl, czxid, mzxid, ctime, mtime, version, creations, aversion, owner, pzxid = (
                source.unpack(_ACL_AND_STAT)
            )
            yield (
                path,
                acl,
                Znode(data, czxid, mzxid, ctime, mtime, version, creations, owner, pzxid, aversion),
            )
        self._check_seal()
        self._read_tail()

    def _read_file_header(self) -> None:
        magic, version, _ = self._bytes.unpack(_FILE_HEADER)
        if magic != MAGIC:
            raise self._bytes.damaged(f"it begins with {magic!r}, not with {MAGIC!r}: no snapshot")
        if version != FORMAT_VERSION:
            raise self._bytes.damaged(f"format version {version}, only {FORMAT_VERSION} is known")

    def _sessions(self) -> Iterator[tuple[int, int]]:
        for _ in range(self._bytes.count()):
            session, timeout_ms = self._bytes.unpack(_SESSION)
            yield session, timeout_ms

    def _acls(self) -> Iterator[tuple[int, Acls]]:
        source = self._bytes
        for _ in range(source.count()):
            (number,) = source.unpack(_LONG)
            yield (
                number,
                tuple(
                    ZooKeeperAcl(source.unpack(_INT)[0], source.string(), source.string())
                    for _ in range(source.count())
                ),
            )

    def _read_tail(self) -> None:
        """Read the values that later versions write after the checksum, each with a checksum."""
        left = self._bytes.count_left(_LAST_ZXID_BYTES + 1)
        if left > _LAST_ZXID_BYTES:
            self.digest = self._digest()
            self._check_seal()
            left = self._bytes.count_left(_LAST_ZXID_BYTES)
        if left:
            (self.last_zxid,) = self._bytes.unpack(_LONG)
            self._check_seal()

    def _digest(self) -> SnapshotDigest:
        zxid, version = self._bytes.unpack(_DIGEST_HEAD)
        if version >= 2:
            return SnapshotDigest(zxid, version, self._bytes.unpack(_LONG)[0])
        # Before the first release with digests, the value was in hex.
        text = self._bytes.string()
        try:
            return SnapshotDigest(zxid, version, int(text, 16))
        except ValueError:
            raise self._bytes.damaged(f"{text!r} is no digest") from None

    def _check_seal(self) -> None:
        """Read a checksum over everything before it, and a "/"."""
        expected = self._bytes.checksum()
        (checksum,) = self._bytes.unpack(_LONG)
        if checksum != expected:
            raise self._bytes.damaged("the checksum before is wrong")
        if self._bytes.string() != ROOT:
            raise self._bytes.damaged("there is no / after the checksum")


class _Bytes:
    """A stream, read value by value, with the checksum of all values so far."""

    def __init__(self, stream: BufferedIOBase, name: str) -> None:
        self._stream = stream
        self._name = name
        self._buffer = b""
        self._at = 0
        self._start = 0
        self._checksum = 1
        self._checked = 0

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        self._require_bytes(layout.size)
        values = layout.unpack_from(self._buffer, self._at)
        self._at += layout.size
        return values

    def count(self) -> int:
        """The number of items that follow. A wrong number fails at the end of the file."""
        (count,) = self.unpack(_INT)
        if count < 0:
            raise self.damaged(f"a list of {count} items")
        return int(count)

    def buffer(self) -> bytes:
        """Bytes; null counts as empty."""
        (size,) = self.unpack(_INT)
        if size == -1:
            return b""
        if not 0 <= size <= FIELD_BYTES_MAX:
            raise self.damaged(f"a field of {size} bytes is impossible")
        self._require_bytes(size)
        self._at += size
        return self._buffer[self._at - size : self._at]

    def string(self) -> str:
        return self.buffer().decode(errors="replace")

    def checksum(self) -> int:
        """Adler32 of all bytes so far."""
        self._checksum = adler32(self._buffer[self._checked : self._at], self._checksum)
        self._checked = self._at
        return self._checksum

    def count_left(self, enough: int) -> int:
        """How many bytes remain, at most `enough`."""
        self._fill(enough)
        return min(enough, len(self._buffer) - self._at)

    def damaged(self, reason: str) -> DamagedSnapshotError:
        return DamagedSnapshotError(
            FileDamage(self._name, self._start + self._at, None, reason, is_snapshot=True)
        )

    def _require_bytes(self, size: int) -> None:
        if len(self._buffer) - self._at < size and not self._fill(size):
            raise self.damaged("the file is cut off")

    def _fill(self, size: int) -> bool:
        while len(self._buffer) - self._at < size:
            try:
                # Read only what is available, so that bytes before a damage are counted.
                more = self._stream.read1(_CHUNK_BYTES)
            except BROKEN as error:
                raise self.damaged(f"it cannot be decompressed: {error}") from None
            self.checksum()
            self._start += self._at
            self._buffer = self._buffer[self._at :] + more
            self._at = self._checked = 0
            if not more:
                return False
        return True
