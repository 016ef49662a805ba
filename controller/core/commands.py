"""The decisions of the controller: one tagged union of immutable values.

The fold issues commands, the daemon carries them out. The outcome of a command is an event that
names it by its `CommandId`. The log stores a command's kind, target, reason and a digest of its
canonical body: msgpack in field order, with collections in the order of the fold (always sorted).
"""

from typing import Generic, NamedTuple, TypeVar

from msgspec import Struct

from controller.core.api_requests import ApiResponse
from controller.core.operations import WriteOperation
from controller.core.values import Assignment, Broker, Endpoint, LeaderAndIsr


class CommandId(NamedTuple):
    """Names a command uniquely in a log: the event that caused it, and its ordinal among that
    event's commands."""

    cause: int
    ordinal: int


# ZooKeeper ------------------------------------------------------------------------------------


class ReadZnodes(Struct, frozen=True, array_like=True, tag="read_znodes"):
    """Read data and stat of many znodes. Outcome: one or more `ZnodesRead`, in order.

    With `watch`, the next change of each existing znode is reported as a `WatchFired`.
    """

    paths: tuple[str, ...]
    watch: bool = False


class ReadStats(Struct, frozen=True, array_like=True, tag="read_stats"):
    """Read only the stats (ZooKeeper's exists). Outcome: `ZnodesRead`.

    `watch` also covers the creation of znodes that do not exist.
    """

    paths: tuple[str, ...]
    watch: bool = False


class ReadChildren(Struct, frozen=True, array_like=True, tag="read_children"):
    """List the children of a znode, sorted. Outcome: one `ChildrenRead`."""

    path: str
    watch: bool = False


class WriteZnodes(Struct, frozen=True, array_like=True, tag="write_znodes"):
    """Independent writes, each with a separate outcome (KB 1.3.1). Outcome: `ZnodesWritten`.

    With `epoch_version`, each write happens only while /controller_epoch has that version. The
    session may send many writes in one multi, and sends them separately if one of them fails.
    """

    operations: tuple[WriteOperation, ...]
    epoch_version: int | None


class WriteAtomically(Struct, frozen=True, array_like=True, tag="write_atomically"):
    """One multi: all or nothing. Outcome: one `ZnodesWritten` with a result for each operation."""

    operations: tuple[WriteOperation, ...]


class SyncZnodes(Struct, frozen=True, array_like=True, tag="sync_znodes"):
    """Make the connected server catch up with the leader. Outcome: `ZnodesWritten` of one."""

    path: str


class WatchSubtree(Struct, frozen=True, array_like=True, tag="watch_subtree"):
    """Report each change of a znode and of all znodes below it as a `WatchFired`, until it `ends`.
    Changes of children are not reported. Outcome: `ZnodesWritten` of one, with UNIMPLEMENTED from a
    server before 3.6.

    The watch lasts as long as the connection; after another one is established, changes in between
    are not reported.
    """

    path: str
    ends: bool = False


# Brokers --------------------------------------------------------------------------------------


class OpenChannel(Struct, frozen=True, array_like=True, tag="open_channel"):
    """Open the channel to a broker: a separate queue, in order, with one request in flight."""

    broker: int
    broker_epoch: int
    endpoint: Endpoint


class CloseChannel(Struct, frozen=True, array_like=True, tag="close_channel"):
    """Close the channel to a broker; queued requests are dropped (KB 12.1.4)."""

    broker: int
    broker_epoch: int


class ProbeBroker(Struct, frozen=True, array_like=True, tag="probe_broker"):
    """Find out whether a broker answers at an address, without a channel to it. A `BrokerProbed`
    follows."""

    broker: int
    broker_epoch: int
    endpoint: Endpoint


class LeaderAndIsrPartition(Struct, frozen=True, array_like=True, gc=False):
    """One partition of a LeaderAndIsr request (KB 12.3.1). Shared between brokers."""

    topic: str
    topic_id: bytes | None
    partition: int
    leadership: LeaderAndIsr
    assignment: Assignment
    is_new: bool


class LeaderAndIsrRequest(Struct, frozen=True, array_like=True, tag="leader_and_isr"):
    """LeaderAndIsr to one broker; `partitions` sorted by topic and number."""

    broker: int
    broker_epoch: int
    version: int
    controller_id: int
    controller_epoch: int
    partitions: tuple[LeaderAndIsrPartition, ...]
    live_leaders: tuple[tuple[int, str, int], ...]


class UpdateMetadataPartition(Struct, frozen=True, array_like=True, gc=False):
    """One partition of an UpdateMetadata request (KB 12.3.2). Shared between brokers."""

    topic: str
    topic_id: bytes | None
    partition: int
    leadership: LeaderAndIsr
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]


class UpdateMetadataRequest(Struct, frozen=True, array_like=True, tag="update_metadata"):
    """UpdateMetadata to one broker.

    Only `broker` and `broker_epoch` differ within a batch: `partitions` and `live_brokers` are the
    same objects, so that the body is encoded once.
    """

    broker: int
    broker_epoch: int
    version: int
    controller_id: int
    controller_epoch: int
    partitions: tuple[UpdateMetadataPartition, ...]
    live_brokers: tuple[Broker, ...]


class StopReplicaPartition(Struct, frozen=True, array_like=True, gc=False):
    """One partition of a StopReplica request; `leader_epoch` is sent from version 3 on."""

    topic: str
    partition: int
    leader_epoch: int
    delete: bool


