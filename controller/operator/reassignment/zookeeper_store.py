"""Reading and writing a cluster's znodes for an operator."""

from msgspec import Struct

from controller.core.commands import WriteAtomically
from controller.core.operations import NO_NODE, OK, RUNTIME_INCONSISTENCY, WriteOperation
from controller.core.outcomes import Writes
from controller.operator.errors import ZooKeeperUnavailable
from controller.operator.zookeeper_reader import ZooKeeperReader


class Znode(Struct, frozen=True):
    """A znode that exists."""

    data: bytes
    version: int
    czxid: int
    mzxid: int


class ZooKeeperStore(ZooKeeperReader):
    """Writes, too. Everything raises ZooKeeperUnavailable; whether a write was done, nobody knows
    then."""

    async def read(self, paths: tuple[str, ...]) -> list[Znode | None]:
        """These znodes in their order; None for one that does not exist."""
        found = await self.znodes(paths)
        read: list[Znode | None] = []
        for place, error in enumerate(found.errors):
            if error == NO_NODE:
                read.append(None)
                continue
            if error != OK:
                text = f"{paths[place]} cannot be read (ZooKeeper code {error})"
                raise ZooKeeperUnavailable(text)
            data = found.data[place] or b""
            versions = found.versions[place], found.czxids[place], found.mzxids[place]
            read.append(Znode(data, *versions))
        return read

    async def write(self, operations: tuple[WriteOperation, ...]) -> int:
        """Do all of these or none; ZooKeeper's code of the one that failed, or OK."""
        result = Writes(len(operations))
        await self._ask(WriteAtomically(operations), result)
        self._demand(result.errors)
        failed = (one for one in result.errors if one not in (OK, RUNTIME_INCONSISTENCY))
        return next(failed, OK)
