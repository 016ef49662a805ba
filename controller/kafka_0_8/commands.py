"""The decisions of a broker: the core's commands for ZooKeeper, timers and notices, and those of
records. Commands for one partition's log are carried out in order."""

from msgspec import Struct

from controller.core.commands import (
    CancelTimer,
    IssuedCommand,
    Notice,
    ReadChildren,
    ReadStats,
    ReadZnodes,
    StartTimer,
    SyncZnodes,
    WatchSubtree,
    WriteAtomically,
    WriteZnodes,
)
from controller.core.commands import target_of as core_target_of
from controller.core.values import ANY_VERSION


class OpenLog(Struct, frozen=True, array_like=True, tag="open_log"):
    """Open the local log of a partition and recover it; create it if there is none. A log with
    another `czxid` is one of a deleted partition with the same name: it is deleted first. Outcome:
    `LogOpened`."""

    topic: str
    partition: int
    czxid: int = 0


class TruncateLog(Struct, frozen=True, array_like=True, tag="truncate_log"):
    """Remove the records from `offset` on. Outcome: `LogTruncated`."""

    topic: str
    partition: int
    offset: int


class DeleteLog(Struct, frozen=True, array_like=True, tag="delete_log"):
    """Delete the local log of a partition, if there is one. Outcome: `LogDeleted`."""

    topic: str
    partition: int


class AppendRecords(Struct, frozen=True, array_like=True, tag="append_records"):
    """Append the `count` records that came with event `source`. Outcome: `RecordsAppended`."""

    topic: str
    partition: int
    source: int
    count: int


class SendFetch(Struct, frozen=True, array_like=True, tag="send_fetch"):
    """Fetch a partition from the broker `leader` at `address` (host:port). `replicas_version` is
    that of the replicas znode as this broker has read it last. Outcome: `FetchResponded`."""

    topic: str
    partition: int
    leader: int
    address: str
    offset: int
    epoch: int
    replicas_version: int = ANY_VERSION


class SendFetchOfRun(SendFetch, frozen=True, array_like=True, tag="send_fetch_of_run"):
    """A `SendFetch` that names the run of this broker, as `Broker.run` has it."""

    run: int = ANY_VERSION


class RespondProduce(Struct, frozen=True, array_like=True, tag="respond_produce"):
    """Respond to a produce request: a Kafka error code, and the offset after its last record.
    `leader` is the current leader if this broker is not (NO_LEADER: unknown)."""

    request: int
    error: int
    offset: int
    leader: int


class RespondFetch(Struct, frozen=True, array_like=True, tag="respond_fetch"):
    """Respond to a fetch request with the records from `start` to before `end`, and with the
    leader's high watermark and log end offset."""

    request: int
    error: int
    topic: str
    partition: int
    start: int
    end: int
    hw: int
    leo: int


class WriteCheckpoint(Struct, frozen=True, array_like=True, tag="write_checkpoint"):
    """Store these high watermarks: topic, partition, offset. Those of other replicas stay. No
    outcome."""

    hws: tuple[tuple[str, int, int], ...]


RecordCommand = (
    OpenLog
    | TruncateLog
    | DeleteLog
    | AppendRecords
    | SendFetch
    | SendFetchOfRun
    | RespondProduce
    | RespondFetch
    | WriteCheckpoint
)
BrokerCommand = (
    ReadZnodes
    | ReadStats
    | ReadChildren
    | WriteZnodes
    | WriteAtomically
    | SyncZnodes
    | WatchSubtree
    | StartTimer
    | CancelTimer
    | Notice
    | RecordCommand
)

BrokerStep = (
    ReadZnodes
    | ReadStats
    | ReadChildren
    | SyncZnodes
    | StartTimer
    | CancelTimer
    | SendFetch
    | SendFetchOfRun
)
"""Commands that decide nothing themselves."""


class IssuedByBroker(IssuedCommand[BrokerCommand]):
    """A command of a broker; its term is always 0."""

    __slots__ = ()


def run_of(command: SendFetch) -> int:
    """The run that a fetch names; ANY_VERSION: none."""
    return command.run if isinstance(command, SendFetchOfRun) else ANY_VERSION


def target_of(command: BrokerCommand) -> str:
    """The target of a command, for people and the store's index: a path, a partition, a request."""
    match command:
        case RespondProduce(request=request) | RespondFetch(request=request):
            return f"request {request}"
        case WriteCheckpoint(hws=hws):
            return f"{len(hws)} replicas"
        case OpenLog() | TruncateLog() | DeleteLog() | AppendRecords() | SendFetch():
            return f"{command.topic}-{command.partition}"
        case _:
            return core_target_of(command)
