"""The cluster of a recording: drawn from its seed, except for what the mix or the user fixes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tools.recordings.brokers import Logging

PROTOCOLS: Mapping[str, tuple[str, ...]] = {
    "3.9.1": ("2.6", "3.9", "2.7", "2.8", "3.0"),
    "3.3.2": ("3.3", "2.6", "3.0"),
    "2.8.2": ("2.8", "2.6", "2.7"),
}
"""Inter-broker protocol versions by Kafka version; 2.7-IV2 and later have AlterPartition."""

_CHROOTS = ("", "", "", "/kafka", "/prod/k1")


@dataclass(frozen=True)
class SetupOptions:
    """The options of a user; None is drawn from the seed."""

    seed: int
    mix: str
    seconds: float
    kafka: str = "3.9.1"
    protocol: str | None = None
    brokers: int | None = None
    logging: Logging = "full"


@dataclass(frozen=True)
class Setup:
    """A cluster to record."""

    kafka: str
    protocol: str
    brokers: int
    chroot: str
    ending: str
    zookeeper: dict[str, str]
    log_dirs: int = 1
    config: dict[str, str] = field(default_factory=dict)

    def broker_config(self, folder: str) -> dict[str, str]:
        """server.properties of a broker, without its addresses."""
        dirs = ",".join(f"{folder}/data-{number}" for number in range(1, self.log_dirs + 1))
        return {
            "log.dirs": dirs,
            "inter.broker.protocol.version": self.protocol,
            "auto.create.topics.enable": "false",
            "auto.leader.rebalance.enable": "false",
            "leader.imbalance.check.interval.seconds": "8",
            "controlled.shutdown.retry.backoff.ms": "1000",
            "default.replication.factor": "2",
            "min.insync.replicas": "1",
            "num.partitions": "2",
            "offsets.topic.replication.factor": "2",
            "replica.fetch.max.bytes": "65536",
            "replica.fetch.response.max.bytes": "131072",
            "replica.high.watermark.checkpoint.interval.ms": "1000",
            "replica.lag.time.max.ms": "4000",
            "unclean.leader.election.enable": "false",
            "zookeeper.session.timeout.ms": "6000",
            **self.config,
        }


def draw_setup(options: SetupOptions, rng: Random, changes: Mapping[str, Any]) -> Setup:
    """The cluster of a seed; `changes` are fields of Setup that the mix fixes, such as `config`."""
    protocols = PROTOCOLS[options.kafka]
    return Setup(
        **{
            "kafka": options.kafka,
            "protocol": options.protocol or protocols[options.seed % len(protocols)],
            "brokers": options.brokers or rng.choice((3, 3, 4, 4, 5)),
            "chroot": rng.choice(_CHROOTS),
            "ending": rng.choice(("clean", "abrupt")),
            "zookeeper": {
                "tickTime": "1000",
                "snapCount": rng.choice(("100000", "100000", "300", "700")),
                "preAllocSize": "64",
            },
            **changes,
        }
    )
