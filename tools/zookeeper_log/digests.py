"""The digests that a ZooKeeper writes behind its transactions."""

from collections.abc import Iterable, Iterator

from msgspec import structs

from replay.stock_clusters.imports.digests import VERSION, digest_of
from replay.stock_clusters.imports.terms import find
from replay.stock_clusters.zookeeper_log.restoring import State
from replay.stock_clusters.zookeeper_log.transactions import Error, Transaction, TreeDigest

_MODULUS = 1 << 64


def with_digests(history: Iterable[Transaction]) -> Iterator[Transaction]:
    """A history that begins with an empty ZooKeeper, each transaction with its digest."""
    state = State()
    tree = state.tree
    total = sum(digest_of(*one) for one in tree.dump().items())
    for one in history:
        tree.begin()
        state.apply(one)
        before = {path: znode for path, znode in reversed(tree.commit())}
        for path, znode in before.items():
            total += digest_of(path, find(tree, path)) - digest_of(path, znode)
        if isinstance(one.content, Error):
            yield one
        else:
            yield structs.replace(one, digest=TreeDigest(VERSION, total % _MODULUS))
