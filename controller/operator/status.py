"""The status that checks evaluate. Plain values: `probes` collects them."""

from pathlib import Path

from msgspec import Struct

from controller.core.values import Broker
from controller.core.znodes.acls import Acl


class ServerStatus(Struct, frozen=True, kw_only=True):
    """One ZooKeeper server. `fault`: why it is not reachable, or empty. `version` is None if it
    does not answer `srvr`."""

    server: str
    fault: str = ""
    version: str | None = None


class ControllerStatus(Struct, frozen=True, kw_only=True):
    """The content of /controller; `broker_id` is None if it cannot be read. `session_id` is the
    session that owns the znode, 0 for none."""

    broker_id: int | None
    kraft_epoch: int = -1
    session_id: int = 0

    @property
    def is_ephemeral(self) -> bool:
        """Whether the znode ends with a session."""
        return self.session_id != 0


class ClusterStatus(Struct, frozen=True, kw_only=True):
    """The cluster below the chroot. `registered`: the ids in /brokers/ids. `unreadable`:
    registrations that cannot be read, and why. `registration_versions`: JSON version of the
    readable ones, by broker id. `migrating`: the state of a migration in /migration, empty for
    none. `dynamic_keys`: the settings in /config/brokers of the daemon's id. `cluster_acls`: the
    ACLs of the cluster; None if they cannot be read."""

    chroot_exists: bool
    is_kafka: bool = False
    cluster_id: str | None = None
    registered: tuple[int, ...] = ()
    brokers: tuple[Broker, ...] = ()
    unreadable: tuple[str, ...] = ()
    registration_versions: dict[int, int] = {}
    controller: ControllerStatus | None = None
    migrating: str = ""
    dynamic_keys: tuple[str, ...] = ()
    cluster_acls: tuple[Acl, ...] | None = ()


class BrokerStatus(Struct, frozen=True, kw_only=True):
    """One broker as seen on its controller listener. `versions`: for each request that refold
    sends, its name, the wanted version and the version that would be sent. `fault`: why it is
    not reachable. `policies`: its configured plugins by key. `deciding`: its own values of the
    settings by which a controller decides, without those that are the cluster's dynamic default.
    `authorizer`: its authorizer.class.name, empty for none. `settings_fault`: why these are unknown
    although the broker answers."""

    broker: int
    fault: str = ""
    versions: tuple[tuple[str, int, int], ...] = ()
    policies: dict[str, str] = {}
    deciding: dict[str, str] = {}
    authorizer: str = ""
    settings_fault: str = ""


class DiskStatus(Struct, frozen=True, kw_only=True):
    """The log directory. `fault`: why it is not writable. `sync_ms`: the slowest of a few fsyncs
    of one record each."""

    folder: Path
    fault: str = ""
    free_bytes: int = 0
    sync_ms: float = 0.0


class ZooKeeperStatus(Struct, frozen=True, kw_only=True):
    """The cluster in ZooKeeper. Without a session `cluster` is None and `fault` says why."""

    fault: str = ""
    cluster: ClusterStatus | None = None


class SystemStatus(Struct, frozen=True, kw_only=True):
    """Everything that `refold check` evaluates. `listening_fault`: why the daemon cannot listen,
    or empty. `clock_ahead_ms`: this machine's clock minus ZooKeeper's, None if unknown."""

    zookeeper: ZooKeeperStatus
    servers: tuple[ServerStatus, ...]
    brokers: tuple[BrokerStatus, ...]
    disk: DiskStatus
    listening_fault: str = ""
    clock_ahead_ms: int | None = None
