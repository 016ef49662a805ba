"""Checks that the versions of znodes are consecutive, as a server counts them.

A record has the version after its write (SetDataTxn), which is one more than before. Another
version shows that the record was changed, or that an earlier record is missing. If the znode's
previous version is unknown, the next one shows nothing.
"""

from collections.abc import Sequence
from typing import Final

from replay.stock_clusters.imports.terms import find_znode
from replay.stock_clusters.zookeeper_log.transactions import (
    Check,
    Create,
    CreateContainer,
    CreateTtl,
    OpCode,
    Operation,
    SetData,
    Transaction,
)
from replay.znode_tree.tree import Tree

_CREATES: Final = (Create, CreateContainer, CreateTtl)
_SET_DATA: Final = int(OpCode.SET_DATA)


class Versions:
    """Checks each transaction before it is applied to the tree. `altered` has the files of
    transactions with a wrong version, by zxid.

    `is_known`: the tree is the server's; False after missing transactions.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._first = ""
        self._count = 0
        self.altered: dict[int, str] = {}
        self.is_known = True

    @property
    def notes(self) -> list[str]:
        """At most one note, which names the first such record."""
        if not self._count:
            return []
        more = f"; {self._count - 1} more have such a version" if self._count > 1 else ""
        return [f"{self._first}: the record was changed, or an earlier record is missing{more}"]

    def check(self, transaction: Transaction, file: str) -> None:
        """Check a transaction of a file."""
        if not self.is_known:
            return
        written: dict[str, int] = {}
        for operation in _operations(transaction):
            if type(operation) is SetData:
                path, version = operation.path, operation.version
                before = written[path] if path in written else self._version(path)
                if before >= 0 and version != before + 1:
                    self._note(file, transaction.zxid, path, before, version)
                written[path] = version
            # Most operations are checks, so they are excluded first.
            elif type(operation) is not Check and isinstance(operation, _CREATES):
                written[operation.path] = 0

    def _version(self, path: str) -> int:
        znode = find_znode(self._tree, path)
        return -1 if znode is None else znode.version

    def _note(self, file: str, zxid: int, path: str, before: int, version: int) -> None:
        self._count += 1
        self.altered[zxid] = file
        self._first = self._first or (
            f"{file}: transaction {zxid:#x} gives {path} version {version}, and it had version"
            f" {before}"
        )


def _operations(transaction: Transaction) -> Sequence[Operation]:
    # RECONFIG counts versions in another way.
    is_reconfig = isinstance(transaction.content, SetData) and transaction.type != _SET_DATA
    return () if is_reconfig else transaction.operations
