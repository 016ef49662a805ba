"""Three real ZooKeeper servers with a leader."""

from pathlib import Path

from tools.lab import ZooKeeperServer
from tools.lab.ports import HOST, free_port
from tools.setup.jars import pyspark_jars


def ensemble(folder: Path, **config: str) -> list[ZooKeeperServer]:
    """Servers of one ensemble, which are not started yet, in folders of `folder`."""
    config |= {f"server.{n}": f"{HOST}:{free_port()}:{free_port()}" for n in (1, 2, 3)}
    config |= {"initLimit": "20", "syncLimit": "10"}
    servers = []
    for n in (1, 2, 3):
        data = folder / f"zookeeper-{n}" / "data"
        data.mkdir(parents=True)
        (data / "myid").write_text(f"{n}")
        servers.append(
            ZooKeeperServer(data.parent, pyspark_jars(), name=f"zookeeper-{n}", config=config)
        )
    return servers
