"""Whether the versions of a ZooKeeper's znodes follow one another, as its server counts them.

A record holds the version that its write brought about (SetDataTxn): one more than before. Another
one shows that the record was changed, or that one before it is not there. As long as nobody knows
what a znode was before, its next version tells nothing.
"""

from collections.abc import Sequence
from typing import Final

from replay.stock_clusters.imports.terms import find
from replay.stock_clusters.zookeeper_log.transactions import (
    Check,
    Create,
    CreateContainer,
    CreateTtl,
    Multi,
    OpCode,
    Operation,
    SetData,
    Transaction,
)
from replay.world.tree import Tree

_CREATES: Final = (Create, CreateContainer, CreateTtl)
_SET_DATA: Final = int(OpCode.SET_DATA)


class Versions:
    """Looks at each transaction before it is applied to the tree; `notes` are what it found, and
    `altered` the transactions, by zxid, with their files.

    `is_known`: the tree is what the server had; not so behind missing transactions.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._first = ""
        self._count = 0
        self.altered: dict[int, str] = {}
        self.is_known = True

    @property
    def notes(self) -> list[str]:
        """One sentence at most, which names the first such record."""
        if not self._count:
            return []
        more = f"; {self._count - 1} more have such a version" if self._count > 1 else ""
        return [f"{self._first}: the record was changed, or one before it is not there{more}"]

    def look_at(self, transaction: Transaction, file: str) -> None:
        """Take in a transaction of a file."""
        if not self.is_known:
            return
        written: dict[str, int] = {}
        for operation in _operations(transaction):
            if type(operation) is SetData:
                path, version = operation.path, operation.version
                before = written[path] if path in written else self._version(path)
                if before >= 0 and version != before + 1:
                    self._tell(file, transaction.zxid, path, before, version)
                written[path] = version
            # Checks, one a decision, are told apart at once.
            elif type(operation) is not Check and isinstance(operation, _CREATES):
                written[operation.path] = 0

    def _version(self, path: str) -> int:
        znode = find(self._tree, path)
        return -1 if znode is None else znode.version

    def _tell(self, file: str, zxid: int, path: str, before: int, version: int) -> None:
        self._count += 1
        self.altered[zxid] = file
        self._first = self._first or (
            f"{file}: transaction {zxid:#x} gives {path} version {version}, and it had version"
            f" {before}"
        )


def _operations(transaction: Transaction) -> Sequence[Operation]:
    content = transaction.content
    if isinstance(content, Multi):
        return () if content.error else content.operations
    # What RECONFIG writes is counted otherwise.
    if isinstance(content, SetData) and transaction.type == _SET_DATA:
        return (content,)
    return ()
