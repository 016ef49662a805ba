"""What is in a world-backed log: one tagged union of immutable values.

It begins with `WorldBegun` and the restored state, which the transactions go on from in the order
of their zxids; where some are missing, `WorldResumed` says from where on all is known again. It
ends with `ImportEnded`. Records of brokers' logs stand among the transactions by the clocks:
between a broker and ZooKeeper no order is promised.
"""

from typing import Final, NamedTuple

from msgspec import Struct

from controller.core.events import ProposedState, ReassignmentTarget
from replay.stock_clusters.zookeeper_log.damage import Damage
from replay.stock_clusters.zookeeper_log.transactions import Transaction


class _Event(Struct, frozen=True, array_like=True, tag_field="kind", gc=False):
    """Stored as an array that begins with the kind."""


# The world ------------------------------------------------------------------------------------


class WorldBegun(_Event, frozen=True, tag="world_begun"):
    """Where the log comes from: a source and a server's data in it, the first one in the log.

    The restored state is that after transaction `zxid`. Paths are as ZooKeeper has them; those of
    the Kafka cluster begin with `chroot`, "" if it has none.
    """

    source: str
    server: str
    zxid: int
    chroot: str


class SessionsRestored(_Event, frozen=True, tag="sessions_restored"):
    """Sessions that are alive at the start, or began in transactions that are missing, in columns;
    time-outs in ms."""

    sessions: list[int]
    timeouts_ms: list[int]


class ZnodesRestored(_Event, frozen=True, tag="znodes_restored"):
    """A part of the znodes there are at the start, in columns, parents before their children; or
    of those that were created or changed in transactions that are missing.

    The fields are those of `replay.world.tree.Znode`, `owners` as `replay.world.owners` has them.
    """

    paths: list[str]
    data: list[bytes]
    czxids: list[int]
    mzxids: list[int]
    ctimes: list[int]
    mtimes: list[int]
    versions: list[int]
    creations: list[int]
    owners: list[int]
    pzxids: list[int]
    aversions: list[int]


class SessionsGone(_Event, frozen=True, tag="sessions_gone"):
    """Sessions that have ended in transactions that are missing."""

    sessions: list[int]


class ZnodesGone(_Event, frozen=True, tag="znodes_gone"):
    """A part of the znodes that were deleted in transactions that are missing, also of those that
    were created again, children before their parents."""

    paths: list[str]


class WorldResumed(_Event, frozen=True, tag="world_resumed"):
    """Behind missing transactions all is known again, by a snapshot that is named `snapshot` in the
    source and holds all up to `zxid`: what is otherwise than the log has it by then is told right
    before, as gone or restored."""

    snapshot: str
    zxid: int


class TransactionsMissing(_Event, frozen=True, tag="transactions_missing"):
    """The files go on from zxid `after` with `before`: what was between them is not known."""

    after: int
    before: int


class DamagedFile(Struct, frozen=True):
    """A file of the source of which `count` lines or transactions cannot be used. One that cannot
    be read further than to somewhere counts one there."""

    file: str
    count: int


class ImportEnded(_Event, frozen=True, tag="import_ended"):
    """The source has nothing more: what is damaged in it, and what else there is to tell.

    Of the transactions that no server writes where they stand `repeated` are the zxids of those
    that come again in their file, `passed_over` is how many others there are: no event has them.
    `is_cut`: of what comes behind the last transaction something was there, and cannot be read.
    `missing_before`: transactions before the first state that are not there or cannot be used, at
    least, though more before them is there. `altered`: those that are not what the server wrote.
    """

    damages: list[Damage]
    notes: list[str]
    damaged: list[DamagedFile] = []
    passed_over: int = 0
    repeated: list[int] = []
    is_cut: bool = False
    missing_before: int = 0
    altered: int = 0


# What a stock controller did ------------------------------------------------------------------


class Observed(_Event, frozen=True, tag="observed"):
    """The transaction `zxid`, which is the record's cause, is a decision of a controller.

    `what` is one of imports.decisions.KINDS, `broker` whose session wrote (-1: not known),
    `epoch` the term that it wrote in (0: not known). `error` is ZooKeeper's code where it was
    refused, else 0. `warm`: decided in a term that began before the log.
    """

    zxid: int
    what: str
    broker: int
    epoch: int
    error: int
    warm: bool


class RequestInferred(_Event, frozen=True, tag="request_inferred"):
    """The transaction `zxid`, which is the record's cause, is what somebody asked the controller
    for, in a request that no request log has: input, no decision.

    `alter_partition` and `reassignments` are what was asked for; one of them is empty.
    """

    zxid: int
    broker: int
    alter_partition: list[ProposedState]
    reassignments: list[ReassignmentTarget]


# Brokers' logs --------------------------------------------------------------------------------


STARTED: Final = "Started"


class ControllerLogged(_Event, frozen=True, tag="controller_logged"):
    """A line of controller.log, written by the thread that decides.

    `event` is the ControllerEvent that the line shows to be taken, by Kafka's name; "" where it
    shows none, or one that is under way; STARTED where the broker's process has started.
    """

    broker: int
    event: str
    text: str


class StateChangeLogged(_Event, frozen=True, tag="state_change_logged"):
    """A line that a controller wrote to state-change.log.

    `what` is one of broker_logs.state_change_log.KINDS; `brokers` are those that a request
    goes to, or the one that answered.
    """

    broker: int
    epoch: int
    what: str
    brokers: list[int]
    text: str


class RequestServed(_Event, frozen=True, tag="request_served"):
    """A request that a broker served, at the time of its response.

    `broker` served it, -1 if not known; `api` and the JSON of `request` and `response` are as
    Kafka's request logger writes them. `received_ms` is the wall clock when it came.
    """

    broker: int
    api: str
    version: int
    client: str
    correlation: int
    connection: str
    received_ms: int
    request: bytes
    response: bytes


BrokerLogged = ControllerLogged | StateChangeLogged | RequestServed


class LoggedEvent(NamedTuple):
    """What a line of a broker's log tells, with the wall clock in ms, and the record's channel."""

    time_ms: int
    channel: str
    event: BrokerLogged


WorldEvent = (
    WorldBegun
    | SessionsRestored
    | ZnodesRestored
    | SessionsGone
    | ZnodesGone
    | WorldResumed
    | TransactionsMissing
    | ImportEnded
    | Transaction
    | Observed
    | RequestInferred
    | ControllerLogged
    | StateChangeLogged
    | RequestServed
)
