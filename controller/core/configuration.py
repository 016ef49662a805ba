"""What the fold is configured with: a part of every log's header."""

from typing import Literal

from msgspec import Struct

from controller.core.protocol_versions import LATEST, ProtocolVersion


class Configuration(Struct, frozen=True, kw_only=True):
    """The settings that change decisions. Names are Kafka's with underscores for dots.

    `broker_id` is the daemon's own, one that no broker has. `rules` "kafka" turns refold's
    deviations off (deviations.py). `take_over` takes the role from a living controller each time
    a session begins. No secret is ever a part of this.
    """

    broker_id: int
    inter_broker_protocol_version: str = LATEST
    inter_broker_listener: str = "PLAINTEXT"
    control_plane_listener: str | None = None
    rules: Literal["refold", "kafka"] = "refold"
    take_over: bool = False
    unclean_leader_election_enable: bool = False

    @property
    def protocol(self) -> ProtocolVersion:
        """The protocol version, parsed. Raises ConfigurationError for an unknown one."""
        return ProtocolVersion(self.inter_broker_protocol_version)

    @property
    def controller_listener(self) -> str:
        """The listener on which control requests go to brokers (KB 12.1.6)."""
        return self.control_plane_listener or self.inter_broker_listener
