"""Notes the facts about all subjects in one fold, so that those about any one subject can be
selected later.

The selected facts are those that an observer of this subject alone notes. The exceptions are the
facts about reassignments of a partition, which depend on everything that its observer has seen
(replay/why/move_observer.py). The events at which it could note one are noted here, and a question
about the partition folds them (replay/index/moves.py).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from controller.core import znodes
from controller.core.commands import (
    BrokerRequest,
    Choice,
    CommandId,
    Issued,
    Notice,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from controller.core.election import Elected
from controller.core.events import (
    BrokerResponded,
    Recorded,
    WatchFired,
    ZnodesRead,
    ZnodesWritten,
)
from controller.core.fold import Fold
from controller.core.operations import NO_NODE, OK
from controller.core.procedures.reassignment.rollback import WAITS as ROLLBACK_WAITS
from controller.core.state import Partition
from controller.core.state_machines import ReplicaState
from controller.core.triggers import ApiCall
from controller.core.values import NO_LEADER, Assignment, LeaderAndIsr
from controller.core.znodes import REASSIGN_CANCEL, REASSIGN_PARTITIONS_EXTRA
from eventstore.records import Header
from replay.names import broker_named, partition_named
from replay.parsed_znodes import is_request
from replay.subjects import subject_of
from replay.why.fact_observer import NOT_DELETED
from replay.why.facts import (
    AnyFact,
    AssignmentWritten,
    CancelZnodeObserved,
    Cause,
    DeletionSent,
    IsrRequested,
    LeftUnchanged,
    MoveGivenUp,
    NoLeader,
    NoticeIssued,
    ReassignmentRequested,
    RecordZnodeObserved,
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
    RecordZnodeObserved,
    StateWritten,
)
_OF_MOVES: Final = (REASSIGN_CANCEL, REASSIGN_PARTITIONS_EXTRA)
RANGES_APART_MIN: Final = 500
"""Of two ranges of moves with fewer events between them, one is made."""


class PlacedFact(NamedTuple):
    """A fact with the places where it belongs."""

    places: list[Place]
    fact: AnyFact


class MovesRange(NamedTuple):
    """Events among which an observer of one partition could note a fact about its moves. The place
    is a partition, a topic with all its partitions, or OF_ALL. No procedure runs after the last
    one, 0 if the log has none such."""

    place: Place
    first: int
    last: int


class EveryFactObserver(RecordedFactObserver):
    """Notes the facts about all subjects. `take_facts` must be called after each event."""

    def __init__(self, fold: Fold, subject: Subject, header: Header) -> None:
        """`subject` is EVERYTHING."""
        super().__init__(fold, subject, header)
        self.notes_accepted_isr = True
        self._moved: dict[Place, list[MovesRange]] = defaultdict(list)
        self._open: dict[Place, None] = {}
        """The places of ranges that have not ended."""
        self._deletions: dict[CommandId, list[Place]] = {}
        """Requests for the deletion of replicas, which can be answered at any time."""
        self._is_cancelled = False
        self._replicas: dict[int, tuple[int, ...]] = {}
        self._requests: set[tuple[Cause | None, str, tuple[int, ...], str]] = set()
        self._changed: dict[str, None] = dict.fromkeys(fold.controller.context.topics)
        """Topics whose partitions may have changed since the last comparison."""

    @property
    def ranges_of_moves(self) -> Iterator[MovesRange]:
        """The ranges of all places."""
        return chain.from_iterable(self._moved.values())

    def fold_event(self, event: Recorded) -> list[Issued]:
        """Fold one event, note the facts about it with their places, and return its commands.
        Raises ReplayError."""
        self.seq = event.seq
        match event.event:
            case WatchFired(path=path, change=change) if path in _OF_MOVES:
                self._moves(OF_ALL)
                if path == REASSIGN_CANCEL:
                    self._is_cancelled = change != "deleted"
            case BrokerResponded(command=command):
                for place in self._deletions.pop(command, ()):
                    self._moves(place)
            case _:
                pass
        issued = super().fold_event(event)
        if self._open and self._fold.is_idle:
            for place in self._open:
                *_, begun = self._moved[place]
                self._moved[place][-1] = begun._replace(last=self.seq)
            self._open.clear()
        return issued

    def take_facts(self) -> list[PlacedFact]:
        """The facts of the last event."""
        found = [
            PlacedFact(places_of_fact(one, self._replicas.get(number, ())), one)
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

    def note_request(self, partition: str, target: tuple[int, ...], by: str) -> bool:
        """Note a request. Returns whether the current procedure had noted it before, also if the
        fact was taken since."""
        request = (self.because, partition, target, by)
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
            is_of_moves = path in _OF_MOVES or is_request(path)
            is_gone = path == REASSIGN_CANCEL and error == NO_NODE and self._is_cancelled
            if (is_of_moves and error == OK) or is_gone:
                self._moves(OF_ALL)
            if path == REASSIGN_CANCEL and error in (OK, NO_NODE):
                self._is_cancelled = error == OK
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

    # What could be a fact about a move

    def _moves(self, place: Place) -> None:
        if place in self._open:
            return
        self._open[place] = None
        ranges = self._moved[place]
        if ranges and self.seq - ranges[-1].last < RANGES_APART_MIN:
            ranges[-1] = ranges[-1]._replace(last=0)
        else:
            ranges.append(MovesRange(place, self.seq, 0))

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
            for place in _deleted_replicas(one):
                self._moves(place)
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
        if deleted := _deleted_replicas(issued.command):
            self._deletions[issued.id] = deleted
            for place in deleted:
                self._moves(place)
        if isinstance(issued.command, Notice) and issued.command.code == NOT_DELETED:
            broker = broker_named(issued.command.subject)
            for one in self.controller.context.deletions.values():
                for key in one.names if one.broker == broker else ():
                    self._moves(key)
        for path in self.znodes.get(issued.id, ()):
            kind, _, topic, number = subject_of(path)
            if kind == "reassignment" and topic is not None and number is not None:
                self._moves((topic, number))


def _deleted_replicas(command: object) -> list[Place]:
    """The partitions whose replica on a broker is deleted by a request."""
    if not isinstance(command, StopReplicaRequest):
        return []
    return [(one.topic, one.partition) for one in command.partitions if one.delete]


# Places -----------------------------------------------------------------------------------------


def _of_broker(broker: int) -> Place:
    return ("", broker)


def places_of_fact(fact: AnyFact, replicas: tuple[int, ...]) -> list[Place]:
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
            key = znodes.partition_of_state(path)
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


_SELECTED: Final = (
    SessionChanged,
    NoticeIssued,
    DeletionSent,
    CancelZnodeObserved,
    RecordZnodeObserved,
)
"""The kinds of which not all facts in a place belong to each answer."""


def belongs(fact: AnyFact, subject: Subject) -> bool:
    """Whether a fact in one of the places of a subject belongs to the answer."""
    if type(fact) not in _SELECTED:
        # There may be a million of them.
        return True
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
        case CancelZnodeObserved() | RecordZnodeObserved():
            return subject.partition is not None
    return True


def places_of_moves(subject: Subject) -> list[Place]:
    """The places of ranges that a question about a subject folds."""
    if subject.topic is None or subject.partition is None:
        return []
    return [OF_ALL, (subject.topic, WHOLE), (subject.topic, subject.partition)]
