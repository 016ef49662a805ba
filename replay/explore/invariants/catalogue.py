"""All invariants, in the order of docs/invariants.md."""

from typing import Final

from replay.explore.invariants.assignments import (
    AssignmentNotSmaller,
    CancellationRestores,
    PartitionsKept,
    ReassignmentNotGivenUp,
)
from replay.explore.invariants.cancellations import (
    CancelledEntriesGone,
    CancelledRolledBack,
    EntriesAccountedFor,
    NothingCompletesWhileCancelled,
    OlderEntriesRemoved,
    RecordsOutliveMoves,
)
from replay.explore.invariants.credentials import CredentialsAsRequested
from replay.explore.invariants.elections import (
    ElectedIsOnline,
    FirstReplicaLeads,
    UncleanIsAllowed,
)
from replay.explore.invariants.epochs import (
    ControllerEpochsForward,
    DeposedWriteNothing,
    EpochRaisedByOwner,
    RequestsCarryEpochs,
    StateCarriesEpoch,
)
from replay.explore.invariants.invariant import Invariant
from replay.explore.invariants.leadership import (
    LeaderEpochsForward,
    LeaderInIsr,
    OneLeaderPerEpoch,
    TopicIdsKept,
)
from replay.explore.invariants.metadata import MetadataForward, SentStatesStored
from replay.explore.invariants.producer_ids import ProducerIdsUnique
from replay.explore.invariants.records import AcknowledgedRecordsKept, ReadRecordsStable
from replay.explore.invariants.recovery import (
    AdminZnodesGone,
    ControllerActive,
    DeletionsEnded,
    IsrsFull,
    MetadataCurrent,
    PartitionsLed,
    PreferredLeaders,
    ProceduresEnded,
    ReassignmentsEnded,
    Recovery,
    RequestsAnswered,
    StraysDeleted,
)
from replay.explore.invariants.replicas import (
    AssignedReplicasKept,
    FailedLeaveIsr,
    IsrAsRequested,
    IsrWithinAssignment,
    NoIneligibleInIsr,
)
from replay.explore.invariants.requests import (
    AnsweredOnce,
    DeletionsConfirmed,
    DeletionsKept,
    EarlierRunsRefused,
    RequestsKept,
)
from replay.explore.invariants.rollbacks import RollbackKeepsInSync
from replay.explore.invariants.watches import ChangedListsRead, ReadListsKnown

ALWAYS: Final[tuple[type[Invariant], ...]] = (
    OneLeaderPerEpoch,
    LeaderEpochsForward,
    LeaderInIsr,
    ElectedIsOnline,
    UncleanIsAllowed,
    FirstReplicaLeads,
    TopicIdsKept,
    ControllerEpochsForward,
    EpochRaisedByOwner,
    StateCarriesEpoch,
    DeposedWriteNothing,
    RequestsCarryEpochs,
    AcknowledgedRecordsKept,
    ReadRecordsStable,
    IsrWithinAssignment,
    NoIneligibleInIsr,
    FailedLeaveIsr,
    IsrAsRequested,
    AssignedReplicasKept,
    AssignmentNotSmaller,
    CancellationRestores,
    ReassignmentNotGivenUp,
    PartitionsKept,
    NothingCompletesWhileCancelled,
    CancelledRolledBack,
    CancelledEntriesGone,
    OlderEntriesRemoved,
    RollbackKeepsInSync,
    RecordsOutliveMoves,
    EntriesAccountedFor,
    SentStatesStored,
    MetadataForward,
    ChangedListsRead,
    ReadListsKnown,
    AnsweredOnce,
    EarlierRunsRefused,
    DeletionsKept,
    DeletionsConfirmed,
    RequestsKept,
    ProducerIdsUnique,
    CredentialsAsRequested,
)
"""Hold after every step of a run."""

RECOVERY: Final[tuple[type[Recovery], ...]] = (
    ControllerActive,
    ProceduresEnded,
    RequestsAnswered,
    PartitionsLed,
    PreferredLeaders,
    IsrsFull,
    ReassignmentsEnded,
    DeletionsEnded,
    AdminZnodesGone,
    StraysDeleted,
    MetadataCurrent,
)
"""Hold within a stated time after the last fault."""
