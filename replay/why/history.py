"""What there is to answer a question from."""

from msgspec import Struct, field

from replay.cluster_view.views import Cluster, PartitionView
from replay.subjects import partition_named
from replay.why.facts import (
    AnyFact,
    AssignmentWritten,
    IsrAsked,
    LeftAsItIs,
    NoLeader,
    ReassignmentAsked,
    StateWritten,
    Told,
    TopicChanged,
)
from replay.why.move import Move
from replay.why.move_story import moves_of
from replay.why.subject import Subject


class History(Struct):
    """The facts about a subject up to event `seq`, oldest first, and the cluster then.

    Where nobody was controller at that moment (a recorded log's daemon had resigned) `cluster` is
    as it was known last; `notes` say so, and what else limits the answer.
    """

    subject: Subject
    cluster: Cluster
    facts: list[AnyFact]
    notes: list[str] = field(default_factory=list)

    def view(self) -> PartitionView | None:
        """The partition that is asked about, as it is."""
        topic, number = self.subject.topic, self.subject.partition
        if topic is None or number is None:
            return None
        return self.cluster.partition(topic, number)

    def moves(self) -> list[Move]:
        """The reassignments of the partition that is asked about, the oldest first."""
        topic, number = self.subject.topic, self.subject.partition
        if topic is None or number is None:
            return []
        return moves_of(self.facts, f"{topic}-{number}")

    def is_there(self) -> bool:
        """Whether there is the topic, or partition, that is asked about."""
        topic = self.subject.topic
        if self.subject.partition is not None:
            return self.view() is not None
        return topic is not None and self.cluster.topic(topic) is not None

    def about_its_name(self) -> list[AnyFact]:
        """What was asked or told of the topic or partition that is asked about, whether it is
        there or not; of a topic that is there, nothing that is about the whole of it."""
        topic, number = self.subject.topic, self.subject.partition
        if topic is None:
            return []
        is_whole = number is None or self.cluster.topic(topic) is None
        return [
            one
            for one in self.facts
            if _is_about(one, topic, number)
            or (is_whole and isinstance(one, TopicChanged) and one.topic == topic)
        ]


def _is_about(fact: AnyFact, topic: str, number: int | None) -> bool:
    match fact:
        case Told():
            # Others were not noted.
            return True
        case (
            StateWritten(partition=partition)
            | NoLeader(partition=partition)
            | LeftAsItIs(partition=partition)
            | AssignmentWritten(partition=partition)
            | IsrAsked(partition=partition)
            | ReassignmentAsked(partition=partition)
        ):
            name, its_number = partition_named(partition)
            return name == topic and number in (None, its_number)
    return False