class StopReplicaRequest(Struct, frozen=True, array_like=True, tag="stop_replica"):
    """StopReplica to one broker. Below version 3 all its partitions have the same `delete`."""

    broker: int
    broker_epoch: int
    version: int
    controller_id: int
    controller_epoch: int
    partitions: tuple[StopReplicaPartition, ...]


BrokerRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest

# The endpoint, with its responses (api_requests) --------------------------------------------------


class ThrottleClient(Struct, frozen=True, array_like=True, tag="throttle_client"):
    """The client of a request has exceeded its quota (KIP-599): the response, which follows, has
    the time that is left until then as throttle time, and the connection is not read for as long.
    `until_ms` is a wall clock."""

    request: int
    until_ms: int


class DelayResponse(Struct, frozen=True, array_like=True, tag="answer_later"):
    """A request is carried out, and its response waits for brokers."""

    request: int


# Timers, draws, and the operator --------------------------------------------------------------


class StartTimer(Struct, frozen=True, array_like=True, tag="start_timer"):
    """Ask for a `TimerFired` after `delay_ms`. Starting a running timer restarts it."""

    timer: str
    delay_ms: int


class CancelTimer(Struct, frozen=True, array_like=True, tag="cancel_timer"):
    """Cancel a timer."""

    timer: str


class DrawTopicIds(Struct, frozen=True, array_like=True, tag="draw_topic_ids"):
    """Draw random topic ids, none of them reserved. Outcome: `TopicIdsDrawn`."""

    count: int


class DrawNumbers(Struct, frozen=True, array_like=True, tag="draw_numbers"):
    """Draw random numbers, each from 0 to below its bound. Outcome: `NumbersDrawn`."""

    bounds: tuple[int, ...]


class Notice(Struct, frozen=True, array_like=True, tag="notice"):
    """One line for the operator in the structured log.

    `level` is "info", "warning" or "error"; `code` a short name that scripts can rely on; `subject`
    the znode, broker or partition.
    """

    level: str
    code: str
    subject: str
    text: str


class Stop(Struct, frozen=True, array_like=True, tag="stop"):
    """Stop the daemon: close the ZooKeeper session and exit. `reason` is empty if the operator
    asked for it."""

    reason: str


ZooKeeperCommand = (
    ReadZnodes
    | ReadStats
    | ReadChildren
    | WriteZnodes
    | WriteAtomically
    | SyncZnodes
    | WatchSubtree
)

Command = (
    ZooKeeperCommand
    | OpenChannel
    | CloseChannel
    | ProbeBroker
    | LeaderAndIsrRequest
    | UpdateMetadataRequest
    | StopReplicaRequest
    | ApiResponse
    | ThrottleClient
    | DelayResponse
    | StartTimer
    | CancelTimer
    | DrawTopicIds
    | DrawNumbers
    | Notice
    | Stop
)

Internal = (
    ReadZnodes
    | ReadStats
    | ReadChildren
    | SyncZnodes
    | WatchSubtree
    | ProbeBroker
    | DelayResponse
    | DrawTopicIds
    | DrawNumbers
)
"""Commands by which the daemon only finds something out, or waits."""

Step = Internal | OpenChannel | CloseChannel | StartTimer | CancelTimer
"""Commands that decide nothing themselves."""


class Reason(Struct, frozen=True, array_like=True):
    """Why a command was issued: the rule, and in bulk one code an item.

    `rule` names the procedure's step ("failover: broker metadata"). `choices` has one entry for
    each operation or partition where the rule chose. The notice of a failed election has one for
    each partition, with NO_LEADER as the choice.
    """

    rule: str
    choices: tuple["Choice", ...] = ()


class Choice(Struct, frozen=True, array_like=True, gc=False):
    """One decision: the chosen leader (-1: none), the rule or its outcome as `code`, and the reason
    for each candidate that was passed over (election.py).
    """

    topic: str
    partition: int
    chosen: int
    code: str
    passed_over: tuple[tuple[int, str], ...] = ()


C = TypeVar("C")


class IssuedCommand(NamedTuple, Generic[C]):
    """A command as a fold issued it, under the controller epoch `term` (0: none)."""

    id: CommandId
    term: int
    command: C
    reason: Reason


class Issued(IssuedCommand[Command]):
    """A command of the controller."""

    __slots__ = ()


def target_of(command: Command) -> str:
    """The target of a command, for people and the store's index: a path, a broker, a timer. The
    most frequent commands come first."""
    if isinstance(command, UpdateMetadataRequest):
        return f"broker {command.broker}"
    if isinstance(command, (WriteZnodes, WriteAtomically)):
        operations = command.operations
        return operations[0].path if len(operations) == 1 else f"{len(operations)} operations"
    if isinstance(command, ApiResponse):
        return f"request {command.request}"
    match command:
        case ReadZnodes(paths=paths) | ReadStats(paths=paths):
            return paths[0] if len(paths) == 1 else f"{len(paths)} znodes"
        case ReadChildren(path=path) | SyncZnodes(path=path) | WatchSubtree(path=path):
            return path
        case StartTimer(timer=timer) | CancelTimer(timer=timer):
            return timer
        case ThrottleClient(request=request) | DelayResponse(request=request):
            return f"request {request}"
        case DrawTopicIds(count=count):
            return str(count)
        case DrawNumbers(bounds=bounds):
            return str(len(bounds))
        case Notice(subject=subject):
            return subject
        case Stop():
            return ""
        case _:
            return f"broker {command.broker}"
