"""The immutable values that events, state and commands share.

All are frozen, so that a command can hold a part of the state without a copy.
"""

from collections.abc import Iterable

from msgspec import Struct

NO_BROKER = -1
NO_LEADER = -1
LEADER_DURING_DELETE = -2
NO_EPOCH = -1
EPOCH_DURING_DELETE = -2

RECOVERED = 0
RECOVERING = 1

UNKNOWN_BROKER_EPOCH = -1

ANY_VERSION = -1
"""Matches any znode version in a conditional write (Kafka's ZkVersion.MatchAnyVersion)."""


def format_brokers(brokers: Iterable[int]) -> str:
    """Broker ids in one line, in the given order, as Kafka's tools print replicas."""
    return ",".join(map(str, brokers))


def counted(count: int, noun: str) -> str:
    """A number of things: "1 log", "2 logs"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


class Endpoint(Struct, frozen=True, array_like=True, gc=False):
    """Where a broker listens: one listener of its registration."""

    listener: str
    security_protocol: str
    host: str
    port: int


class Broker(Struct, frozen=True, array_like=True):
    """A registered broker. `epoch` is the czxid of /brokers/ids/N (KB 1.2 item 3)."""

    id: int
    epoch: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None

    def endpoint(self, listener: str) -> Endpoint | None:
        """The endpoint with that listener name, or None."""
        return next((one for one in self.endpoints if one.listener == listener), None)


def format_session(session: int) -> str:
    """The id of a ZooKeeper session as ZooKeeper prints it; ids are signed."""
    return f"0x{session & (2**64 - 1):x}"


class Assignment(Struct, frozen=True, array_like=True, gc=False):
    """The replicas of a partition (Kafka's ReplicaAssignment): RS, AR and RR of KB 0.1."""

    replicas: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def origin(self) -> tuple[int, ...]:
        """ORS: the replicas before the reassignment, RS minus AR in the order of RS."""
        if not self.adding:
            return self.replicas
        return tuple([one for one in self.replicas if one not in self.adding])

    @property
    def target(self) -> tuple[int, ...]:
        """TRS: the replicas after the reassignment, RS minus RR in the order of RS."""
        if not self.removing:
            return self.replicas
        return tuple([one for one in self.replicas if one not in self.removing])

    def reassign_to(self, target: tuple[int, ...]) -> "Assignment":
        """The assignment between the origin and `target` (reassignTo, KB 2.2.14).

        Replicas that an unfinished reassignment was adding are dropped.
        """
        origin = self.origin
        replicas = tuple(dict.fromkeys((*target, *origin)))
        return Assignment(
            replicas,
            tuple(one for one in replicas if one not in origin),
            tuple(one for one in replicas if one not in target),
        )

    @property
    def is_being_reassigned(self) -> bool:
        """Whether replicas are being added or removed; a new order alone is not (KB 2.2.15)."""
        return bool(self.adding or self.removing)


NO_ASSIGNMENT = Assignment()


class LeaderAndIsr(Struct, frozen=True, array_like=True, gc=False):
    """A partition's leader and ISR (Kafka's LeaderIsrAndControllerEpoch).

    `partition_epoch` is the version of the state znode, `controller_epoch` the epoch of the
    controller that made the last decision.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    controller_epoch: int
    recovery_state: int = RECOVERED
