"""The facts that make up the history of a subject: one class per kind.

`seq` is the event that completed the fact; for a write, the event with its outcome. `because` is
the event that began the procedure. `command` names the command of a write: "12.3" is the fourth
command that event 12 caused. It is "" if an imported log shows the write, but no shadow fold ran.
"""

from typing import Final, Literal

from msgspec import Struct

from controller.core.triggers import ControllerChange, Reelect, Startup
from controller.core.values import Assignment, LeaderAndIsr
from controller.core.znodes import REASSIGN_PARTITIONS, REASSIGN_PARTITIONS_EXTRA
from replay.cluster_view.views import NO_BROKER
from replay.names import controller_name

FAILOVERS: Final = (Startup.__name__, Reelect.__name__, ControllerChange.__name__)
"""The procedures that can begin with a failover."""

PassedOver = tuple[tuple[int, str], ...]
"""The candidates that were not chosen, each with the reason."""


class Cause(Struct, frozen=True):
    """The event that began a procedure: its number, its description, and the name of the procedure.
    `log` is the log of the event if several logs are read together."""

    seq: int
    text: str
    procedure: str
    log: str = ""


class MoveCancellation(Struct, frozen=True):
    """The request that undid a move. `by` is a znode or an API, `seq` the event of the request.

    `how`: the znode was created while the controller watched it, the controller found it, or a
    client sent an API request. `czxid` is that of /admin/reassign_cancel, -1 if unknown. `asks_for`
    are the replicas that were requested instead, None if only the end of the move was requested.
    """

    by: str
    how: Literal["created", "found", "asked"]
    seq: int
    wall_ns: int
    czxid: int = -1
    asks_for: tuple[int, ...] | None = None
    text: str = ""

    @property
    def identity(self) -> tuple[object, ...]:
        """The values that distinguish a cancellation from another one of the same move."""
        return (self.by, self.czxid, self.asks_for)


class Fact(Struct, frozen=True, kw_only=True, tag_field="fact"):
    """The fields of every fact. `epoch` is the controller epoch, 0 if there was no controller."""

    seq: int
    wall_ns: int
    epoch: int
    because: Cause | None = None


class StateWritten(Fact, frozen=True, kw_only=True, tag="state_written"):
    """A partition's leader and ISR were written by `writer`. `rule` is the rule that decided it,
    `code` its choice; both are "" if another process wrote the state."""

    partition: str
    before: LeaderAndIsr | None
    after: LeaderAndIsr
    rule: str = ""
    code: str = ""
    passed_over: PassedOver = ()
    command: str = ""
    writer: str = ""


class NoLeader(Fact, frozen=True, kw_only=True, tag="no_leader"):
    """An election found no leader."""

    partition: str
    rule: str
    isr: tuple[int, ...]
    passed_over: PassedOver


class LeftUnchanged(Fact, frozen=True, kw_only=True, tag="left_unchanged"):
    """A step could not handle a partition. `code` is that of the notice. `cancellation` is the
    request for the rollback that has to wait."""

    partition: str
    code: str
    text: str
    cancellation: MoveCancellation | None = None


class WriteRefused(Fact, frozen=True, kw_only=True, tag="write_refused"):
    """ZooKeeper refused a write about the subject."""

    path: str
    rule: str
    error: int
    command: str


class AssignmentWritten(Fact, frozen=True, kw_only=True, tag="assignment_written"):
    """A partition's replicas were written; `writer` and `rule` as for StateWritten."""

    partition: str
    before: Assignment
    after: Assignment
    rule: str = ""
    command: str = ""
    writer: str = ""


class MoveGivenUp(Fact, frozen=True, kw_only=True, tag="move_given_up"):
    """The controller begins to roll a reassignment back or to replace it; an AssignmentWritten
    follows at the end. `cancellation` is the request for a rollback; `why_now` says why a rollback
    that had to wait does not wait any longer."""

    partition: str
    before: Assignment
    after: Assignment
    cancellation: MoveCancellation | None = None
    why_now: str = ""


class RollbackStep(Fact, frozen=True, kw_only=True, tag="rollback_step"):
    """The controller takes one of the seven steps of a rollback. `is_empty`: the step had nothing
    to do, which is known only when the last step is taken. `is_numbered` is false if the controller
    cancels as Kafka does, which takes the steps in another order."""

    partition: str
    step: int
    text: str
    command: str = ""
    is_empty: bool = False
    is_numbered: bool = True


class ReplicaDeletionFact(Fact, frozen=True, kw_only=True, tag="replica_deletion"):
    """A broker is sent the deletion of its replica, confirms it, fails, or is known not to have
    confirmed it ("pending"). `is_live`: the broker is registered; `is_remembered`: an unconfirmed
    deletion is sent again when the broker registers."""

    partition: str
    broker: int
    what: Literal["asked", "confirmed", "failed", "pending"]
    error: int = 0
    is_live: bool = True
    is_remembered: bool = True


class RecordZnodeObserved(Fact, frozen=True, kw_only=True, tag="record_known"):
    """The controller wrote or removed the record of a move below /admin/reassignments, or found it
    at a failover. `route` is the znode or API by which the move was requested."""

    partition: str
    how: Literal["written", "found", "removed"]
    target: tuple[int, ...] = ()
    originals: tuple[int, ...] = ()
    route: str = ""


class CancelZnodeObserved(Fact, frozen=True, kw_only=True, tag="cancellation"):
    """/admin/reassign_cancel was created, changed or removed, or found by the controller."""

    partition: str
    how: Literal["created", "found", "changed", "removed"]
    czxid: int = -1
    is_forced: bool = False


