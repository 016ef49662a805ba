"""The settings of the fold, which are in the header of every log."""

from typing import Literal

from msgspec import Struct

from controller.core.protocol_versions import LATEST, ProtocolVersion
from controller.core.values import NO_BROKER, NO_EPOCH, Broker, Endpoint


class Authorization(Struct, frozen=True, kw_only=True):
    """The settings of Kafka's AclAuthorizer. `super_users`: principals such as "User:admin".
    `allows_without_acl`: allow.everyone.if.no.acl.found."""

    super_users: tuple[str, ...] = ()
    allows_without_acl: bool = False


class QuotaWindow(Struct, frozen=True, kw_only=True):
    """How many mutations a client may do at once: those of `samples` windows of `seconds`
    (controller.quota.window.num, controller.quota.window.size.seconds)."""

    samples: int = 11
    seconds: int = 1


class Configuration(Struct, frozen=True, kw_only=True):
    """The settings that affect decisions. Names are Kafka's, with underscores for dots.

    - `broker_id`: the daemon's id, which no broker has. With `is_broker` it is the id of a stock
      broker whose decisions as controller are derived.
    - `rules`: "kafka" turns refold's deviations off (deviations.py).
    - `take_over`: take the role from a living controller each time a session begins.
    - `standby`: while another is controller, follow the cluster so that a take-over reads little;
      `take_over` counts only for the first session.
    - `endpoints`, `rack`: sent to brokers as those of a live broker, so that brokers and clients
      find the controller. Without endpoints the daemon is not in the list of live brokers.
    - `broker_settings`: the settings that affect topic configurations, as given, under Kafka's keys
      (topic_configs.BROKER_KEYS).
    - `kip_236_enable`: makes reassignments interruptible (docs/kip-236.md). Logs from before this
      setting existed do not have it.
    - `checks_topic_versions`: topics' znodes are written with their versions (the deviation
      ADDED_PARTITIONS_KEPT). No operator sets it: it is off only for logs from before it existed.
    - `reports_refusals_together`: one notice for all topics that a request may not use. No operator
      sets it: it is off only for logs from before it existed.
    - `waits_for_own_znode`: a /controller that an earlier session of this run created is left until
      ZooKeeper has deleted it, also with `take_over`.
    - `authorization`: requests need ACLs, which ZooKeeper has; None: everything is allowed, as in
      logs from before this setting existed.
    - `mutation_quotas`: Kafka's controller mutation quotas, which ZooKeeper has, apply to requests;
      None: they do not, as in logs from before this setting existed.
    - `registration_check_ms`: after how long a registration that may be stuck is probed; 0: never,
      as in logs from before this setting existed.

    The settings hold no secret.
    """

    broker_id: int
    is_broker: bool = False
    inter_broker_protocol_version: str = LATEST
    inter_broker_listener: str = "PLAINTEXT"
    control_plane_listener: str | None = None
    rules: Literal["refold", "kafka"] = "refold"
    take_over: bool = False
    waits_for_own_znode: bool = False
    unclean_leader_election_enable: bool = False
    delete_topic_enable: bool = True
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_per_broker_percentage: int = 10
    leader_imbalance_check_interval_seconds: int = 300
    endpoints: tuple[Endpoint, ...] = ()
    rack: str | None = None
    num_partitions: int = 1
    default_replication_factor: int = 1
    broker_settings: dict[str, str] = {}
    kip_236_enable: bool = False
    checks_topic_versions: bool = True
    reports_refusals_together: bool = True
    registration_check_ms: int = 0
    standby: bool = False
    authorization: Authorization | None = None
    mutation_quotas: QuotaWindow | None = None

    @property
    def protocol(self) -> ProtocolVersion:
        """The protocol version, parsed. Raises ConfigurationError for an unknown one."""
        return ProtocolVersion(self.inter_broker_protocol_version)

    @property
    def lists_empty_partitions(self) -> bool:
        """Whether a partition without replicas counts as a partition, as in Kafka.

        There it fails every step that looks for its preferred replica, each failover included. The
        daemon ignores such a partition under any rules.
        """
        return self.is_broker and self.rules == "kafka"

    @property
    def keeps_state_without_role(self) -> bool:
        """Whether a controller that resigns after it has lost the role keeps its state and
        channels, as Kafka's controller does.

        Its next failover fails on a partition without replicas that had a leader, and on a broker
        that still has a channel.
        """
        return self.lists_empty_partitions

    @property
    def id_without_replicas(self) -> int:
        """The broker id that holds no replicas: the daemon's; NO_BROKER for a stock broker."""
        return NO_BROKER if self.is_broker else self.broker_id

    @property
    def has_kip_236(self) -> bool:
        """Whether reassignments can be cancelled, added and requested by KIP-236, which Kafka does
        not have."""
        return self.kip_236_enable and self.rules == "refold"

    @property
    def daemon_broker(self) -> Broker | None:
        """The daemon as brokers see it; None if it has no endpoint."""
        if not self.endpoints:
            return None
        return Broker(self.broker_id, NO_EPOCH, self.endpoints, self.rack)

    @property
    def controller_listener(self) -> str:
        """The listener on which control requests go to brokers (KB 12.1.6)."""
        return self.control_plane_listener or self.inter_broker_listener
