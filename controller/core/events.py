"""The observations of the daemon: one tagged union of immutable values, the only input of the fold.

An outcome names the command that it answers (`command`); other events are exogenous. Bulk outcomes
have columns with one entry for each item, so that 100,000 znodes do not need 100,000 objects.
"""

from typing import Final, Generic, TypeVar

from msgspec import Struct

from controller.core.api_requests import ApiRequest
from controller.core.commands import CommandId

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


class BrokerResponded(Struct, frozen=True, array_like=True, tag="broker_answered"):
    """A broker responded to a request. `partition_errors` has the partitions whose error code is
    not zero: topic name (topic id in hex if the version names topics by id), partition, code.
    """

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


ANSWERS: Final = "answers"
REFUSES: Final = "refuses"
SILENT: Final = "silent"


class BrokerProbed(Struct, frozen=True, array_like=True, tag="broker_probed"):
    """The result of a `ProbeBroker`: the broker `ANSWERS` ApiVersions; its machine `REFUSES` the
    connection, so that no process listens there; or there is no response in time (`SILENT`)."""

    broker: int
    broker_epoch: int
    result: str
    text: str


# Timers, draws, and the operator --------------------------------------------------------------


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
    | BrokerResponded
    | ChannelFault
    | VersionsOffered
    | BrokerProbed
    | ApiRequest
    | TimerFired
    | TopicIdsDrawn
    | NumbersDrawn
    | ShutdownRequested
)

Outcome = ZnodesRead | ChildrenRead | ZnodesWritten | TopicIdsDrawn | NumbersDrawn


E = TypeVar("E")


class RecordedEvent(Struct, Generic[E], frozen=True, array_like=True):
    """An event as it is stored in the log. Times are in nanoseconds.

    `term` is the controller epoch of the daemon when the event was appended, 0: none. `channel`
    names the connection that the event came on: order is promised only within a channel.
    """

    seq: int
    wall_ns: int
    mono_ns: int
    term: int
    channel: str
    event: E


class Recorded(RecordedEvent[Event], frozen=True, array_like=True):
    """An event of the controller's log."""
