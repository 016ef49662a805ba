"""The partition state machine as a table (Kafka's PartitionState, KB 4.1).

A partition that is not known is NON_EXISTENT. New ones become NEW when they are found in an
assignment, ONLINE when they have a leader, OFFLINE when that leader is gone. Deletion ends them.
`docs/state-machines.md` is drawn from this table.
"""

from enum import IntEnum
from typing import Final


class PartitionState(IntEnum):
    """Kafka's codes."""

    NEW = 0
    ONLINE = 1
    OFFLINE = 2
    NON_EXISTENT = 3


PREVIOUS_STATES: Final = {
    PartitionState.NEW: (PartitionState.NON_EXISTENT,),
    PartitionState.ONLINE: (PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE),
    PartitionState.OFFLINE: (PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE),
    PartitionState.NON_EXISTENT: (PartitionState.OFFLINE,),
}
"""For each state those that it may be entered from."""
