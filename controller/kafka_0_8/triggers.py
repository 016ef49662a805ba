"""The triggers of a broker's procedures. Each is handled by a procedure, first in, first out."""

from msgspec import Struct

from controller.kafka_0_8 import znodes


class Startup(Struct, frozen=True):
    """A session began: brokerStartup()."""


class StateChanged(Struct, frozen=True):
    """The children of the broker's state path changed."""


class LeaderChanged(Struct, frozen=True):
    """The leader znode of a partition changed."""

    topic: str
    partition: int


class ElectionWaitOver(Struct, frozen=True):
    """A replica has waited for LeaderElectionWaitTime, or an election is to be repeated."""

    topic: str
    partition: int


class FollowAgain(Struct, frozen=True):
    """The leader, its address and the assignment are read again."""

    topic: str
    partition: int


class IsrChange(Struct, frozen=True):
    """A replica has caught up, or lags."""

    topic: str
    partition: int


class Diverged(Struct, frozen=True):
    """The leader's log ends at `offset`, before that of this follower."""

    topic: str
    partition: int
    offset: int


class PartitionsReassigned(Struct, frozen=True):
    """The children of the reassigned partitions changed, or what made one unusable."""


class Register(Struct, frozen=True):
    """The registration is tried again."""


class StatePathChanged(Struct, frozen=True):
    """The state path has another version than after the start of this broker."""


class ReadAgain(Struct, frozen=True):
    """A timer has fired: znodes that could not be read are read again."""


Trigger = (
    Startup
    | StateChanged
    | LeaderChanged
    | ElectionWaitOver
    | FollowAgain
    | IsrChange
    | Diverged
    | PartitionsReassigned
    | Register
    | StatePathChanged
    | ReadAgain
)


def trigger_of(path: str, change: str, broker_id: int) -> Trigger | None:
    """The trigger of a fired watch; None if the change does not matter."""
    if path == znodes.state_path(broker_id):
        return StateChanged() if change == "children" else None
    if path == znodes.broker_path(broker_id):
        return Register() if change == "deleted" else None
    if path == znodes.REASSIGNED or path.startswith(f"{znodes.REASSIGNED}/"):
        return PartitionsReassigned() if change in ("children", "data") else None
    if path.startswith(f"{znodes.STATE}/"):
        # The queue of a new replica whose broker was unknown.
        return PartitionsReassigned() if change == "created" else None
    partition = znodes.partition_of_leader(path)
    return LeaderChanged(*partition) if partition else None
