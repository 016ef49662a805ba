"""What was observed: one tagged union of immutable values, the only input of the fold.

An outcome names the command that it answers (`command`); other events are exogenous. Bulk outcomes
hold columns, with one entry for each item, so that 100,000 znodes need no 100,000 objects.
"""

from typing import Literal

from msgspec import Struct

from controller.core.commands import CommandId
from controller.core.scram_requests import AlterUserScramCredentialsReceived
from controller.core.topic_requests import (
    CreatePartitionsReceived,
    CreateTopicsReceived,
    DeleteTopicsReceived,
    TopicRequest,
    UpdateFeaturesReceived,
)

# The ZooKeeper session ------------------------------------------------------------------------


class SessionConnected(Struct, frozen=True, array_like=True, tag="session_connected"):
    """A connection to a ZooKeeper server is established. `renewed`: the session is the same as
    before."""

    session_id: int
    timeout_ms: int
    server: str
    renewed: bool


class SessionDisconnected(Struct, frozen=True, array_like=True, tag="session_disconnected"):
    """The connection is lost; the session may still be alive. Follows the outcomes of all commands
    that were in flight (CONNECTION_LOSS)."""

    session_id: int
    cause: str


class SessionExpired(Struct, frozen=True, array_like=True, tag="session_expired"):
    """The session has ended, as the server says or by its time-out. Follows the outcomes of all
    commands that were in flight or waiting (SESSION_EXPIRED)."""

    session_id: int


class WatchFired(Struct, frozen=True, array_like=True, tag="watch_fired"):
    """A watched znode changed. `change`: "created", "deleted", "data" or "children"."""

    path: str
    change: str
    zxid: int


# Outcomes of ZooKeeper commands ---------------------------------------------------------------


class ZnodesRead(Struct, frozen=True, array_like=True, tag="znodes_read"):
    """Outcome of `ReadZnodes` and `ReadStats`: the items from `offset` on, from one reply packet.

    `errors` holds one ZooKeeper code for each item (0 is OK). Data is None for an item with an
    error, for a znode without data, and for `ReadStats`.
    """

    command: CommandId
    offset: int
    errors: list[int]
    data: list[bytes | None]
    versions: list[int]
    czxids: list[int]
    mzxids: list[int]
    owners: list[int]


class ChildrenRead(Struct, frozen=True, array_like=True, tag="children_read"):
    """Outcome of `ReadChildren`: names, sorted."""

    command: CommandId
    error: int
    children: list[str]


class ZnodesWritten(Struct, frozen=True, array_like=True, tag="znodes_written"):
    """Outcome of writes: the operations from `offset` on.

    `versions` holds the new version of each znode that was set or created, else -1. The error is
    that of the operation, FENCED if the check of the epoch failed, CONNECTION_LOSS or
    SESSION_EXPIRED if no reply came.
    """

    command: CommandId
    offset: int
    errors: list[int]
    versions: list[int]


# Brokers --------------------------------------------------------------------------------------


class BrokerAnswered(Struct, frozen=True, array_like=True, tag="broker_answered"):
    """A broker responded to a request. `partition_errors` holds the partitions with an error code
    that is not zero: topic name (topic id in hex if the version names topics by id), partition,
    code."""

    command: CommandId
    broker: int
    broker_epoch: int
    error: int
    partition_errors: list[tuple[str, int, int]]


class ChannelFault(Struct, frozen=True, array_like=True, tag="channel_fault"):
    """A channel does not work. Reported once each time the reason changes, while the channel keeps
    trying.

    `kind`: "unreachable", "version" (the broker does not support the request's version), "closed"
    (the broker closed the connection at a request), "recovered".
    """

    broker: int
    broker_epoch: int
    kind: str
    text: str


class VersionsOffered(Struct, frozen=True, array_like=True, tag="versions_offered"):
    """The API versions of a broker: once for each channel, before the first response on it.
    `highest`: the highest version of each API, by API key."""

    broker: int
    broker_epoch: int
    highest: list[tuple[int, int]]


# Requests that brokers send to the controller ---------------------------------------------------
#
# `request` numbers the requests of one daemon run; the answer is a command that names it.


class ProposedState(Struct, frozen=True, array_like=True, gc=False):
    """One partition of an AlterPartition request: the state that its leader proposes.

    `topic` is the name, or the topic id in hex from version 2 on.
    """

    topic: str
    partition: int
    leader_epoch: int
    isr: tuple[int, ...]
    recovery_state: int
    partition_epoch: int


