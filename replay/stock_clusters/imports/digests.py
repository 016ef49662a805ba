"""Checks the digests of transactions.

From 3.6 on, ZooKeeper writes a sum over all znodes after each transaction (DigestCalculator,
AdHash). The sum reveals a record that was changed, even if its checksum fits, and a record that is
missing. The change of the sum is compared, so an altered record shows at its own place, and where
its znode is written again, but nowhere else.
"""

import struct
import zlib
from collections.abc import Mapping
from typing import Final

from replay.stock_clusters.imports.terms import find_znode
from replay.stock_clusters.zookeeper_log.transactions import Transaction
from replay.znode_tree.paths import parent_of
from replay.znode_tree.tree import Tree, Znode

VERSION: Final = 2
_STAT: Final = struct.Struct(">5Q3iQ")
_UNSIGNED: Final = (1 << 64) - 1
_SERVER_ZNODES: Final = "/zookeeper/"
"""The znodes that each server has for itself: quotas and configuration."""


class Digests:
    """Checks each transaction before and after it is applied to the tree. `altered` has the files
    of transactions that do not match their digests, by zxid.

    Only znodes that are known to be as on the server count: all znodes if the tree matches its
    digest, otherwise those that a matching transaction has written. A hand-made snapshot may have
    other counters than a server's. `is_known`: the tree is the server's; False after missing
    transactions.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._last: int | None = None
        self._certain: set[str] | None = None
        self._kept: dict[str, tuple[Znode | None, int]] = {}
        self._is_looking = False
        self._fitting = 0
        self._altered: dict[int, str] = {}
        self.is_known = True

    @property
    def altered(self) -> dict[int, str]:
        """Empty if no write matches: then the server computes digests in an unknown way."""
        return self._altered if self._fitting else {}

    @property
    def notes(self) -> list[str]:
        """At most one note, which names the first altered transaction."""
        altered = self.altered
        if not altered:
            return []
        zxid, file = next(iter(altered.items()))
        more = f"; {len(altered) - 1} more do not" if len(altered) > 1 else ""
        return [
            f"{file}: transaction {zxid:#x} does not match the digest in its record: the record or"
            f" its znodes were changed, or an earlier record is missing{more}"
        ]

    def before(self) -> None:
        """Prepare for a transaction that is about to be applied."""
        if not self.is_known:
            self._last = None
        self._is_looking = self._last is not None
        if self._is_looking:
            self._tree.begin()

    def after(self, transaction: Transaction, file: str) -> None:
        """Check a transaction that was applied."""
        digest = transaction.digest
        expected = digest.value & _UNSIGNED if digest and digest.version == VERSION else None
        if not self._is_looking or self._last is None:
            if self.is_known and expected is not None:
                self._begin(expected)
            return
        before = dict(reversed(self._tree.commit()))
        # The record of a refused operation has no digest.
        if expected is None:
            self._last = None if before else self._last
            return
        total = self._last
        for path, znode in before.items():
            total += self._digest_change(path, znode)
        self._compare(total & _UNSIGNED == expected, before, transaction.zxid, file)
        self._last = expected

    def _digest_change(self, path: str, before: Znode | None) -> int:
        """The change of the sum by one znode. The digest of its last content is cached."""
        znode = find_znode(self._tree, path)
        old = self._kept.pop(path, None)
        if old is None or old[0] is not before:
            old = before, digest_of(path, before)
        if znode is None:
            return -old[1]
        new = digest_of(path, znode)
        self._kept[path] = znode, new
        return new - old[1]

    def _begin(self, expected: int) -> None:
        """The first digest shows whether the whole tree is as on the server."""
        total = sum(digest_of(*one) for one in self._tree.dump().items())
        self._certain = None if total & _UNSIGNED == expected else set()
        self._last = expected

    def _compare(
        self, is_right: bool, written: Mapping[str, Znode | None], zxid: int, file: str
    ) -> None:
        if is_right:
            self._fitting += bool(written)
            if self._certain is not None:
                self._certain.update(written)
        elif all(self._is_certain(*one) for one in written.items()):
            self._altered[zxid] = file

    def _is_certain(self, path: str, before: Znode | None) -> bool:
        if path.startswith(_SERVER_ZNODES):
            return False
        # A new znode changes its parent's counter, which a hand-made snapshot may have higher.
        counts = parent_of(path) if before is None else path
        return self._certain is None or counts in self._certain


def digest_of(path: str, znode: Znode | None) -> int:
    """The digest of one znode (DigestCalculator.calculateDigest)."""
    if znode is None or path.startswith(_SERVER_ZNODES):
        return 0
    stat = _STAT.pack(
        znode.czxid,
        znode.mzxid,
        znode.pzxid,
        znode.ctime,
        znode.mtime,
        znode.version,
        znode.creations,
        znode.aversion,
        znode.owner & _UNSIGNED,
    )
    name = "" if path == "/" else path
    return zlib.crc32(stat, zlib.crc32(znode.data, zlib.crc32(name.encode())))
