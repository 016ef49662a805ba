"""A KRaft controller that migrates a cluster of the lab, and brokers in migration mode."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.lab.broker import MAIN_CLASS, answers_versions
from tools.lab.java import java_command
from tools.lab.kafka_tools import run_main_class
from tools.lab.ports import free_port
from tools.lab.server import LabError, Server

NODE_ID = 3000
_LISTENER = "CONTROLLER"
_TRACED = {"org.apache.kafka.metadata.migration": "migration"}


class KraftController(Server):
    """The only controller of a quorum, with `zookeeper.metadata.migration.enable`. `zookeeper` is
    the connect string of the cluster that it migrates; `format` comes before the first start."""

    def __init__(self, folder: Path, jars: Path, *, kafka: str, zookeeper: str) -> None:
        super().__init__("kraft-controller", folder, free_port())
        self._jars = jars
        self._kafka = kafka
        self._zookeeper = zookeeper
        self._properties = folder / "controller.properties"

    @property
    def broker_config(self) -> Mapping[str, str]:
        """The settings that put a broker into migration mode. Its map of listeners needs
        `CONTROLLER:PLAINTEXT`, too."""
        return {
            "zookeeper.metadata.migration.enable": "true",
            "controller.quorum.voters": self._voters,
            "controller.listener.names": _LISTENER,
        }

    @property
    def _voters(self) -> str:
        return f"{NODE_ID}@{self.connect}"

    async def format(self, cluster_id: str) -> None:
        """Make a metadata directory for a cluster. Raises LabError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        config = {
            "process.roles": "controller",
            "node.id": str(NODE_ID),
            "controller.quorum.voters": self._voters,
            "controller.listener.names": _LISTENER,
            "listeners": f"{_LISTENER}://{self.connect}",
            "listener.security.protocol.map": f"{_LISTENER}:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self.folder / "data"),
            "zookeeper.metadata.migration.enable": "true",
            "zookeeper.connect": self._zookeeper,
        }
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
        done = await run_main_class(
            self._kafka,
            "kafka.tools.StorageTool",
            *("format", "--cluster-id", cluster_id, "--config", str(self._properties)),
        )
        if done.status:
            raise LabError(f"{self.name} cannot be formatted: {done.output}{done.problems}")

    def _command(self) -> Sequence[str]:
        return java_command(
            self._jars,
            MAIN_CLASS,
            str(self._properties),
            folder=self.folder,
            options=("-Xmx256m",),
            traced=_TRACED,
        )

    async def _answers(self) -> bool:
        return await answers_versions(self.port)