class AlterPartitionReceived(Struct, frozen=True, array_like=True, tag="alter_partition_received"):
    """A leader asks for other ISRs (KB 11.2). The broker epochs of ISR members in version 3 are
    left out, as Kafka's ZooKeeper controller ignores them."""

    request: int
    version: int
    broker: int
    broker_epoch: int
    partitions: list[ProposedState]


class ControlledShutdownReceived(
    Struct, frozen=True, array_like=True, tag="controlled_shutdown_received"
):
    """A broker is about to stop (KB 9.5). `broker_epoch` is -1 if the version does not have it."""

    request: int
    version: int
    broker: int
    broker_epoch: int


class AllocateProducerIdsReceived(
    Struct, frozen=True, array_like=True, tag="allocate_producer_ids_received"
):
    """A broker asks for a block of producer ids (KB 11.4)."""

    request: int
    version: int
    broker: int
    broker_epoch: int


# Requests of admin tools --------------------------------------------------------------------------


class ReassignmentTarget(Struct, frozen=True, array_like=True, gc=False):
    """One partition of an AlterPartitionReassignments request: the target replicas; None cancels
    the reassignment."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None


class AlterPartitionReassignmentsReceived(
    Struct, frozen=True, array_like=True, tag="alter_partition_reassignments_received"
):
    """An admin tool asks for other replicas of partitions (KB 7.3)."""

    request: int
    version: int
    partitions: list[ReassignmentTarget]


class ListPartitionReassignmentsReceived(
    Struct, frozen=True, array_like=True, tag="list_partition_reassignments_received"
):
    """An admin tool lists the reassignments under way (KB 11.6). `partitions` is None for all."""

    request: int
    version: int
    partitions: list[tuple[str, int]] | None


class ElectLeadersReceived(Struct, frozen=True, array_like=True, tag="elect_leaders_received"):
    """An admin tool asks for elections (KB 3.9, 11.5). `partitions` is None for all. `timeout_ms`:
    how long the answer may wait until brokers know the new leaders; 0: not at all."""

    request: int
    version: int
    election: Literal["preferred", "unclean"]
    partitions: list[tuple[str, int]] | None
    timeout_ms: int = 0


BrokerApiRequest = AlterPartitionReceived | ControlledShutdownReceived | AllocateProducerIdsReceived
AdminRequest = (
    AlterPartitionReassignmentsReceived
    | ListPartitionReassignmentsReceived
    | ElectLeadersReceived
    | AlterUserScramCredentialsReceived
    | TopicRequest
)
ApiRequest = BrokerApiRequest | AdminRequest

# The rest -------------------------------------------------------------------------------------


class TimerFired(Struct, frozen=True, array_like=True, tag="timer_fired"):
    """A timer that was started has run out."""

    timer: str


class TopicIdsDrawn(Struct, frozen=True, array_like=True, tag="topic_ids_drawn"):
    """Outcome of `DrawTopicIds`: 16 random bytes each."""

    command: CommandId
    topic_ids: list[bytes]


class NumbersDrawn(Struct, frozen=True, array_like=True, tag="numbers_drawn"):
    """Outcome of `DrawNumbers`: one number a bound."""

    command: CommandId
    numbers: list[int]


class ShutdownRequested(Struct, frozen=True, array_like=True, tag="shutdown_requested"):
    """The operator asks the daemon to exit (SIGTERM), after it has given up the role."""

    reason: str


Event = (
    SessionConnected
    | SessionDisconnected
    | SessionExpired
    | WatchFired
    | ZnodesRead
    | ChildrenRead
    | ZnodesWritten
    | BrokerAnswered
    | ChannelFault
    | VersionsOffered
    | AlterPartitionReceived
    | ControlledShutdownReceived
    | AllocateProducerIdsReceived
    | AlterPartitionReassignmentsReceived
    | ListPartitionReassignmentsReceived
    | ElectLeadersReceived
    | CreateTopicsReceived
    | CreatePartitionsReceived
    | DeleteTopicsReceived
    | UpdateFeaturesReceived
    | AlterUserScramCredentialsReceived
    | TimerFired
    | TopicIdsDrawn
    | NumbersDrawn
    | ShutdownRequested
)

Outcome = ZnodesRead | ChildrenRead | ZnodesWritten | TopicIdsDrawn | NumbersDrawn


class Recorded(Struct, frozen=True, array_like=True):
    """An event as it is stored in the log. Times are in nanoseconds.

    `term` is the controller epoch of the shell when the event was appended, 0: none. `channel`
    names the connection that the event came on: order is promised only within a channel.
    """

    seq: int
    wall_ns: int
    mono_ns: int
    term: int
    channel: str
    event: Event
