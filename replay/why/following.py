"""Notes what a fold decides about a subject, while it works."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from controller.core import znodes
from controller.core.api_requests.alter_partition import (
    AlterPartitionReceived,
    AnswerAlterPartition,
)
from controller.core.api_requests.controlled_shutdown import ControlledShutdownReceived
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    AnswerAlterPartitionReassignments,
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
from controller.core.state import Partition
from controller.core.triggers import ApiCall, Expire, Trigger
from controller.core.values import NO_ASSIGNMENT, NO_LEADER, Assignment, LeaderAndIsr
from replay.cluster_view.of_context import name_of
from replay.subjects import partition_named, subject_of
from replay.why.facts import (
    AnyFact,
    AssignmentWritten,
    Because,
    BrokerChanged,
    BrokerToldToDelete,
    IsrAsked,
    LeftAsItIs,
    MoveGivenUp,
    NoLeader,
    ReassignmentAsked,
    RoleChanged,
    RollbackStep,
    StateWritten,
    Told,
    TopicChanged,
    WriteRefused,
)
from replay.why.moves import API, Known, MoveNotes
from replay.why.notices import BROKERS, ROLE, TOPICS, is_about, is_by_itself
from replay.why.subject import Subject

_TAKE_UP: Final = ("ZkPartitionReassignment", "Startup", "Reelect", "ControllerChange")
_OF_ROLLBACK: Final = (AssignmentWritten, MoveGivenUp, RollbackStep, StateWritten)
_WAITS: Final = "rollback_waits"


class _Running(NamedTuple):
    """A procedure that has begun and not ended, and what it is because of."""

    trigger: Trigger
    because: Because


class Following(FoldObserver):
    """The facts of one fold. `at` tells it where the log is, `because` what began the procedure
    that runs: whoever drives the fold sets both."""

    def __init__(self, controller: Controller, subject: Subject) -> None:
        self.controller = controller
        self.subject = subject
        self.facts: list[AnyFact] = []
        self.seq = self.wall_ns = 0
        self.trigger: Trigger | None = None
        self.because: Because | None = None
        self.last_issued: Issued | None = None
        self.begun_by: Callable[[Trigger], Because] = self._just_now
        self.known = Known({}, {})
        self.moves: MoveNotes | None = None
        if subject.topic is not None and subject.partition is not None:
            self.moves = MoveNotes(self, subject.topic, subject.partition)
        self.rewriting: dict[Partition, tuple[Assignment, Assignment]] = {}
        """Whose assignment is being changed in memory: the one in ZooKeeper, the one wanted."""
        self._asked: dict[CommandId, Issued] = {}
        self._lost: list[Issued] = []
        """Writes to which no reply came."""
        self._running: list[_Running] = []
        """The procedures that run: the last one is interrupted by none."""

    def at(self, seq: int, wall_ns: int) -> None:
        """The log has come to an event."""
        self.seq, self.wall_ns = seq, wall_ns

    def _just_now(self, trigger: Trigger) -> Because:
        return Because(self.seq, "", name_of(trigger))

    def topic_name(self, id: str) -> str:
        """The topic whose id a request gives in hex; the id itself if it is not known."""
        found = self.controller.context.topics_by_id.get(bytes.fromhex(id))
        return found.name if found is not None else id

    # What the fold does

    def begins(self, trigger: Trigger) -> None:
        because = self.begun_by(trigger)
        if isinstance(trigger, Expire):
            # The end of the session has broken off what ran.
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
        self._asked.clear()
        self._lost.clear()
        self.rewriting.clear()
        if self.moves is not None:
            self.moves.procedure_ends()

    def look(self, topic: str, number: int) -> None:
        """Note what others have done to a partition, as the controller has just read it."""

    def reassigns(self, partition: Partition, target: Assignment) -> None:
        is_asked = self.subject.topic is not None and self.subject.wants(*partition.key)
        if is_asked:
            self.look(*partition.key)
        before = partition.assignment
        self.rewriting[partition] = (before, target)
        if is_asked and before.is_being_reassigned and set(before.target) != set(target.target):
            if self.moves is not None:
                self.moves.gives_up(partition, before, target)
            else:
                self.add(MoveGivenUp, partition=repr(partition), before=before, after=target)
        elif is_asked and self.moves is not None and self.moves.is_rollback(before, target):
            self.moves.gives_up(partition, before, target)

    def stored(self, partition: Partition) -> None:
        """Also where the reply to the write was lost, and the controller has read what it did."""
        self.rewriting.pop(partition, None)
        if self.subject.topic is None or not self.subject.wants(*partition.key):
            return
        path = znodes.topic_path(partition.topic.name)
        for asked in self._lost:
            assert isinstance(asked.command, (WriteZnodes, WriteAtomically)), "a write was lost"
            for _, operation in self._wanted(asked.command.operations):
                if operation.path == path:
                    self._assigned(asked, operation, f"{asked.id.cause}.{asked.id.ordinal}")

    def sends(self, requests: Sequence[BrokerRequest], rule: str) -> None:
        if self.moves is not None:
            self.moves.sends(requests)

    def elects(
        self, partition: Partition, rule: str, current: LeaderAndIsr, elected: Elected
    ) -> None:
        if elected.leader == NO_LEADER and self.subject.wants(*partition.key):
            if self.subject.topic is None and self.subject.broker not in partition.replicas:
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
        if self.subject.topic is not None and self.subject.wants(*partition.key):
            self._is_left(repr(partition), code, text)

    def _is_left(self, partition: str, code: str, text: str) -> None:
        cancellation = None
        if code == _WAITS and self.moves is not None:
            cancellation = self.moves.why_rolled_back()
        self.add(LeftAsItIs, partition=partition, code=code, text=text, cancellation=cancellation)

    def issues(self, issued: Issued) -> None:
        self.last_issued = issued
        if self.moves is not None:
            self.moves.issues(issued)
        match issued.command:
            case Notice() as notice:
                self._tell(notice)
            case WriteZnodes(operations=operations) | WriteAtomically(operations=operations):
                if any(True for _ in self._wanted(operations)):
                    self._asked[issued.id] = issued
            case StopReplicaRequest(broker=broker, partitions=partitions):
                if any(one.delete and self._is_whole(one.topic) for one in partitions):
                    topic = self.subject.topic
                    self.add(BrokerToldToDelete, topic=topic, broker=broker)
            case ReadZnodes(paths=(znodes.REASSIGN_PARTITIONS,)):
                self._asked[issued.id] = issued
            case AnswerAlterPartition() as answer:
                self._answered_isr(answer)
            case AnswerAlterPartitionReassignments() as answer:
                self._answered_reassignment(answer)
            case _:
                pass

    def _is_whole(self, topic: str) -> bool:
        """Whether the topic, not one partition of it, is asked about, and is to be deleted."""
        subject, doomed = self.subject, self.controller.context.queued_for_deletion
        return subject.topic == topic and subject.partition is None and topic in doomed

    # What comes of it

    def hears(self, outcome: ZnodesRead | ZnodesWritten) -> None:
        """The outcome of a command is about to be folded."""
        if self.moves is not None:
            self.moves.hears(outcome)
        asked = self._asked.get(outcome.command)
        if asked is None:
            return
        if isinstance(outcome, ZnodesRead):
            self._read(outcome)
            return
        command = asked.command
        assert isinstance(command, (WriteZnodes, WriteAtomically)), "only writes are written"
        end = outcome.offset + len(outcome.errors)
        for place, operation in self._wanted(command.operations):
            if outcome.offset <= place < end:
                error = outcome.errors[place - outcome.offset]
                version = outcome.versions[place - outcome.offset]
                self._written(asked, operation, error, version)

    def _wanted(
        self, operations: Sequence[WriteOperation]
    ) -> Iterator[tuple[int, SetData | CreateZnode]]:
        for place, one in enumerate(operations):
            if isinstance(one, (SetData, CreateZnode)) and self.wants_path(one.path):
                yield place, one

    def wants_path(self, path: str) -> bool:
        """Whether a znode is one of the subject's: a state, or the assignment of a topic."""
        if not path.startswith(znodes.TOPICS):
            return False
        kind, _, topic, partition = subject_of(path)
        if topic is not None and partition is not None:
            return kind == "state" and self.subject.wants(topic, partition)
        return kind == "topic" and topic == self.subject.topic

    def _written(
        self, asked: Issued, operation: SetData | CreateZnode, error: int, version: int
    ) -> None:
        name = f"{asked.id.cause}.{asked.id.ordinal}"
        rule = asked.reason.rule
        if error in (CONNECTION_LOSS, SESSION_EXPIRED, RUNTIME_INCONSISTENCY):
            self._lost.append(asked)
            return
        if error != OK:
            self.add(WriteRefused, path=operation.path, rule=rule, error=error, command=name)
            return
        key = znodes.state_of(operation.path)
        if key is None:
            self._assigned(asked, operation, name)
            return
        try:
            after = znodes.read_state(operation.path, operation.data, version)
        except ZnodeError:
            return
        partition = self.controller.context.find(*key)
        before = partition.leadership if partition is not None else None
        self.known.states[key] = after
        if self.subject.wants_state(before, after):
            choice = choice_of(asked, *key)
            self.add(
                StateWritten,
                partition=f"{key[0]}-{key[1]}",
                before=before,
                after=after,
                rule=rule,
                code=choice.code if choice else "",
                passed_over=choice.passed_over if choice else (),
                command=name,
                writer=f"broker {self.controller.configuration.broker_id}",
            )

    def _assigned(self, asked: Issued, operation: SetData | CreateZnode, name: str) -> None:
        topic = subject_of(operation.path).topic
        assert topic is not None, "it is the znode of a topic"
        try:
            content = znodes.read_topic(topic, operation.data)
        except ZnodeError:
            return
        for choice in asked.reason.choices:
            after = content.assignments.get(choice.partition)
            if after is not None and self.subject.wants(topic, choice.partition):
                key = (topic, choice.partition)
                before = self.known.assignments.get(key, NO_ASSIGNMENT)
                if before == after:
                    continue
                self.known.assignments[key] = after
                self.add(
                    AssignmentWritten,
                    partition=f"{topic}-{choice.partition}",
                    before=before,
                    after=after,
                    rule=asked.reason.rule,
                    command=name,
                    writer=f"broker {self.controller.configuration.broker_id}",
                )

    def _read(self, outcome: ZnodesRead) -> None:
        """The request that stands in /admin/reassign_partitions; who takes an entry out of it
        reads it, too."""
        is_taken_up = self.because is not None and self.because.procedure in _TAKE_UP
        if outcome.errors[0] != OK or not is_taken_up:
            return
        try:
            entries = znodes.read_reassignments(outcome.data[0])
        except ZnodeError:
            return
        for (topic, number), target in entries.items():
            if self.subject.topic is not None and self.subject.wants(topic, number):
                self.asked_by_znode(f"{topic}-{number}", target, znodes.REASSIGN_PARTITIONS)

    def asked_by_znode(self, partition: str, target: tuple[int, ...], via: str) -> None:
        """Once, however often a procedure reads it, and not where that is under way already."""
        known = self.known.assignments.get(partition_named(partition), NO_ASSIGNMENT)
        if known.is_being_reassigned and known.target == target:
            return
        if self.known.record is not None and self.known.record.target == target:
            # The entry of a move that is over, about to be removed.
            return
        is_told = any(
            isinstance(one, ReassignmentAsked)
            and (one.because, one.partition, one.target, one.via)
            == (self.because, partition, target, via)
            for one in reversed(self.facts)
        )
        if not is_told:
            self.add(ReassignmentAsked, partition=partition, target=target, via=via)

    # What is answered and told

    def _answered_isr(self, answer: AnswerAlterPartition) -> None:
        request = self.trigger.request if isinstance(self.trigger, ApiCall) else None
        if not isinstance(request, AlterPartitionReceived) or self.subject.topic is None:
            return
        errors = {(one.topic, one.topic_id, one.partition): one.error for one in answer.partitions}
        for one in request.partitions:
            topic_id = bytes.fromhex(one.topic) if request.version > 1 else None
            name = self.topic_name(one.topic) if topic_id is not None else one.topic
            if self.subject.wants(name, one.partition):
                key = ("" if topic_id is not None else one.topic, topic_id, one.partition)
                self.add(
                    IsrAsked,
                    partition=f"{name}-{one.partition}",
                    broker=request.broker,
                    isr=one.isr,
                    error=answer.error or errors.get(key, 0),
                )

    def _answered_reassignment(self, answer: AnswerAlterPartitionReassignments) -> None:
        request = self.trigger.request if isinstance(self.trigger, ApiCall) else None
        if not isinstance(request, AlterPartitionReassignmentsReceived):
            return
        answered = {(one.topic, one.partition): one for one in answer.partitions}
        for one in request.partitions:
            if self.subject.topic is not None and self.subject.wants(one.topic, one.partition):
                found = answered.get((one.topic, one.partition))
                self.add(
                    ReassignmentAsked,
                    partition=f"{one.topic}-{one.partition}",
                    target=one.replicas,
                    via=API,
                    error=answer.error or (found.error if found else 0),
                    message=found.message if found else "",
                )

    def _tell(self, notice: Notice) -> None:
        broker = self.controller.configuration.broker_id
        if notice.code in BROKERS:
            number = int(notice.subject.removeprefix("broker "))
            what = BROKERS[notice.code]
            text = notice.text if what == "log directory failed" else ""
            self.add(BrokerChanged, broker=number, what=what, text=text)
        elif notice.code in ROLE:
            self.add(RoleChanged, code=notice.code, broker=broker, text=notice.text)
        elif notice.code in TOPICS:
            topic = subject_of(notice.subject).topic or notice.subject
            self.add(TopicChanged, code=notice.code, topic=topic, text=notice.text)
        elif is_about(notice, self.subject):
            self.add(
                Told,
                level=notice.level,
                code=notice.code,
                subject=notice.subject,
                text=notice.text,
                because=None if is_by_itself(notice) else self.because,
            )

    def add(self, kind: type[AnyFact], **fields: object) -> None:
        """Note something that has just happened, unless `because` is given because of what began
        the procedure that runs."""
        if kind in _OF_ROLLBACK and self.moves is not None and self.moves.cause is not None:
            fields.setdefault("because", self.moves.cause)
        fields.setdefault("because", self.because)
        epoch = self.controller.context.epoch
        self.facts.append(kind(seq=self.seq, wall_ns=self.wall_ns, epoch=epoch, **fields))  # type: ignore[arg-type]


def choice_of(issued: Issued, topic: str, number: int) -> Choice | None:
    """What a command's reason says of a partition."""
    found = (one for one in issued.reason.choices if (one.topic, one.partition) == (topic, number))
    return next(found, None)
