"""What can have happened, as the history of a subject: one kind of fact each.

`seq` is the event that completed it, for a write the one with its outcome; `because` the event
that began the work it was a part of. A write's `command` is its name, "12.3": the fourth command
that event 12 caused; "" where an imported log shows the write but no fold was beside it.
"""

from typing import Literal

from msgspec import Struct

from controller.core.values import Assignment, LeaderAndIsr

PassedOver = tuple[tuple[int, str], ...]
"""Candidates, each with why it was not taken."""


class Because(Struct, frozen=True):
    """The event that began a procedure: its number, what it was, and the procedure. `log` names the
    log of the event where several are read together."""

    seq: int
    text: str
    procedure: str
    log: str = ""


class Cancellation(Struct, frozen=True):
    """What undid a move. `by` is a znode or an API, `seq` the event that brought it.

    `how`: the znode was created while the controller watched it, the controller found it, or a
    client asked. `czxid` is that of /admin/reassign_cancel, -1 where it is not known. `asks_for` is
    what was asked for instead of the move, None where that is only its end.
    """

    by: str
    how: Literal["created", "found", "asked"]
    seq: int
    wall_ns: int
    czxid: int = -1
    asks_for: tuple[int, ...] | None = None
    text: str = ""


class Fact(Struct, frozen=True, kw_only=True, tag_field="fact"):
    """What all facts have. `epoch` is the controller epoch, 0 where nobody was controller."""

    seq: int
    wall_ns: int
    epoch: int
    because: Because | None = None


class StateWritten(Fact, frozen=True, kw_only=True, tag="state_written"):
    """A partition's leader and ISR were written. `rule` decided so, `code` says what it chose;
    both are "" for what somebody else wrote. `writer` is who wrote."""

    partition: str
    before: LeaderAndIsr | None
    after: LeaderAndIsr
    rule: str = ""
    code: str = ""
    passed_over: PassedOver = ()
    command: str = ""
    writer: str = ""


class NoLeader(Fact, frozen=True, kw_only=True, tag="no_leader"):
    """An election found nobody."""

    partition: str
    rule: str
    isr: tuple[int, ...]
    passed_over: PassedOver


class LeftAsItIs(Fact, frozen=True, kw_only=True, tag="left_as_it_is"):
    """A step could not handle a partition. `code` is the notice's. `cancellation` is what asked for
    the rollback that has to wait."""

    partition: str
    code: str
    text: str
    cancellation: Cancellation | None = None


class WriteRefused(Fact, frozen=True, kw_only=True, tag="write_refused"):
    """ZooKeeper refused a write about the subject."""

    path: str
    rule: str
    error: int
    command: str


class AssignmentWritten(Fact, frozen=True, kw_only=True, tag="assignment_written"):
    """A partition's replicas were written; `writer` and `rule` as for a state."""

    partition: str
    before: Assignment
    after: Assignment
    rule: str = ""
    command: str = ""
    writer: str = ""


class MoveGivenUp(Fact, frozen=True, kw_only=True, tag="move_given_up"):
    """The controller begins to roll a reassignment back, or to put another in its place; when it is
    done an AssignmentWritten follows. `cancellation` is what asked for a rollback, `begun_by` began
    the procedure that takes it up now."""

    partition: str
    before: Assignment
    after: Assignment
    cancellation: Cancellation | None = None
    begun_by: Because | None = None


class RollbackStep(Fact, frozen=True, kw_only=True, tag="rollback_step"):
    """The controller takes one of the seven steps of a rollback. `is_empty`: it had nothing to do,
    which is known when the last step is taken."""

    partition: str
    step: int
    text: str
    command: str = ""
    is_empty: bool = False


class ReplicaDeletion(Fact, frozen=True, kw_only=True, tag="replica_deletion"):
    """A broker is sent the deletion of its replica, confirms it, or fails."""

    partition: str
    broker: int
    what: Literal["asked", "confirmed", "failed"]
    error: int = 0


class RecordKnown(Fact, frozen=True, kw_only=True, tag="record_known"):
    """The controller wrote or removed the record of a move below /admin/reassignments, or found it
    at a failover. `route` is the znode or API by which the move was asked for."""

    partition: str
    how: Literal["written", "found", "removed"]
    target: tuple[int, ...] = ()
    originals: tuple[int, ...] = ()
    route: str = ""


class CancelKnown(Fact, frozen=True, kw_only=True, tag="cancellation"):
    """/admin/reassign_cancel was created, changed or removed, or the controller found it."""

    partition: str
    how: Literal["created", "found", "changed", "removed"]
    czxid: int = -1
    is_forced: bool = False


class LogEnded(Fact, frozen=True, kw_only=True, tag="log_ended"):
    """The log ends here, without having been closed, while its daemon held the role."""


class IsrAsked(Fact, frozen=True, kw_only=True, tag="isr_asked"):
    """A leader asked for another ISR (AlterPartition), and what it was answered."""

    partition: str
    broker: int
    isr: tuple[int, ...]
    error: int


class ReassignmentAsked(Fact, frozen=True, kw_only=True, tag="reassignment_asked"):
    """Somebody asked for other replicas (None: to cancel), `via` an API or a znode."""

    partition: str
    target: tuple[int, ...] | None
    via: str
    error: int = 0
    message: str = ""


class BrokerChanged(Fact, frozen=True, kw_only=True, tag="broker_changed"):
    """The controller learned of a broker."""

    broker: int
    what: Literal["registered", "gone", "bounced", "shutting down", "log directory failed"]
    text: str = ""


class RoleChanged(Fact, frozen=True, kw_only=True, tag="role_changed"):
    """The role was taken, kept, lost or not got. `code` is the notice's; of an imported log
    "elected" or "resigned"."""

    code: str
    broker: int
    text: str


class TopicChanged(Fact, frozen=True, kw_only=True, tag="topic_changed"):
    """A step of a topic's life. `code` is the notice's; of an imported log the same names."""

    code: str
    topic: str
    text: str


class BrokerToldToDelete(Fact, frozen=True, kw_only=True, tag="broker_told_to_delete"):
    """A broker was sent the request to delete its replicas of a topic, or some of them."""

    topic: str
    broker: int


class Told(Fact, frozen=True, kw_only=True, tag="told"):
    """Something else that the operator was told about the subject."""

    level: str
    code: str
    subject: str
    text: str


AnyFact = (
    StateWritten
    | NoLeader
    | LeftAsItIs
    | WriteRefused
    | AssignmentWritten
    | MoveGivenUp
    | RollbackStep
    | ReplicaDeletion
    | RecordKnown
    | CancelKnown
    | LogEnded
    | IsrAsked
    | ReassignmentAsked
    | BrokerChanged
    | RoleChanged
    | TopicChanged
    | BrokerToldToDelete
    | Told
)
