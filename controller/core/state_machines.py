"""The partition and the replica state machine as tables (Kafka's PartitionState and ReplicaState).

`docs/state-machines.md` is generated from these tables.
"""

from enum import IntEnum
from typing import Final


class PartitionState(IntEnum):
    """The states of a partition, with Kafka's codes (KB 4.1).

    A partition that is not known is NON_EXISTENT. It becomes NEW when it is found in an assignment,
    ONLINE when it has a leader and OFFLINE when that leader is gone. Its deletion ends it.
    """

    NEW = 0
    ONLINE = 1
    OFFLINE = 2
    NON_EXISTENT = 3


PREVIOUS_PARTITION_STATES: Final = {
    PartitionState.NEW: (PartitionState.NON_EXISTENT,),
    PartitionState.ONLINE: (PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE),
    PartitionState.OFFLINE: (PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE),
    PartitionState.NON_EXISTENT: (PartitionState.OFFLINE,),
}
"""For each state the states from which it can be entered."""


class ReplicaState(IntEnum):
    """The states of a replica, with Kafka's codes (KB 5.1).

    A replica is NEW while its partition is created or moved to it. It is ONLINE while it has to
    lead or follow, and OFFLINE while its broker or log directory is gone. It passes the deletion
    states one after the other when its topic is deleted or it leaves the assignment.
    """

    NEW = 1
    ONLINE = 2
    OFFLINE = 3
    DELETION_STARTED = 4
    DELETION_SUCCESSFUL = 5
    DELETION_INELIGIBLE = 6
    NON_EXISTENT = 7


_ALIVE: Final = (
    ReplicaState.NEW,
    ReplicaState.ONLINE,
    ReplicaState.OFFLINE,
    ReplicaState.DELETION_INELIGIBLE,
)

PREVIOUS_REPLICA_STATES: Final = {
    ReplicaState.NEW: (ReplicaState.NON_EXISTENT,),
    ReplicaState.ONLINE: _ALIVE,
    ReplicaState.OFFLINE: _ALIVE,
    ReplicaState.DELETION_STARTED: (ReplicaState.OFFLINE,),
    ReplicaState.DELETION_SUCCESSFUL: (ReplicaState.DELETION_STARTED,),
    ReplicaState.DELETION_INELIGIBLE: (ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED),
    ReplicaState.NON_EXISTENT: (ReplicaState.DELETION_SUCCESSFUL,),
}
"""For each state the states from which it can be entered."""
