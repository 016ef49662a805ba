"""Where refold's rule is better than Kafka's: each deviation by name, with the defect it mends.

Those that are `always` on hold under `rules = "kafka"` too: without them the cluster would be
harmed, or the daemon could not be its controller at all.
"""

from typing import Final

from msgspec import Struct

from controller.core.configuration import Configuration


class Deviation(Struct, frozen=True, kw_only=True):
    """One rule of refold that is not Kafka's. `source` says where the defect is described."""

    name: str
    defect: str
    rule: str
    source: str
    always: bool = False

    def applies(self, configuration: Configuration) -> bool:
        """Whether this configuration decides by it."""
        return self.always or configuration.rules == "refold"


OWN_ID_REPAIRED: Final = Deviation(
    name="own-id-repaired",
    defect="An auto-created topic may place a replica on the daemon's id, which holds no log.",
    rule="Another live broker takes its place before the partition gets a state.",
    source="facts.md, Taking the controller role; DESIGN.md, ZooKeeper and brokers",
    always=True,
)
ROLE_BY_SESSION: Final = Deviation(
    name="role-by-session",
    defect="Kafka takes its own id in /controller for its own role, also when an earlier session "
    "left it: /controller exists and nobody controls.",
    rule="The role is held by the session that owns /controller; an earlier one of the same id "
    "counts as another broker.",
    source="races.md R15 (KAFKA-13407), KB 13.3.4; DESIGN.md, Terms",
    always=True,
)
EVERY_WRITE_GUARDED: Final = Deviation(
    name="every-write-guarded",
    defect="Kafka writes /feature without a check of the controller epoch: a deposed controller "
    "can overwrite it.",
    rule="It is written with the check of /controller_epoch, as all else.",
    source="KB 1.3 table, KB 18 point 15",
    always=True,
)
UNREADABLE_SKIPPED: Final = Deviation(
    name="unreadable-skipped",
    defect="One broker registration that cannot be read makes Kafka drop the whole controller "
    "event, or give up the failover.",
    rule="The znode is told with its path and left out; the rest goes on.",
    source="KB 1.2 item 3, KB 3.1.5",
    always=True,
)

STATE_ADOPTED: Final = Deviation(
    name="state-adopted",
    defect="A partition whose state znode exists when it is found, because its topic could not be "
    "read before, stays without a leader until the next failover.",
    rule="The state that stands there is taken, and a leader elected by it.",
    source="KB 4.3.4",
)
FAILOVER_BACK_OFF: Final = Deviation(
    name="failover-back-off",
    defect="A failover that fails on what stands in ZooKeeper is tried again at once by every "
    "broker in turn: the controller epoch climbs by 15 to 25 a second.",
    rule="After a failed failover the role is free for the others; the daemon stands for it again "
    "a second later.",
    source="KB 6.2 end, OB-04, OB-05",
)

ALL: Final = (
    OWN_ID_REPAIRED,
    ROLE_BY_SESSION,
    EVERY_WRITE_GUARDED,
    UNREADABLE_SKIPPED,
    STATE_ADOPTED,
    FAILOVER_BACK_OFF,
)
