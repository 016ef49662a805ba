"""What the checks are made on. Plain values: `gathering` collects them, `checks` judges them."""

from pathlib import Path

from msgspec import Struct

from controller.core.values import Broker


class ServerStatus(Struct, frozen=True, kw_only=True):
    """One ZooKeeper server. `fault`: why it cannot be reached, or empty. `version` is None where
    it does not answer `srvr`."""

    server: str
    fault: str = ""
    version: str | None = None


class ControllerStatus(Struct, frozen=True, kw_only=True):
    """The content of /controller; `broker_id` is None where it cannot be read."""

    broker_id: int | None
    kraft_epoch: int = -1
    is_ephemeral: bool = True


class ClusterStatus(Struct, frozen=True, kw_only=True):
    """What stands below the chroot. `registered`: the ids in /brokers/ids; `unreadable`:
    registrations that cannot be read, and why; `registration_versions`: of those that can, the
    version of their JSON by broker id. `migrating`: what /migration says of a migration,
    empty for none."""

    chroot_exists: bool
    is_kafka: bool = False
    cluster_id: str | None = None
    registered: tuple[int, ...] = ()
    brokers: tuple[Broker, ...] = ()
    unreadable: tuple[str, ...] = ()
    registration_versions: dict[int, int] = {}
    controller: ControllerStatus | None = None
    migrating: str = ""


class BrokerStatus(Struct, frozen=True, kw_only=True):
    """One broker as its controller listener answers. `versions`: of each request that refold
    sends, the one wanted and the one that would be sent. `fault`: what stood in the way.
    `policies`: the plugins that it is configured with, by key; `policies_fault`: why it did not
    tell them, where the rest is well."""

    broker: int
    fault: str = ""
    versions: tuple[tuple[str, int, int], ...] = ()
    policies: dict[str, str] = {}
    policies_fault: str = ""


class DiskStatus(Struct, frozen=True, kw_only=True):
    """The log directory. `fault`: why it cannot be written; `sync_ms`: the slowest of some fsyncs
    of one record each."""

    folder: Path
    fault: str = ""
    free_bytes: int = 0
    sync_ms: float = 0.0


class ZooKeeperStatus(Struct, frozen=True, kw_only=True):
    """What a session shows. Without one `cluster` is None and `fault` says why."""

    fault: str = ""
    cluster: ClusterStatus | None = None


class SystemStatus(Struct, frozen=True, kw_only=True):
    """Everything that `refold check` looks at. `listening_fault`: why the daemon could not listen,
    or empty. `clock_ahead_ms`: our clock against ZooKeeper's, None where it could not be read."""

    zookeeper: ZooKeeperStatus
    servers: tuple[ServerStatus, ...]
    brokers: tuple[BrokerStatus, ...]
    disk: DiskStatus
    listening_fault: str = ""
    clock_ahead_ms: int | None = None
