"""The servers of a benchmark: the two controllers to compare, and their ZooKeeper."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.lab import KafkaBroker, Server, ZooKeeperServer
from tools.lab.ports import HOST, free_port
from tools.lab.secured import LISTENER, SecuredFiles
from tools.setup.jars import fetch, pyspark_jars

PEER_ID = 100
REFOLD_ID = 1000
SESSION_TIMEOUT_MS = 18_000

PEER_JAVA_OPTIONS = ("-Xms1g", "-Xmx2g")


def zookeeper_heap(partitions: int) -> str:
    """Java's option for the heap of a ZooKeeper with the znodes of this number of partitions."""
    return "-Xmx1g" if partitions <= 200_000 else "-Xmx4g"


_ONLY_FOR_A_QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m")


class MeasuredServer(Server):
    """A process whose CPU time and memory are measured."""

    def cpu_seconds(self) -> float:
        """The CPU time of the process so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        user, system = int(fields[11]), int(fields[12])
        return (user + system) / os.sysconf("SC_CLK_TCK")

    def peak_rss_mb(self) -> float:
        """The peak resident memory of the process."""
        return self._memory_mb("VmHWM")

    def rss_mb(self) -> float:
        """The resident memory of the process now."""
        return self._memory_mb("VmRSS")

    def _memory_mb(self, field: str) -> float:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) / 1024
        raise LookupError(f"no {field} of process {self.pid}")


class FastZooKeeper(ZooKeeperServer, MeasuredServer):
    """A ZooKeeper with Java's default collector and compilers, as in production. The lab's
    ZooKeeper starts faster, but is so slow that it would determine the results."""

    def __init__(self, folder: Path, heap: str, files: SecuredFiles | None = None) -> None:
        """`files`: it has a port with TLS and SASL, too."""
        config: Mapping[str, str] = {}
        options: tuple[str, ...] = ()
        if files is not None:
            config, login = files.zookeeper_server()
            options = (login,)
        super().__init__(folder / "zookeeper", pyspark_jars(), config=config, java_options=options)
        self._heap = heap

    def _command(self) -> Sequence[str]:
        java, *rest = super()._command()
        return (java, self._heap, *(one for one in rest if one not in _ONLY_FOR_A_QUICK_START))


class Contender(MeasuredServer):
    """The process of a controller.

    `broker_id` is the controller id in its requests; `conditions` describes how it is run.
    """

    title: str
    broker_id: int
    conditions: str


class KafkaPeer(KafkaBroker, Contender):
    """A stock broker without partitions, the only candidate for the controller's role."""

    title = "Kafka 3.9.1"
    conditions = (
        f"Kafka 3.9.1: {' '.join(PEER_JAVA_OPTIONS)}, Java's default collector and compilers, "
        "kafka.controller and state.change.logger at INFO, auto.leader.rebalance.enable=false; it "
        "is a broker of the cluster and also handles its own UpdateMetadata, as usual"
    )

    def __init__(self, folder: Path, zookeeper: ZooKeeperServer, protocol: str) -> None:
        super().__init__(
            PEER_ID,
            folder / "kafka",
            fetch("kafka-3.9.1"),
            zookeeper=zookeeper,
            inter_broker_protocol=protocol,
            config={
                "auto.leader.rebalance.enable": "false",
                "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
            },
            java_options=PEER_JAVA_OPTIONS,
            quick_start=False,
        )

    def _command(self) -> Sequence[str]:
        # For tests, the lab logs the controller at TRACE, which would slow it down here.
        command = super()._command()
        log4j = self.folder / "log4j.properties"
        log4j.write_text(log4j.read_text().replace("=TRACE,", "=INFO,"))
        return command


class RefoldContender(Contender):
    """The daemon as an operator runs it; its log uses synchronous=FULL."""

    title = "refold"
    broker_id = REFOLD_ID
    _listener = "PLAINTEXT"
    options: Sequence[str] = ("--take-over",)
    conditions = (
        f"refold: `refold run --take-over`, Python {sys.version.split()[0]}, the event log in the "
        "benchmark's folder with synchronous=FULL; the Kafka broker is stopped meanwhile"
    )

    def __init__(self, folder: Path, zookeeper: ZooKeeperServer, protocol: str) -> None:
        super().__init__("refold", folder / "refold", free_port())
        self._connect = zookeeper.connect
        self._protocol = protocol

    def _more_settings(self) -> Mapping[str, str]:
        """Settings that only some of these daemons have."""
        return {}

    def _command(self) -> Sequence[str]:
        settings = self.folder / "server.properties"
        content = {
            "inter.broker.protocol.version": self._protocol,
            "auto.leader.rebalance.enable": "false",
            "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
            **self._more_settings(),
        }
        settings.write_text("".join(f"{key}={text}\n" for key, text in content.items()))
        return (
            *(sys.executable, "-m", "replay.cli.main", "run", *self.options),
            *("--config", str(settings)),
            *("--zookeeper", self._connect),
            *("--broker-id", str(self.broker_id)),
            *("--listeners", f"{self._listener}://{HOST}:{self.port}"),
            *("--log-dir", str(self.folder / "log")),
        )

    async def _answers(self) -> bool:
        """The caller waits in ZooKeeper until refold is controller."""
        return True


class SecuredRefold(RefoldContender):
    """refold with TLS and SASL in its connections to ZooKeeper and brokers, and at its endpoint."""

    title = "refold, TLS and SASL"
    conditions = (
        f"{title}: ZooKeeper with TLS and DIGEST-MD5, brokers with TLS and PLAIN; the rest as above"
    )
    _listener = LISTENER

    def __init__(
        self, folder: Path, zookeeper: ZooKeeperServer, protocol: str, files: SecuredFiles
    ) -> None:
        super().__init__(folder / "secured", zookeeper, protocol)
        self._connect = files.zookeeper_connect
        self._files = files

    def _more_settings(self) -> Mapping[str, str]:
        return {
            **self._files.broker_config(),
            # The znodes of the benchmark have no owner.
            "zookeeper.set.acl": "false",
            "refold.login.config": str(self._files.client_jaas()),
        }
