"""Notes the facts about all subjects in one fold, so that those about any one subject can be
selected later.

The selected facts are those that an observer of this subject alone notes. The exceptions are the
facts about reassignments of a partition, which depend on everything that its observer has seen
(replay/why/move_observer.py). A partition with such facts is *moved*: its question needs a fold.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from controller.core import znodes
from controller.core.commands import (
    BrokerRequest,
    Choice,
    Issued,
    Notice,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from controller.core.election import Elected
from controller.core.events import Recorded, WatchFired, ZnodesRead, ZnodesWritten
from controller.core.fold import Fold
from controller.core.operations import OK
from controller.core.procedures.reassignment.rollback import WAITS as ROLLBACK_WAITS
from controller.core.state import Partition
from controller.core.state_machines import ReplicaState
from controller.core.triggers import ApiCall
from controller.core.values import NO_LEADER, Assignment, LeaderAndIsr
from controller.core.znodes import REASSIGN_CANCEL, REASSIGN_PARTITIONS_EXTRA, REQUEST_PREFIX
from eventstore.records import Header
from replay.subjects import broker_named, partition_named, subject_of
from replay.why.fact_observer import NOT_DELETED
from replay.why.facts import (
    AnyFact,
    AssignmentWritten,
    Cause,
    DeletionSent,
    IsrRequested,
    LeftUnchanged,
    MoveGivenUp,
    NoLeader,
    NoticeIssued,
    ReassignmentRequested,
    SessionChanged,
    StateWritten,
    WriteRefused,
)
from replay.why.recorded_observer import RecordedFactObserver
from replay.why.subject import Subject, has_role_changed

EVERYTHING: Final = Subject(is_everything=True)

Place = tuple[str, int]
"""Where a fact belongs: a partition, the topic of `WHOLE`, a broker, or one of the others."""
WHOLE: Final = -1
"""In place of the number of a partition: its topic."""
WITH_PARTITIONS: Final = -3
"""The same: its topic with all partitions."""
OF_ALL: Final[Place] = ("", -1)
"""Facts about no topic. They can belong to every answer."""
REFUSED_STATES: Final[Place] = ("", -2)
"""Refused writes of states, which belong to every answer about a broker."""
_OF_PARTITION: Final = (
    AssignmentWritten,
    IsrRequested,
    LeftUnchanged,
    MoveGivenUp,
    NoLeader,
    ReassignmentRequested,
    StateWritten,
)
_OF_MOVES: Final = (REASSIGN_CANCEL, REASSIGN_PARTITIONS_EXTRA)


class PlacedFact(NamedTuple):
    """A fact with the places where it belongs."""

    places: list[Place]
    fact: AnyFact


class EveryFactObserver(RecordedFactObserver):
    """Notes the facts about all subjects. `take_facts` must be called after each event."""

    def __init__(self, fold: Fold, subject: Subject, header: Header) -> None:
        """`subject` is EVERYTHING."""
        super().__init__(fold, subject, header)
        self.notes_accepted_isr = True
        self.moved: dict[Place, int] = {}
        """The event from which on a partition is moved; for a whole topic or for OF_ALL, all
        partitions of the topic or of the log."""
        self._replicas: dict[int, tuple[int, ...]] = {}
        self._requests: set[tuple[Cause | None, str, tuple[int, ...], str]] = set()
        self._changed: dict[str, None] = dict.fromkeys(fold.controller.context.topics)
        """Topics whose partitions may have changed since the last comparison."""

    def fold_event(self, event: Recorded) -> list[Issued]:
        """As in the base class."""
        if isinstance(event.event, WatchFired) and event.event.path == REASSIGN_CANCEL:
            self.moved.setdefault(OF_ALL, event.seq)
        return super().fold_event(event)

    def take_facts(self) -> list[PlacedFact]:
        """The facts of the last event."""
        found = [
            PlacedFact(_places(one, self._replicas.get(number, ())), one)
            for number, one in enumerate(self.facts)
        ]
        self.facts.clear()
        self._replicas.clear()
        return found

    # Facts that depend on the subject

    def topics_deleted(self, topics: Iterable[str]) -> list[str]:
        """All topics that are being deleted as a whole."""
        queued = self.controller.context.queued_for_deletion
        return [one for one in dict.fromkeys(topics) if one in queued]

    def is_request_noted(self, partition: str, target: tuple[int, ...], via: str) -> bool:
        """As in the base class, for facts that were taken since."""
        request = (self.because, partition, target, via)
        is_noted = request in self._requests
        self._requests.add(request)
        return is_noted

    def elects(
        self, partition: Partition, rule: str, current: LeaderAndIsr, elected: Elected
    ) -> None:
        if elected.leader == NO_LEADER:
            self._replicas[len(self.facts)] = partition.replicas
        super().elects(partition, rule, current, elected)

    def touch(self, outcome: ZnodesRead | ZnodesWritten) -> None:
        """Remember the topics of the znodes that were read or written."""
        paths = self.znodes.get(outcome.command, [])
        end = outcome.offset + len(outcome.errors)
        for path, error in zip(paths[outcome.offset : end], outcome.errors, strict=False):
            topic = subject_of(path).topic
            if topic is not None:
                self._changed[topic] = None
            is_of_moves = path in _OF_MOVES or path.startswith(REQUEST_PREFIX)
            if is_of_moves and error == OK:
                self._moves(OF_ALL)
        if end >= len(paths):
            self.znodes.pop(outcome.command, None)

    def note_changes_by_others(self) -> None:
        """Compare the partitions of all topics of which a znode was read or written."""
        if isinstance(self.trigger, ApiCall):
            return
        waiting: dict[str, None] = {}
        for name in self._changed:
            topic = self.controller.context.topics.get(name)
            if topic is None or not topic.is_known:
                waiting[name] = None
                continue
            for partition in topic.partitions.values():
                self.note_changes(partition)
        self._changed = waiting

    # What moves a partition

    def _moves(self, place: Place) -> None:
        self.moved.setdefault(place, self.seq)

    def add(self, kind: type[AnyFact], **fields: object) -> None:
        super().add(kind, **fields)
        if kind is ReassignmentRequested:
            self._moves(partition_named(str(fields["partition"])))

    def reassigns(self, partition: Partition, target: Assignment) -> None:
        self._moves(partition.key)
        super().reassigns(partition, target)

    def stored(self, partition: Partition) -> None:
        if self.has_lost_writes:
            self._moves((partition.topic.name, WHOLE))
        super().stored(partition)

    def sends(self, requests: Sequence[BrokerRequest], rule: str) -> None:
        for one in requests:
            self._deletes(one)
        super().sends(requests, rule)

    def moves_replicas(
        self, broker: int, partitions: Sequence[Partition], target: ReplicaState, rule: str
    ) -> None:
        if target is ReplicaState.NON_EXISTENT:
            for one in partitions:
                self._moves(one.key)
        super().moves_replicas(broker, partitions, target, rule)

    def fails(
        self, partition: Partition, code: str, text: str, election: Choice | None = None
    ) -> None:
        if code == ROLLBACK_WAITS:
            self._moves(partition.key)
        super().fails(partition, code, text, election)

    def issues(self, issued: Issued) -> None:
        if type(issued.command) is UpdateMetadataRequest:
            # The most frequent command is no fact, and no part of one.
            self.last_issued = issued
            return
        super().issues(issued)
        self._deletes(issued.command)
        if isinstance(issued.command, Notice) and issued.command.code == NOT_DELETED:
            broker = broker_named(issued.command.subject)
            for one in self.controller.context.deletions.values():
                for key in one.names if one.broker == broker else ():
                    self._moves(key)
        for path in self.znodes.get(issued.id, ()):
            kind, _, topic, number = subject_of(path)
            if kind == "reassignment" and topic is not None and number is not None:
                self._moves((topic, number))

    def _deletes(self, command: object) -> None:
        if isinstance(command, StopReplicaRequest):
            for one in command.partitions:
                if one.delete:
                    self._moves((one.topic, one.partition))


# Places -----------------------------------------------------------------------------------------


def _of_broker(broker: int) -> Place:
    return ("", broker)


def _places(fact: AnyFact, replicas: tuple[int, ...]) -> list[Place]:
    """Where a fact belongs; `replicas` are those of the partition without a leader."""
    match fact:
        case StateWritten(partition=partition, before=before, after=after, writer=writer):
            places = [partition_named(partition)]
            if writer:
                brokers = dict.fromkeys((*after.isr, after.leader))
                brokers |= dict.fromkeys((*before.isr, before.leader) if before else ())
                places += [
                    _of_broker(one)
                    for one in brokers
                    if one != NO_LEADER and has_role_changed(before, after, one)
                ]
            return places
        case NoLeader(partition=partition):
            return [partition_named(partition), *map(_of_broker, replicas)]
        case WriteRefused(path=path):
            key = znodes.state_of(path)
            if key is not None:
                return [key, REFUSED_STATES]
            return [(subject_of(path).topic or "", WHOLE)]
        case DeletionSent(topic=topic):
            return [(topic, WHOLE)]
        case _ if isinstance(fact, _OF_PARTITION):
            return [partition_named(fact.partition)]
    return [OF_ALL]


def places_of(subject: Subject) -> list[Place]:
    """Where the facts about a subject are."""
    if subject.topic is not None:
        if subject.partition is None:
            return [OF_ALL, (subject.topic, WITH_PARTITIONS)]
        return [OF_ALL, (subject.topic, WHOLE), (subject.topic, subject.partition)]
    if subject.broker is not None:
        return [OF_ALL, _of_broker(subject.broker), REFUSED_STATES]
    return [OF_ALL]


def belongs(fact: AnyFact, subject: Subject) -> bool:
    """Whether a fact in one of the places of a subject belongs to the answer."""
    match fact:
        case SessionChanged():
            return subject.is_of_role
        case NoticeIssued(level=level, code=code, subject=about, text=text):
            # An observer of one partition notes this one as a fact about a deletion.
            if code == NOT_DELETED and subject.partition is not None:
                return False
            return subject.covers_notice(Notice(level, code, about, text))
        case DeletionSent():
            return subject.partition is None
    return True


def needs_fold(subject: Subject, moved: Iterable[Place]) -> bool:
    """Whether the facts about a subject are not all noted, because the places are moved."""
    if subject.topic is None or subject.partition is None:
        return False
    names = {OF_ALL, (subject.topic, WHOLE), (subject.topic, subject.partition)}
    return any(one in names for one in moved)
