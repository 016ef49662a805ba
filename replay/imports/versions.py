"""Whether the versions of a ZooKeeper's znodes follow one another, as its server counts them.

A record holds the version that its write brought about (SetDataTxn): one more than before. Another
one shows that the record was changed, or that one before it is not there. As long as nobody knows
what a znode was before, its next version tells nothing.
"""

from collections.abc import Iterator

from replay.imports.terms import find
from replay.world.tree import Tree
from replay.zookeeper_log.transactions import (
    Create,
    CreateContainer,
    CreateTtl,
    Multi,
    OpCode,
    Operation,
    SetData,
    Transaction,
)


class Versions:
    """Looks at each transaction before it is applied to the tree; `notes` are what it found.

    `is_known`: the tree is what the server had; not so behind missing transactions.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._first = ""
        self._count = 0
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
            match operation:
                case Create(path=path) | CreateTtl(path=path) | CreateContainer(path=path):
                    written[path] = 0
                case SetData(path=path, version=version):
                    before = written.get(path, self._version(path))
                    if before >= 0 and version != before + 1:
                        self._tell(file, transaction.zxid, path, before, version)
                    written[path] = version

    def _version(self, path: str) -> int:
        znode = find(self._tree, path)
        return -1 if znode is None else znode.version

    def _tell(self, file: str, zxid: int, path: str, before: int, version: int) -> None:
        self._count += 1
        self._first = self._first or (
            f"{file}: transaction {zxid:#x} gives {path} version {version}, and it had version"
            f" {before}"
        )


def _operations(transaction: Transaction) -> Iterator[Operation]:
    content = transaction.content
    if isinstance(content, Multi):
        yield from () if content.error else content.operations
    elif isinstance(content, SetData) and transaction.type == OpCode.SET_DATA:
        # What RECONFIG writes is counted otherwise.
        yield content
