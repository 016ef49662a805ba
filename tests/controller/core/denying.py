"""A cluster whose ZooKeeper does not let the daemon read some znodes."""

from msgspec import structs

from controller.core.commands import Issued, ReadChildren, ReadZnodes, ZooKeeperCommand
from controller.core.events import ChildrenRead, ZnodesRead
from controller.core.operations import NO_AUTH
from tests.controller.core.cluster import Cluster


class Denying(Cluster):
    """The daemon may not read the znodes in `denied`."""

    denied: tuple[str, ...] = ()

    def _ask_zookeeper(self, issued: Issued, command: ZooKeeperCommand) -> None:
        super()._ask_zookeeper(issued, command)
        if isinstance(command, ReadChildren) and command.path in self.denied:
            source, listed = self._inbox.pop()
            assert isinstance(listed, ChildrenRead)
            self._inbox.append((source, structs.replace(listed, error=NO_AUTH, children=[])))
        if isinstance(command, ReadZnodes) and any(one in self.denied for one in command.paths):
            source, read = self._inbox.pop()
            assert isinstance(read, ZnodesRead)
            errors = [
                NO_AUTH if path in self.denied else error
                for path, error in zip(command.paths, read.errors, strict=True)
            ]
            data = [
                None if path in self.denied else content
                for path, content in zip(command.paths, read.data, strict=True)
            ]
            self._inbox.append((source, structs.replace(read, errors=errors, data=data)))
