"""The settings of a daemon for a secured cluster, and what they give access to."""

from collections.abc import Mapping
from pathlib import Path

from controller.core import znodes
from controller.operator.zookeeper_client import ZooKeeperClient
from controller.settings.settings import Settings, load
from tests.controller.daemon.lab_cluster import timed
from tools.lab import Lab
from tools.lab.refold import Refold
from tools.lab.secured import SecuredFiles

OWN_ID = 1000


class SecuredCluster:
    """The cluster, a file of settings with those of its brokers, and a daemon that has them.

    `config`: the brokers' settings, and those of the daemon alone.
    """

    daemon: Refold

    def __init__(
        self, lab: Lab, files: SecuredFiles, folder: Path, config: Mapping[str, str]
    ) -> None:
        folder.mkdir()
        self.lab = lab
        self.files = files
        self.logs = folder / "logs"
        self.config = folder / "server.properties"
        content = {
            "refold.login.config": str(files.client_jaas()),
            "zookeeper.session.timeout.ms": "6000",
            "refold.broker.id": str(OWN_ID),
            "refold.log.dir": str(self.logs),
            **config,
        }
        self.config.write_text("".join(f"{key}={text}\n" for key, text in content.items()))
        self.settings: Settings = load([], {}, self.config).settings

    def new_daemon(self, *options: str, listeners: str | None = None) -> Refold:
        """A daemon with the settings of the file, not yet started."""
        return Refold(
            self.files.zookeeper_connect,
            OWN_ID,
            self.logs,
            *("--config", str(self.config), "--take-over", *options),
            listeners=listeners,
        )

    @property
    def client(self) -> ZooKeeperClient:
        """A client of ZooKeeper with the daemon's settings."""
        return ZooKeeperClient(self.settings.zookeeper, 6000, self.settings.security.zookeeper)

    async def controller_id(self) -> int | None:
        """The id in /controller."""
        async with self.client as client:
            (znode,) = await client.read((znodes.CONTROLLER,))
        holder = None if znode is None else znodes.read_controller(znode.data)
        return None if holder is None else holder.brokerid

    async def until_controller(self, *ids: int) -> None:
        """Wait until one of these ids is controller: the daemon's, if none are given."""
        wanted = ids or (OWN_ID,)

        async def is_controller() -> bool:
            assert self.daemon.running or OWN_ID not in wanted, self.daemon.last_output()
            return await self.controller_id() in wanted

        await timed(is_controller, f"one of {wanted} is controller")

    async def until_failover_is_done(self) -> None:
        """Wait until the daemon has ended its first failover: before, it answers no Metadata."""

        async def is_done() -> bool:
            assert self.daemon.running, self.daemon.last_output()
            return any(one.get("code") == "failover_done" for one in self.daemon.messages())

        await timed(is_done, "the failover is done")
