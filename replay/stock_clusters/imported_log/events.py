"""The events of an imported log: a tagged union of immutable values.

A log begins with `ImportBegun` and the restored state of ZooKeeper. The transactions after it
follow in the order of their zxids. If some are missing, `ImportResumed` shows where the whole state
is known again. The log ends with `ImportEnded`. Lines of brokers' logs are merged in by time; the
order of a line and a transaction is not exact. The tags of the first two kinds, `world_begun` and
`world_resumed`, are those of older versions, so that their logs can be read.
"""

from typing import Final, NamedTuple

from msgspec import Struct

from controller.core.api_requests.alter_partition import ProposedState
from controller.core.api_requests.reassignments import ReassignmentTarget
from replay.names import controller_name
from replay.stock_clusters.zookeeper_log.damage import FileDamage
from replay.stock_clusters.zookeeper_log.transactions import Transaction


class _Event(Struct, frozen=True, array_like=True, tag_field="kind", gc=False):
    """An event, stored as an array that begins with its kind."""


# ZooKeeper ------------------------------------------------------------------------------------


class ImportBegun(_Event, frozen=True, tag="world_begun"):
    """The first event: the source of the log, and the server in the source.

    The restored state is the one after transaction `zxid`. Paths are ZooKeeper's; those of the
    Kafka cluster begin with `chroot`, which is "" if the cluster has none.
    """

    source: str
    server: str
    zxid: int
    chroot: str


class SessionsRestored(_Event, frozen=True, tag="sessions_restored"):
    """Sessions that are alive at the start, or began in missing transactions, in columns; timeouts
    in ms."""

    sessions: list[int]
    timeouts_ms: list[int]


class ZnodesRestored(_Event, frozen=True, tag="znodes_restored"):
    """Some of the znodes at the start, or of those that missing transactions created or changed, in
    columns, parents before their children.

    The fields are those of `replay.znode_tree.tree.Znode`, `owners` as `replay.znode_tree.owners`
    has them.
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
    """Sessions that ended in missing transactions."""

    sessions: list[int]


class ZnodesGone(_Event, frozen=True, tag="znodes_gone"):
    """Some of the znodes that missing transactions deleted, children before their parents. A znode
    that was then created again is included."""

    paths: list[str]


class ImportResumed(_Event, frozen=True, tag="world_resumed"):
    """The whole state is known again after missing transactions, by the source's file `snapshot`,
    which includes all transactions up to `zxid`. The events right before this one have the
    differences, as gone or restored."""

    snapshot: str
    zxid: int


class TransactionsMissing(_Event, frozen=True, tag="transactions_missing"):
    """The transactions between zxid `after` and zxid `before` are missing from the files."""

    after: int
    before: int


class DamagedFile(Struct, frozen=True):
    """A file of the source of which `count` lines or transactions cannot be used. If the rest of a
    file cannot be read, that counts as one."""

    file: str
    count: int


class TornLog(Struct, frozen=True):
    """A log of a broker, by its kind (broker_log_kind). It ends within a line, or its end cannot be
    read."""

    broker: int
    kind: str


class DamagedLines(Struct, frozen=True):
    """Lines of a broker's log, by its kind (broker_log_kind), that cannot be parsed. They were
    written between two times (wall clock, in ms), which are those of the lines around them; `to_ms`
    is None if no line follows."""

    broker: int
    kind: str
    from_ms: int
    to_ms: int | None


class ImportEnded(_Event, frozen=True, tag="import_ended"):
    """The last event: damage in the source, and notes about it.

    `repeated` has the zxids of transactions that come again in their file; `passed_over` is the
    number of other transactions that are out of order. No event has these. `is_cut`: the source had
    more after the last transaction, which cannot be read. `missing_before` is the least number of
    missing or unusable transactions before the first state. `altered` is the number of transactions
    that are not as the server wrote them. `known_ms`: the log has all transactions up to this time
    (wall clock), if that is later than the last one.
    """

    damages: list[FileDamage]
    notes: list[str]
    damaged: list[DamagedFile] = []
    passed_over: int = 0
    repeated: list[int] = []
    is_cut: bool = False
    missing_before: int = 0
    altered: int = 0
    torn: list[TornLog] = []
    damaged_lines: list[DamagedLines] = []
    known_ms: int = 0


# Actions of a stock controller ----------------------------------------------------------------


class DecisionObserved(_Event, frozen=True, tag="observed"):
    """The transaction `zxid`, which is the record's cause, is a decision of a controller.

    `what` is one of imports.decisions.KINDS. `broker` is the broker of the session (-1: unknown),
    `epoch` the controller epoch of its term (0: unknown). `error` is ZooKeeper's code if the
    transaction was refused, else 0. `warm`: the term began before the log. `is_kraft`: `broker` is
    the id of a KRaft controller.
    """

    zxid: int
    what: str
    broker: int
    epoch: int
    error: int
    warm: bool
    is_kraft: bool = False

    @property
    def who(self) -> str:
        """The controller."""
        return controller_name(self.broker, is_kraft=self.is_kraft)


class RequestInferred(_Event, frozen=True, tag="request_inferred"):
    """The transaction `zxid`, which is the record's cause, only fulfils a request that no request
    log has: it is input, not a decision.

    `alter_partition` or `reassignments` is the content of the request; the other one is empty.
    """

    zxid: int
    broker: int
    alter_partition: list[ProposedState]
    reassignments: list[ReassignmentTarget]


# Brokers' logs --------------------------------------------------------------------------------


STARTED: Final = "Started"


class ControllerLogged(_Event, frozen=True, tag="controller_logged"):
    """A line of controller.log, written by the controller event thread.

    `event` is Kafka's name of the ControllerEvent that the line begins; "" if it begins none;
    STARTED if the broker's process has started.
    """

    broker: int
    event: str
    text: str


class StateChangeLogged(_Event, frozen=True, tag="state_change_logged"):
    """A line that a controller wrote to state-change.log.

    `what` is a kind of broker_logs.state_change_log, or "other". `epoch` is 0 without one.
    `brokers` are the receivers of a request, or the broker that answered.
    """

    broker: int
    epoch: int
    what: str
    brokers: list[int]
    text: str


class RequestServed(_Event, frozen=True, tag="request_served"):
    """A request that a broker served, at the time of its response.

    `broker` is the serving broker, -1 if unknown. `api` and the JSON of `request` and `response`
    are as Kafka's request logger writes them. `received_ms` is the wall clock at arrival.
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
    """The event of a line of a broker's log, with its wall clock in ms, and the record's
    channel."""

    time_ms: int
    channel: str
    event: BrokerLogged


ImportedEvent = (
    ImportBegun
    | SessionsRestored
    | ZnodesRestored
    | SessionsGone
    | ZnodesGone
    | ImportResumed
    | TransactionsMissing
    | ImportEnded
    | Transaction
    | DecisionObserved
    | RequestInferred
    | ControllerLogged
    | StateChangeLogged
    | RequestServed
)
