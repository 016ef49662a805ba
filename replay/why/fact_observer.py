"""Observes a fold and notes facts about a subject."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from controller.core import znodes
from controller.core.api_requests.alter_partition import (
    AlterPartitionReceived,
    AlterPartitionResponse,
)
from controller.core.api_requests.controlled_shutdown import ControlledShutdownReceived
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    AlterPartitionReassignmentsResponse,
)
from controller.core.commands import (
    BrokerRequest,
    Choice,
    CommandId,
    Issued,
    Notice,
    ReadZnodes,
    StopReplicaRequest,
    WriteAtomically,
    WriteZnodes,
)
from controller.core.controller import Controller
from controller.core.election import Elected
from controller.core.errors import ZnodeError
from controller.core.events import ZnodesRead, ZnodesWritten
from controller.core.fold_observer import FoldObserver
from controller.core.operations import (
    CONNECTION_LOSS,
    OK,
    RUNTIME_INCONSISTENCY,
    SESSION_EXPIRED,
    SetData,
    WriteOperation,
)
from controller.core.operations import Create as CreateZnode
from controller.core.procedures.reassignment.rollback import WAITS as ROLLBACK_WAITS
from controller.core.state import Partition
from controller.core.state_machines import ReplicaState
from controller.core.triggers import ApiCall, Expire, Trigger, ZkPartitionReassignment, trigger_name
from controller.core.values import NO_ASSIGNMENT, NO_LEADER, Assignment, LeaderAndIsr
from replay.names import broker_named, command_name, partition_name
from replay.parsed_znodes import parsed_state, parsed_topic
from replay.subjects import subject_of
from replay.why.facts import (
    BROKER_NOTICES,
    FAILOVERS,
    ROLE_NOTICES,
    TOPIC_NOTICES,
    AnyFact,
    AssignmentWritten,
    BrokerChanged,
    Cause,
    DeletionSent,
    IsrRequested,
    LeftUnchanged,
    MoveGivenUp,
    NoLeader,
    NoticeIssued,
    ReassignmentRequested,
    RoleChanged,
    RollbackStep,
    StateWritten,
    TopicChanged,
    WriteRefused,
)
from replay.why.move_observer import MoveObserver
from replay.why.noted_facts import API, NotedFacts
from replay.why.role_observer import RoleObserver
from replay.why.subject import Subject, has_no_cause

_BEGIN_REASSIGNMENTS: Final = (ZkPartitionReassignment.__name__, *FAILOVERS)
"""The procedures that begin the reassignments in /admin/reassign_partitions."""
NOT_DELETED: Final = "replicas_not_deleted"
"""The notice about a broker that has not confirmed the deletion of replicas."""
_ROLLED_BACK: Final = "reassignment_rolled_back"
_OF_ROLLBACK: Final = (AssignmentWritten, MoveGivenUp, RollbackStep, StateWritten)


class _Running(NamedTuple):
    """A procedure that has begun and not ended, and its cause."""

    trigger: Trigger
    because: Cause


class FactObserver(NotedFacts, FoldObserver):
    """Notes the facts of one fold.

    The code that drives the fold calls `at` for each event, and sets `begun_by`, which returns the
    cause of a controller event.
    """

    def __init__(self, controller: Controller, subject: Subject) -> None:
        super().__init__(controller, subject)
        self.last_issued: Issued | None = None
        self.begun_by: Callable[[Trigger], Cause] = self._just_now
        self.moves: MoveObserver | None = None
        if subject.topic is not None and subject.partition is not None:
            self.moves = MoveObserver(self, subject.topic, subject.partition)
        self.rewriting: dict[Partition, tuple[Assignment, Assignment]] = {}
        """Partitions whose assignment is being changed in memory: the assignment in ZooKeeper, and
        the new one."""
        self.notes_accepted_isr = not subject.is_everything
        """Of everything, only the refusals: the states that are written show the others."""
        self._role = RoleObserver()
        self._pending: dict[CommandId, Issued] = {}
        self._lost: list[Issued] = []
        """Writes that got no reply."""
        self._running: list[_Running] = []
        """The current procedures: each was interrupted by the next one."""

    def _just_now(self, trigger: Trigger) -> Cause:
        return Cause(self.seq, "", trigger_name(trigger))

    def topic_name(self, id: str) -> str:
        """The name of a topic, by its id in hex; the id if unknown."""
        found = self.controller.context.topics_by_id.get(bytes.fromhex(id))
        return found.name if found is not None else id

    # Steps of the fold

    def begins(self, trigger: Trigger) -> None:
        because = self.begun_by(trigger)
        if isinstance(trigger, Expire):
            # The end of the session has ended all procedures.
            self._running.clear()
        if not self._running:
            self._nothing_runs()
        self._running.append(_Running(trigger, because))
        self.trigger, self.because = trigger, because
        if isinstance(trigger, ApiCall) and isinstance(trigger.request, ControlledShutdownReceived):
            broker = trigger.request.broker
            self.add(BrokerChanged, broker=broker, what="shutting down", text="it wants to stop")

    def ends(self) -> None:
        if self._running:
            self._running.pop()
        self.trigger = self.because = None
        if self._running:
            self.trigger, self.because = self._running[-1]
        else:
            self._nothing_runs()

    def _nothing_runs(self) -> None:
        self._pending.clear()
        self._lost.clear()
        self.rewriting.clear()
        if self.moves is not None:
            self.moves.procedure_ends()

    def reassigns(self, partition: Partition, target: Assignment) -> None:
        is_in_question = self.subject.is_about(*partition.key)
        if is_in_question:
            self.note_external_changes(*partition.key)
        before = partition.assignment
        self.rewriting[partition] = (before, target)
        if not is_in_question:
            return
        if before.is_being_reassigned and set(before.target) != set(target.target):
            if self.moves is not None:
                self.moves.gives_up(partition, before, target)
            else:
                self.add(MoveGivenUp, partition=repr(partition), before=before, after=target)
        elif self.moves is not None and self.moves.is_rollback(before, target):
            self.moves.gives_up(partition, before, target)

    @property
    def has_lost_writes(self) -> bool:
        """Whether the current procedure has written something and got no reply."""
        return bool(self._lost)

    def stored(self, partition: Partition) -> None:
        """Also called if the reply to the write was lost and the controller has read the result."""
        self.rewriting.pop(partition, None)
        if not self.subject.is_about(*partition.key):
            return
        path = znodes.topic_path(partition.topic.name)
        for asked in self._lost:
            assert isinstance(asked.command, (WriteZnodes, WriteAtomically)), "a write was lost"
            for _, operation in self._covered_operations(asked.command.operations):
                if operation.path == path:
                    self._add_assignments(asked, operation)

    def sends(self, requests: Sequence[BrokerRequest], rule: str) -> None:
        if self.moves is not None:
            self.moves.sends(requests)

    def moves_replicas(
        self, broker: int, partitions: Sequence[Partition], target: ReplicaState, rule: str
    ) -> None:
        if self.moves is not None:
            self.moves.moves_replicas(broker, partitions, target)

    def elects(
        self, partition: Partition, rule: str, current: LeaderAndIsr, elected: Elected
    ) -> None:
        if elected.leader == NO_LEADER and self.subject.covers(*partition.key):
            broker = self.subject.broker
            if broker is not None and not self.subject.topic and broker not in partition.replicas:
                return
            self.add(
                NoLeader,
                partition=repr(partition),
                rule=rule,
                isr=current.isr,
                passed_over=elected.passed_over,
            )

    def fails(
        self, partition: Partition, code: str, text: str, election: Choice | None = None
    ) -> None:
        if code == "no_leader_elected" and election is not None:
            # `elects` has noted it.
            return
        if self.subject.is_about(*partition.key):
            self._add_left_unchanged(repr(partition), code, text)

    def _add_left_unchanged(self, partition: str, code: str, text: str) -> None:
        cancellation = None
        if code == ROLLBACK_WAITS and self.moves is not None:
            cancellation = self.moves.why_rolled_back()
        self.add(
            LeftUnchanged, partition=partition, code=code, text=text, cancellation=cancellation
        )

    def issues(self, issued: Issued) -> None:
        self.last_issued = issued
        self._role.issues(issued)
        if self.moves is not None:
            self.moves.issues(issued)
        match issued.command:
            case Notice() as notice:
                self._notice(notice)
            case WriteZnodes(operations=operations) | WriteAtomically(operations=operations):
                if any(True for _ in self._covered_operations(operations)):
                    self._pending[issued.id] = issued
            case StopReplicaRequest(broker=broker, partitions=partitions):
                for topic in self.topics_deleted(one.topic for one in partitions if one.delete):
                    self.add(DeletionSent, topic=topic, broker=broker)
            case ReadZnodes(paths=(znodes.REASSIGN_PARTITIONS,)):
                self._pending[issued.id] = issued
            case AlterPartitionResponse() as answer:
                self._add_isr_requests(answer)
            case AlterPartitionReassignmentsResponse() as answer:
                self._add_reassignment_requests(answer)
            case _:
                pass

    def topics_deleted(self, topics: Iterable[str]) -> list[str]:
        """The topics in question among those whose replicas are deleted, if they are being deleted
        as a whole."""
        subject, queued = self.subject, self.controller.context.queued_for_deletion
        if subject.topic is None or subject.partition is not None or subject.topic not in queued:
            return []
        return [subject.topic] if subject.topic in topics else []

    # Outcomes

    def on_outcome(self, outcome: ZnodesRead | ZnodesWritten) -> None:
        """The outcome of a command is about to be folded."""
        if isinstance(outcome, ZnodesRead):
            self._role.on_read(outcome)
        if self.moves is not None:
            self.moves.on_outcome(outcome)
        asked = self._pending.get(outcome.command)
        if asked is None:
            return
        if isinstance(outcome, ZnodesRead):
            self._add_znode_requests(outcome)
            return
        command = asked.command
        assert isinstance(command, (WriteZnodes, WriteAtomically)), "only writes are written"
        end = outcome.offset + len(outcome.errors)
        for place, operation in self._covered_operations(command.operations):
            if outcome.offset <= place < end:
                error = outcome.errors[place - outcome.offset]
                version = outcome.versions[place - outcome.offset]
                self._add_write(asked, operation, error, version)

    def _covered_operations(
        self, operations: Sequence[WriteOperation]
    ) -> Iterator[tuple[int, SetData | CreateZnode]]:
        for place, one in enumerate(operations):
            if isinstance(one, (SetData, CreateZnode)) and self.covers_path(one.path):
                yield place, one

    def covers_path(self, path: str) -> bool:
        """Whether a znode is about the subject: a partition's state, or a topic's assignment."""
        if not path.startswith(znodes.TOPICS):
            return False
        kind, _, topic, partition = subject_of(path)
        if topic is not None and partition is not None:
            return kind == "state" and self.subject.covers(topic, partition)
        return kind == "topic" and self.subject.covers_topic(topic)

    def _add_write(
        self, issued: Issued, operation: SetData | CreateZnode, error: int, version: int
    ) -> None:
        rule = issued.reason.rule
        if error in (CONNECTION_LOSS, SESSION_EXPIRED, RUNTIME_INCONSISTENCY):
            self._lost.append(issued)
            return
        if error != OK:
            self.add(
                WriteRefused,
                path=operation.path,
                rule=rule,
                error=error,
                command=command_name(issued.id),
            )
            return
        key = znodes.partition_of_state(operation.path)
        if key is None:
            self._add_assignments(issued, operation)
            return
        after = parsed_state(operation.path, operation.data, version)
        if after is None:
            return
        partition = self.controller.context.find(*key)
        before = partition.leadership if partition is not None else None
        self.known.states[key] = after
        if self.subject.covers_state(before, after):
            choice = choice_of(issued, *key)
            self.add(
                StateWritten,
                partition=partition_name(*key),
                before=before,
                after=after,
                rule=rule,
                code=choice.code if choice else "",
                passed_over=choice.passed_over if choice else (),
                command=command_name(issued.id),
                writer=f"broker {self.controller.configuration.broker_id}",
            )

    def _add_assignments(self, issued: Issued, operation: SetData | CreateZnode) -> None:
        topic = subject_of(operation.path).topic
        assert topic is not None, "only topics' znodes have assignments"
        content = parsed_topic(topic, operation.data)
        if content is None:
            return
        for choice in issued.reason.choices:
            after = content.assignments.get(choice.partition)
            if after is not None and self.subject.covers(topic, choice.partition):
                key = (topic, choice.partition)
                before = self.known.assignments.get(key, NO_ASSIGNMENT)
                if before == after:
                    continue
                self.known.assignments[key] = after
                self.add(
                    AssignmentWritten,
                    partition=partition_name(topic, choice.partition),
                    before=before,
                    after=after,
                    rule=issued.reason.rule,
                    command=command_name(issued.id),
                    writer=f"broker {self.controller.configuration.broker_id}",
                )

    def _add_znode_requests(self, outcome: ZnodesRead) -> None:
        """Note the requests in /admin/reassign_partitions. Procedures that only remove entries also
        read the znode."""
        begins = self.because is not None and self.because.procedure in _BEGIN_REASSIGNMENTS
        if outcome.errors[0] != OK or not begins:
            return
        try:
            entries = znodes.read_reassignments(outcome.data[0])
        except ZnodeError:
            return
        for (topic, number), target in entries.items():
            if self.subject.is_about(topic, number):
                self.note_znode_request(
                    partition_name(topic, number), target, znodes.REASSIGN_PARTITIONS
                )

    # Answers and notices

    def _add_isr_requests(self, response: AlterPartitionResponse) -> None:
        request = self.trigger.request if isinstance(self.trigger, ApiCall) else None
        if not isinstance(request, AlterPartitionReceived):
            return
        errors = {
            (one.topic, one.topic_id, one.partition): one.error for one in response.partitions
        }
        for one in request.partitions:
            topic_id = bytes.fromhex(one.topic) if request.version > 1 else None
            name = self.topic_name(one.topic) if topic_id is not None else one.topic
            key = ("" if topic_id is not None else one.topic, topic_id, one.partition)
            error = response.error or errors.get(key, 0)
            if (error or self.notes_accepted_isr) and self.subject.is_about(name, one.partition):
                self.add(
                    IsrRequested,
                    partition=partition_name(name, one.partition),
                    broker=request.broker,
                    isr=one.isr,
                    error=error,
                )

    def _add_reassignment_requests(self, response: AlterPartitionReassignmentsResponse) -> None:
        request = self.trigger.request if isinstance(self.trigger, ApiCall) else None
        if not isinstance(request, AlterPartitionReassignmentsReceived):
            return
        answered = {(one.topic, one.partition): one for one in response.partitions}
        for one in request.partitions:
            if self.subject.is_about(one.topic, one.partition):
                found = answered.get((one.topic, one.partition))
                self.add(
                    ReassignmentRequested,
                    partition=partition_name(one.topic, one.partition),
                    target=one.replicas,
                    route=API,
                    error=response.error or (found.error if found else 0),
                    message=found.message if found else "",
                )

    def _notice(self, notice: Notice) -> None:
        broker = self.controller.configuration.broker_id
        if notice.code in BROKER_NOTICES:
            what = BROKER_NOTICES[notice.code]
            text = notice.text if what == "log directory failed" else ""
            self.add(BrokerChanged, broker=broker_named(notice.subject), what=what, text=text)
        elif notice.code in ROLE_NOTICES:
            more = self._role.fields(notice.code, broker)
            self.add(RoleChanged, code=notice.code, broker=broker, text=notice.text, **more)
        elif notice.code in TOPIC_NOTICES:
            topic = subject_of(notice.subject).topic or notice.subject
            self.add(TopicChanged, code=notice.code, topic=topic, text=notice.text)
        elif notice.code == NOT_DELETED and self.moves is not None:
            self.moves.on_unconfirmed(broker_named(notice.subject))
        elif self.subject.covers_notice(notice):
            self.add(
                NoticeIssued,
                level=notice.level,
                code=notice.code,
                subject=notice.subject,
                text=notice.text,
                because=None if has_no_cause(notice) else self._cause_of_notice(notice),
            )

    def _cause_of_notice(self, notice: Notice) -> Cause | None:
        moves = self.moves if notice.code == _ROLLED_BACK else None
        return (moves.cause if moves is not None else None) or self.because

    def add(self, kind: type[AnyFact], **fields: object) -> None:
        """Note a fact about the current event. The cause of a step of a rollback is the
        cancellation, unless `because` is passed."""
        if kind in _OF_ROLLBACK and self.moves is not None and self.moves.cause is not None:
            fields.setdefault("because", self.moves.cause)
        super().add(kind, **fields)


def choice_of(issued: Issued, topic: str, number: int) -> Choice | None:
    """The choice for a partition in a command's reason."""
    found = (one for one in issued.reason.choices if (one.topic, one.partition) == (topic, number))
    return next(found, None)
