"""Three real ZooKeeper servers with a leader."""

from collections.abc import Sequence
from pathlib import Path

from tools.lab import ZooKeeperServer
from tools.lab.ports import HOST, free_port
from tools.setup.jars import pyspark_jars


class EnsembleServer(ZooKeeperServer):
    """One server of an ensemble."""

    def _command(self) -> Sequence[str]:
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        (data / "myid").write_text(self.name.removeprefix("zookeeper-"))
        command = super()._command()
        return [
            one.replace("server.ZooKeeperServerMain", "server.quorum.QuorumPeerMain")
            for one in command
        ]


def ensemble(folder: Path) -> list[EnsembleServer]:
    """Servers of one ensemble, which are not started yet."""
    config = {f"server.{n}": f"{HOST}:{free_port()}:{free_port()}" for n in (1, 2, 3)}
    config |= {"initLimit": "20", "syncLimit": "10"}
    return [
        EnsembleServer(folder / f"{n}", pyspark_jars(), name=f"zookeeper-{n}", config=config)
        for n in (1, 2, 3)
    ]
