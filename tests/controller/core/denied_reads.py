"""A cluster whose ZooKeeper does not let the daemon read some znodes."""

from msgspec import structs

from controller.core.commands import Issued, ReadChildren, ReadZnodes, ZooKeeperCommand
from controller.core.events import ChildrenRead, ZnodesRead
from controller.core.operations import NO_AUTH
from replay.world.outcomes import ZooKeeperOutcome
from tests.controller.core.cluster import Cluster


class ReadDenyingCluster(Cluster):
    """The daemon may not read the znodes in `denied`."""

    denied: tuple[str, ...] = ()

    def ask_zookeeper(self, issued: Issued, command: ZooKeeperCommand) -> list[ZooKeeperOutcome]:
        outcomes = super().ask_zookeeper(issued, command)
        if isinstance(command, ReadChildren) and command.path in self.denied:
            return [ChildrenRead(issued.id, NO_AUTH, [])]
        if isinstance(command, ReadZnodes) and any(one in self.denied for one in command.paths):
            [read] = outcomes
            assert isinstance(read, ZnodesRead)
            errors = [
                NO_AUTH if path in self.denied else error
                for path, error in zip(command.paths, read.errors, strict=True)
            ]
            data = [
                None if path in self.denied else content
                for path, content in zip(command.paths, read.data, strict=True)
            ]
            return [structs.replace(read, errors=errors, data=data)]
        return outcomes