class LogEnded(Fact, frozen=True, kw_only=True, tag="log_ended"):
    """The log ends here and was not closed, while its daemon held the role."""


class CommandsUnrecorded(Fact, frozen=True, kw_only=True, tag="commands_unrecorded"):
    """The log was not closed, and the commands of event `since` from number `ordinal` on, and all
    later ones, are not stored: its daemon may not have carried them out. `since` is a number in
    that log, also if several logs are read together."""

    since: int
    ordinal: int


class IsrRequested(Fact, frozen=True, kw_only=True, tag="isr_requested"):
    """A leader requested another ISR (AlterPartition); `error` is the code of the answer."""

    partition: str
    broker: int
    isr: tuple[int, ...]
    error: int


class ReassignmentRequested(Fact, frozen=True, kw_only=True, tag="reassignment_requested"):
    """A client requested other replicas, or (None) the end of a move. `route` is the API or the
    znode of the request, `request` the znode below it if each request has one, else "".
    `moved_from` is the znode from which the controller moved the entry to that one, "" for none."""

    partition: str
    target: tuple[int, ...] | None
    route: str
    request: str = ""
    error: int = 0
    message: str = ""
    moved_from: str = ""

    @property
    def by(self) -> str:
        """The request as precisely as it is known."""
        return self.request or self.route

    def can_lead_to(self, route: str) -> bool:
        """Whether a move by a route can be the requested one. The controller moves entries of the
        extra znode to /admin/reassign_partitions."""
        is_moved = self.route == REASSIGN_PARTITIONS_EXTRA and route == REASSIGN_PARTITIONS
        return self.route == route or is_moved


class BrokerChanged(Fact, frozen=True, kw_only=True, tag="broker_changed"):
    """The controller learned of a change of a broker."""

    broker: int
    what: Literal["registered", "gone", "bounced", "shutting down", "log directory failed"]
    text: str = ""


class AddressProbed(Fact, frozen=True, kw_only=True, tag="address_probed"):
    """The daemon has probed the address of a broker that lost its registration or its channel;
    `result` and `text` are those of the event."""

    broker: int
    result: str
    text: str = ""


class RoleChanged(Fact, frozen=True, kw_only=True, tag="role_changed"):
    """The daemon took, kept, lost or did not get the controller role. `code` is that of the notice;
    for an imported log "elected", "resigned", "failover_done" or "failover_failed". `other` is the
    broker whose /controller the new controller deleted, or which had the role when this one
    resigned; NO_BROKER if there was none or the log does not show it. `is_kraft` and
    `is_other_kraft`: the id is that of a KRaft controller."""

    code: str
    broker: int
    text: str
    command: str = ""
    other: int = NO_BROKER
    is_kraft: bool = False
    is_other_kraft: bool = False

    @property
    def who(self) -> str:
        """The process whose role changed."""
        return controller_name(self.broker, is_kraft=self.is_kraft)

    @property
    def other_name(self) -> str:
        """The process `other`."""
        return controller_name(self.other, is_kraft=self.is_other_kraft)


class TopicChanged(Fact, frozen=True, kw_only=True, tag="topic_changed"):
    """A topic was created, is being deleted, or is deleted. `code` is that of the notice; an
    imported log has the same codes."""

    code: str
    topic: str
    text: str


class DeletionSent(Fact, frozen=True, kw_only=True, tag="deletion_sent"):
    """A broker was sent a request to delete all or some of its replicas of a topic."""

    topic: str
    broker: int


class NoticeIssued(Fact, frozen=True, kw_only=True, tag="notice"):
    """Another notice to the operator about the subject."""

    level: str
    code: str
    subject: str
    text: str


class SessionChanged(NoticeIssued, frozen=True, kw_only=True):
    """The daemon's ZooKeeper session changed, or its operator requested a shutdown. `silent_ns` is
    how long nothing had been observed before, if that was unusually long."""

    what: Literal["connected", "disconnected", "expired", "shutdown requested"]
    silent_ns: int = 0


AnyFact = (
    StateWritten
    | NoLeader
    | LeftUnchanged
    | WriteRefused
    | AssignmentWritten
    | MoveGivenUp
    | RollbackStep
    | ReplicaDeletionFact
    | RecordZnodeObserved
    | CancelZnodeObserved
    | LogEnded
    | CommandsUnrecorded
    | IsrRequested
    | ReassignmentRequested
    | BrokerChanged
    | AddressProbed
    | RoleChanged
    | TopicChanged
    | DeletionSent
    | NoticeIssued
    | SessionChanged
)

# Notices that become other facts than NoticeIssued, by their codes ------------------------------

BROKER_NOTICES: Final[
    dict[str, Literal["registered", "gone", "bounced", "log directory failed"]]
] = {
    "broker_started": "registered",
    "broker_failed": "gone",
    "broker_bounced": "bounced",
    "replicas_in_failed_log_dir": "log directory failed",
}
ROLE_NOTICES: Final = (
    "elected",
    "failover_done",
    "failover_failed",
    "resigned",
    "standing_by",
    "lost_election",
    "role_not_taken",
    "epoch_changed",
    "foreign_controller",
)
TOPIC_NOTICES: Final = (
    "topic_deletion_started",
    "topic_deletion_waits",
    "topic_deleted",
    "topic_not_deleted",
    "deletion_refused",
)
