"""All invariants, in the order of docs/invariants.md."""

from typing import Final

from replay.explore.invariants.assignments import (
    AssignmentNotSmaller,
    CancellationRestores,
    PartitionsKept,
    ReassignmentNotGivenUp,
)
from replay.explore.invariants.epochs import ControllerEpochsForward, StateCarriesEpoch
from replay.explore.invariants.invariant import Invariant
from replay.explore.invariants.leadership import (
    LeaderEpochsForward,
    LeaderInIsr,
    OneLeaderPerEpoch,
    TopicIdsKept,
)
from replay.explore.invariants.metadata import MetadataForward
from replay.explore.invariants.records import AcknowledgedRecordsKept, ReadRecordsStable
from replay.explore.invariants.recovery import (
    AdminZnodesGone,
    ControllerActive,
    DeletionsEnded,
    IsrsFull,
    MetadataCurrent,
    PartitionsLed,
    ReassignmentsEnded,
    Recovery,
)
from replay.explore.invariants.replicas import (
    AssignedReplicasKept,
    IsrWithinAssignment,
    NoIneligibleInIsr,
)

ALWAYS: Final[tuple[type[Invariant], ...]] = (
    OneLeaderPerEpoch,
    LeaderEpochsForward,
    LeaderInIsr,
    TopicIdsKept,
    ControllerEpochsForward,
    StateCarriesEpoch,
    AcknowledgedRecordsKept,
    ReadRecordsStable,
    IsrWithinAssignment,
    NoIneligibleInIsr,
    AssignedReplicasKept,
    AssignmentNotSmaller,
    CancellationRestores,
    ReassignmentNotGivenUp,
    PartitionsKept,
    MetadataForward,
)
"""Hold after every step of a run."""

RECOVERY: Final[tuple[type[Recovery], ...]] = (
    ControllerActive,
    PartitionsLed,
    IsrsFull,
    ReassignmentsEnded,
    DeletionsEnded,
    AdminZnodesGone,
    MetadataCurrent,
)
"""Hold within a stated time after the last fault."""
