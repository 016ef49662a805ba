"""The replica state machine as a table (Kafka's ReplicaState, KB 5.1).

A replica is NEW while its partition is made or moved to it, ONLINE while it is to follow or lead,
OFFLINE while its broker or log directory is gone. The deletion states are passed one after the
other when its topic is deleted or it leaves the assignment.
`docs/state-machines.md` is drawn from this table.
"""

from enum import IntEnum
from typing import Final


class ReplicaState(IntEnum):
    """Kafka's codes."""

    NEW = 1
    ONLINE = 2
    OFFLINE = 3
    DELETION_STARTED = 4
    DELETION_SUCCESSFUL = 5
    DELETION_INELIGIBLE = 6
    NON_EXISTENT = 7


_LIVING: Final = (
    ReplicaState.NEW,
    ReplicaState.ONLINE,
    ReplicaState.OFFLINE,
    ReplicaState.DELETION_INELIGIBLE,
)

PREVIOUS_STATES: Final = {
    ReplicaState.NEW: (ReplicaState.NON_EXISTENT,),
    ReplicaState.ONLINE: _LIVING,
    ReplicaState.OFFLINE: _LIVING,
    ReplicaState.DELETION_STARTED: (ReplicaState.OFFLINE,),
    ReplicaState.DELETION_SUCCESSFUL: (ReplicaState.DELETION_STARTED,),
    ReplicaState.DELETION_INELIGIBLE: (ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED),
    ReplicaState.NON_EXISTENT: (ReplicaState.DELETION_SUCCESSFUL,),
}
"""For each state those that it may be entered from."""
