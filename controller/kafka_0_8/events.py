"""The observations of a broker: the core's events of the ZooKeeper session, and those of records.

The log of events has no records of producers: an event names them by their number, and the broker
keeps the bytes until they are appended to the partition's log.
"""

from msgspec import Struct

from controller.core.commands import CommandId
from controller.core.events import (
    ChildrenRead,
    RecordedEvent,
    SessionConnected,
    SessionDisconnected,
    SessionExpired,
    TimerFired,
    WatchFired,
    ZnodesRead,
    ZnodesWritten,
)
from controller.core.values import ANY_VERSION

CONSUMER: int = -1
"""The replica id in the fetch request of a consumer."""


class ProduceReceived(Struct, frozen=True, array_like=True, tag="produce_received"):
    """A producer sent `count` records to a partition. `acks`: 0, 1 or -1."""

    request: int
    topic: str
    partition: int
    count: int
    acks: int


class FetchReceived(Struct, frozen=True, array_like=True, tag="fetch_received"):
    """A replica, or a consumer (CONSUMER), asks for the records from `offset` on. `epoch` is the
    leader epoch that a replica follows, `replicas_version` that of the replicas znode as it has
    read it last, `run` the run of its broker, as `Broker.run` has it (ANY_VERSION: a log from
    before the field)."""

    request: int
    replica: int
    topic: str
    partition: int
    offset: int
    epoch: int
    replicas_version: int = ANY_VERSION
    run: int = ANY_VERSION


class FetchResponded(Struct, frozen=True, array_like=True, tag="fetch_responded"):
    """The leader's response to a `SendFetch`: a Kafka error code, the number of records, and the
    leader's high watermark and log end offset. If no response came, the error is
    `REQUEST_TIMED_OUT`."""

    command: CommandId
    error: int
    count: int
    hw: int
    leo: int


class RecordsAppended(Struct, frozen=True, array_like=True, tag="records_appended"):
    """Outcome of `AppendRecords`: the log end offset afterwards."""

    command: CommandId
    leo: int


class LogOpened(Struct, frozen=True, array_like=True, tag="log_opened"):
    """Outcome of `OpenLog`: the log end offset after the recovery of the log, and the checkpointed
    high watermark (0: none)."""

    command: CommandId
    leo: int
    hw: int


class LogTruncated(Struct, frozen=True, array_like=True, tag="log_truncated"):
    """Outcome of `TruncateLog`: the log end offset afterwards."""

    command: CommandId
    leo: int


class LogDeleted(Struct, frozen=True, array_like=True, tag="log_deleted"):
    """Outcome of `DeleteLog`: the partition has no log on this broker."""

    command: CommandId


LogOutcome = LogOpened | LogTruncated | LogDeleted
"""Outcomes that a procedure awaits."""

RecordEvent = ProduceReceived | FetchReceived | FetchResponded | RecordsAppended | LogOutcome
"""Events about records, which only this design has."""

BrokerEvent = (
    SessionConnected
    | SessionDisconnected
    | SessionExpired
    | WatchFired
    | ZnodesRead
    | ChildrenRead
    | ZnodesWritten
    | TimerFired
    | RecordEvent
)


class RecordedBrokerEvent(RecordedEvent[BrokerEvent], frozen=True, array_like=True):
    """An event of a broker's log."""
