"""What the fold is configured with: a part of every log's header."""

from typing import Literal

from msgspec import Struct

from controller.core.protocol_versions import LATEST, ProtocolVersion
from controller.core.values import NO_BROKER, NO_EPOCH, Broker, Endpoint


class Configuration(Struct, frozen=True, kw_only=True):
    """The settings that change decisions. Names are Kafka's with underscores for dots.

    `broker_id` is the daemon's own, one that no broker has; with `is_broker` it is that of a stock
    broker, whose decisions as controller are derived. `rules` "kafka" turns refold's
    deviations off (deviations.py). `take_over` takes the role from a living controller each time
    a session begins. `endpoints` and `rack` are told to brokers as those of a live broker, so
    that they and their clients find the controller; without endpoints it is not told.
    `broker_settings` are those that say something of topics' configurations, as they were given,
    under Kafka's keys (topic_configs.BROKER_KEYS). `kip_236_enable` makes reassignments
    interruptible (docs/kip-236.md); a log that was begun before there was such a thing does not
    say so.
    No secret is ever a part of this.
    """

    broker_id: int
    is_broker: bool = False
    inter_broker_protocol_version: str = LATEST
    inter_broker_listener: str = "PLAINTEXT"
    control_plane_listener: str | None = None
    rules: Literal["refold", "kafka"] = "refold"
    take_over: bool = False
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

    @property
    def protocol(self) -> ProtocolVersion:
        """The protocol version, parsed. Raises ConfigurationError for an unknown one."""
        return ProtocolVersion(self.inter_broker_protocol_version)

    @property
    def lists_empty_partitions(self) -> bool:
        """Whether a partition without replicas counts, as in Kafka, where it fails what looks for
        its preferred replica, every failover too. The daemon leaves it alone, by any rules."""
        return self.is_broker and self.rules == "kafka"

    @property
    def keeps_state_without_role(self) -> bool:
        """Whether a controller whose role is gone when it wants to give it up keeps what it knows,
        and its channels, as Kafka's does: its next failover fails on a partition without replicas
        that had a leader, and on a broker that still has a channel.
        """
        return self.lists_empty_partitions

    @property
    def id_without_replicas(self) -> int:
        """The broker id that can hold no replica: the daemon's."""
        return NO_BROKER if self.is_broker else self.broker_id

    @property
    def has_kip_236(self) -> bool:
        """Whether reassignments are cancelled, added and requested as KIP-236 has it; Kafka knows
        nothing of it."""
        return self.kip_236_enable and self.rules == "refold"

    @property
    def own_broker(self) -> Broker | None:
        """The daemon as brokers see it; None where it has no endpoint."""
        if not self.endpoints:
            return None
        return Broker(self.broker_id, NO_EPOCH, self.endpoints, self.rack)

    @property
    def controller_listener(self) -> str:
        """The listener on which control requests go to brokers (KB 12.1.6)."""
        return self.control_plane_listener or self.inter_broker_listener
