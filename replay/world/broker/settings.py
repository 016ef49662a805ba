"""The settings of a broker that change what it does."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from controller.core.protocol_versions import LATEST, ProtocolVersion
from replay.world.scheduler import MS, SECOND

LISTENER: Final = "PLAINTEXT"
"""The only listener of the simulated brokers and controllers."""

_LATEST: Final = ProtocolVersion(LATEST)

_BY_KAFKA_NAME: Final = {
    "replica.lag.time.max.ms": ("lag_us", MS, 1),
    "replica.fetch.wait.max.ms": ("fetch_wait_us", MS, 0),
    "replica.fetch.backoff.ms": ("fetch_backoff_us", MS, 1),
    "replica.socket.timeout.ms": ("socket_timeout_us", MS, 1),
    "replica.high.watermark.checkpoint.interval.ms": ("checkpoint_us", MS, 1),
    "log.flush.interval.ms": ("flush_us", MS, 1),
    "min.insync.replicas": ("min_isr", 1, 1),
    # A client has a part of this time to connect; with a few milliseconds it never does.
    "zookeeper.session.timeout.ms": ("session_timeout_ms", 1, 100),
    "controlled.shutdown.max.retries": ("shutdown_attempts", 1, 0),
    "controlled.shutdown.retry.backoff.ms": ("shutdown_backoff_us", MS, 0),
}

KAFKA_NAMES: Final = tuple(sorted(_BY_KAFKA_NAME))
"""The settings of a broker that change what it does here."""


class BrokerSettings(Struct, frozen=True, kw_only=True):
    """The defaults are those of Kafka where Kafka has the setting.

    `flush_us` is how often the operating system writes records to the disk: Kafka does not flush.
    `start_us` is the time from the start of the process to its connection to ZooKeeper. A
    supervisor starts a broker again `restart_us` after it has exited because of an error, or has
    not been registered for `unregistered_us`: early enough that the cluster can recover from it in
    the quiet part of a run.
    """

    protocol: ProtocolVersion = _LATEST
    session_timeout_ms: int = 18_000
    lag_us: int = 30 * SECOND
    fetch_wait_us: int = 500 * MS
    fetch_backoff_us: int = SECOND
    socket_timeout_us: int = 30 * SECOND
    checkpoint_us: int = 5 * SECOND
    flush_us: int = 5 * SECOND
    min_isr: int = 1
    shutdown_attempts: int = 3
    shutdown_backoff_us: int = 5 * SECOND
    start_us: int = SECOND
    restart_us: int = 5 * SECOND
    unregistered_us: int = 20 * SECOND

    @property
    def truncates_on_fetch(self) -> bool:
        """Whether a fetch response says where logs diverge (isTruncationOnFetchSupported)."""
        return self.protocol.at_least("2.7-IV1")


def settings_of(protocol: str, kafka: Mapping[str, str]) -> BrokerSettings:
    """The settings by Kafka's names. Raises ValueError for others, and for values that are no
    numbers or too small."""
    known = {}
    for name, value in kafka.items():
        if name not in _BY_KAFKA_NAME:
            names = ", ".join(KAFKA_NAMES)
            raise ValueError(f"broker_settings: {name!r} has no effect here; use {names}")
        field, unit, least = _BY_KAFKA_NAME[name]
        if not value.strip().isdecimal():
            raise ValueError(f"broker_settings: {name} must be a whole number, not {value!r}")
        if int(value) < least:
            raise ValueError(f"broker_settings: {name} must be at least {least}, not {value!r}")
        known[field] = int(value) * unit
    return BrokerSettings(protocol=ProtocolVersion(protocol), **known)
