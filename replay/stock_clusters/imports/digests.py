"""Whether each transaction comes to the digest that its record has: from 3.6 on a ZooKeeper writes
a sum over all its znodes behind each transaction (DigestCalculator, AdHash).

Any other content of a record shows by that, also one that fits the record's checksum, and so does a
record that is not there. How much the sum has changed is compared: so one record that was changed
shows there, and where what it wrote is written anew, and nowhere else.
"""

import struct
import zlib
from collections.abc import Mapping
from typing import Final

from replay.stock_clusters.imports.terms import find
from replay.stock_clusters.zookeeper_log.transactions import Transaction
from replay.world.paths import parent_of
from replay.world.tree import Tree, Znode

VERSION: Final = 2
_STAT: Final = struct.Struct(">5Q3iQ")
_UNSIGNED: Final = (1 << 64) - 1
_OWN: Final = "/zookeeper/"
"""How the paths of znodes begin that each server has for itself: quotas and configuration."""


class Digests:
    """Looks at each transaction before and behind its being applied to the tree; `altered` are
    those that do not come to their digests, by zxid, with their files.

    Only znodes count that are known to be as the server has them: all of a tree that comes to its
    digest, else those that a transaction has written that does. A snapshot that somebody has made
    up may have other counters than a server's. `is_known`: the tree is what the server had; not so
    behind missing transactions.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._last: int | None = None
        self._sure: set[str] | None = None
        self._kept: dict[str, tuple[Znode | None, int]] = {}
        self._is_looking = False
        self._fitting = 0
        self._altered: dict[int, str] = {}
        self.is_known = True

    @property
    def altered(self) -> dict[int, str]:
        """None if no write comes to it: then the server counts otherwise than is known here."""
        return self._altered if self._fitting else {}

    @property
    def notes(self) -> list[str]:
        """One sentence at most, which names the first of them."""
        altered = self.altered
        if not altered:
            return []
        zxid, file = next(iter(altered.items()))
        more = f"; {len(altered) - 1} more do not" if len(altered) > 1 else ""
        return [
            f"{file}: transaction {zxid:#x} does not come to the digest that its record has: it, or"
            f" what it writes to, was changed, or one before it is not there{more}"
        ]

    def before(self) -> None:
        """A transaction is about to be applied."""
        if not self.is_known:
            self._last = None
        self._is_looking = self._last is not None
        if self._is_looking:
            self._tree.begin()

    def behind(self, transaction: Transaction, file: str) -> None:
        """It was applied."""
        digest = transaction.digest
        told = digest.value & _UNSIGNED if digest and digest.version == VERSION else None
        if not self._is_looking or self._last is None:
            if self.is_known and told is not None:
                self._begin(told)
            return
        before = dict(reversed(self._tree.commit()))
        # A refused operation's record has none.
        if told is None:
            self._last = None if before else self._last
            return
        total = self._last
        for path, znode in before.items():
            total += self._changed(path, znode)
        self._compare(total & _UNSIGNED == told, before, transaction.zxid, file)
        self._last = told

    def _changed(self, path: str, before: Znode | None) -> int:
        """How much a znode has changed the sum. What it was when it was written last is kept."""
        znode = find(self._tree, path)
        old = self._kept.pop(path, None)
        if old is None or old[0] is not before:
            old = before, digest_of(path, before)
        if znode is None:
            return -old[1]
        new = digest_of(path, znode)
        self._kept[path] = znode, new
        return new - old[1]

    def _begin(self, told: int) -> None:
        """The first digest: it tells whether all is as the server has it."""
        total = sum(digest_of(*one) for one in self._tree.dump().items())
        self._sure = None if total & _UNSIGNED == told else set()
        self._last = told

    def _compare(
        self, is_right: bool, written: Mapping[str, Znode | None], zxid: int, file: str
    ) -> None:
        if is_right:
            self._fitting += bool(written)
            if self._sure is not None:
                self._sure.update(written)
        elif all(self._is_sure(*one) for one in written.items()):
            self._altered[zxid] = file

    def _is_sure(self, path: str, before: Znode | None) -> bool:
        if path.startswith(_OWN):
            return False
        # A new one counts up its parent, unless that has come further in a made-up snapshot.
        counts = parent_of(path) if before is None else path
        return self._sure is None or counts in self._sure


def digest_of(path: str, znode: Znode | None) -> int:
    """A znode's part of the sum (DigestCalculator.calculateDigest)."""
    if znode is None or path.startswith(_OWN):
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
