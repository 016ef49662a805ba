"""Stock brokers that log their controller's decisions and requests."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from tools.lab import KafkaBroker, ZooKeeperServer
from tools.lab.java import log4j1

Logging = Literal["full", "production"]

REQUEST_KINDS = (
    "ALLOCATE_PRODUCER_IDS",
    "ALTER_CONFIGS",
    "ALTER_ISR",
    "ALTER_PARTITION",
    "ALTER_PARTITION_REASSIGNMENTS",
    "CONTROLLED_SHUTDOWN",
    "CREATE_PARTITIONS",
    "CREATE_TOPICS",
    "DELETE_TOPICS",
    "ELECT_LEADERS",
    "INCREMENTAL_ALTER_CONFIGS",
    "LEADER_AND_ISR",
    "STOP_REPLICA",
    "UPDATE_FEATURES",
    "UPDATE_METADATA",
)
"""Requests to and from a controller. Kafka 2.8 calls AlterPartition ALTER_ISR."""

_LEVELS: Mapping[Logging, Mapping[str, tuple[str, str]]] = {
    "full": {
        "kafka.controller": ("TRACE", "controller"),
        "state.change.logger": ("TRACE", "state-change"),
        "kafka.request.logger": ("DEBUG", "control-requests"),
    },
    "production": {
        "kafka.controller": ("INFO", "controller"),
        "state.change.logger": ("INFO", "state-change"),
    },
}
"""For each logger its level and file; other loggers write to server.log at INFO."""


class RecordedBroker(KafkaBroker):
    """A broker that keeps the logs of a recording, in Kafka's layout and in UTC."""

    def __init__(
        self,
        broker_id: int,
        folder: Path,
        jars: Path,
        *,
        zookeeper: ZooKeeperServer,
        chroot: str,
        config: Mapping[str, str],
        logging: Logging,
    ) -> None:
        super().__init__(
            broker_id,
            folder,
            jars,
            zookeeper=zookeeper,
            chroot=chroot,
            listeners=("PLAINTEXT", "EXTRA"),
            java_options=("-Xmx256m", "-Duser.timezone=UTC"),
        )
        # The second listener can be added while the broker is running.
        plain = f"PLAINTEXT://{self.connect}"
        self.config |= {"listeners": plain, "advertised.listeners": plain, **config}
        self._logging = logging

    @property
    def log_dirs(self) -> list[Path]:
        """The directories of the broker's partitions."""
        return [Path(one) for one in self.config["log.dirs"].split(",")]

    def _command(self) -> Sequence[str]:
        command = super()._command()
        (self.folder / "log4j.properties").write_text(_log4j(self.folder, self._logging))
        return command


def log_names(logging: Logging) -> list[str]:
    """The names of a broker's log files."""
    return ["server.log", *(f"{file}.log" for _, file in _LEVELS[logging].values())]


def _log4j(folder: Path, logging: Logging) -> str:
    configuration = log4j1(folder, _LEVELS[logging], "[%d] %p %m (%c)%n")
    if logging == "full":
        configuration += "\n".join([*_only_control_requests(), ""])
    return configuration


def _only_control_requests() -> list[str]:
    filters = "log4j.appender.control-requests.filter"
    lines = []
    for number, kind in enumerate(REQUEST_KINDS, 10):
        lines += [
            f"{filters}.{number}=org.apache.log4j.varia.StringMatchFilter",
            f'{filters}.{number}.StringToMatch="requestApiKeyName":"{kind}"',
        ]
    return [*lines, f"{filters}.99=org.apache.log4j.varia.DenyAllFilter"]
