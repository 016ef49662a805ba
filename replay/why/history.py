"""The history of a subject, from which its state is explained."""

from msgspec import Struct, field

from replay.cluster_view.views import NO_BROKER, ClusterView, PartitionView
from replay.cluster_view.waiting import silent_broker, stuck_queue, stuck_registration
from replay.names import partition_name, partition_named
from replay.why.configuration import ConfigOverrides
from replay.why.facts import (
    AnyFact,
    AssignmentWritten,
    IsrRequested,
    LeftUnchanged,
    NoLeader,
    NoticeIssued,
    ReassignmentRequested,
    StateWritten,
    TopicChanged,
)
from replay.why.failures import failures_in, headline
from replay.why.move import Move
from replay.why.move_history import moves_of
from replay.why.subject import CONTROLLER_FAILURES, Subject


class FactHistory(Struct):
    """The facts about a subject up to an event, oldest first, and the cluster after that event.

    If there was no controller then (the daemon of a recorded log had resigned), `cluster` is its
    last known state. `notes` say so, and what else limits the explanation. `configuration` are the
    overrides in ZooKeeper, which only an imported log has. `daemon` is the broker id of the daemon
    that recorded the log. `is_at_end` says that its log ends here, and that it does not write it
    any more; `has_later_events`, that a later moment can be asked about.
    """

    subject: Subject
    cluster: ClusterView
    facts: list[AnyFact]
    notes: list[str] = field(default_factory=list)
    configuration: ConfigOverrides = field(default_factory=ConfigOverrides)
    daemon: int = NO_BROKER
    is_at_end: bool = False
    has_later_events: bool = True

    def failures(self) -> list[AnyFact]:
        """The failures of the controller in question, oldest first."""
        term = self.subject.term or self.cluster.controller.epoch
        return failures_in(self.facts, term)

    def headline(self) -> str:
        """Sentences about the failures of the controller, a queue that is stuck, and the brokers in
        question that do not answer or whose registration is stuck; "" for none."""
        brokers = [
            about(self.cluster, one)
            for one in self._brokers_in_question()
            for about in (silent_broker, stuck_registration)
        ]
        found = [headline(self.failures(), self.facts), stuck_queue(self.cluster), *brokers]
        return " ".join(filter(None, found))

    def _brokers_in_question(self) -> list[int]:
        subject = self.subject
        if subject.broker is not None:
            return [subject.broker]
        if subject.topic is None:
            return []
        covered = (
            one for one in self.cluster.partitions() if subject.is_about(one.topic, one.partition)
        )
        return sorted({broker for one in covered for broker in one.replicas})

    def view(self) -> PartitionView | None:
        """The state of the partition in question; None if it does not exist."""
        topic, number = self.subject.topic, self.subject.partition
        if topic is None or number is None:
            return None
        return self.cluster.partition(topic, number)

    def moves(self) -> list[Move]:
        """The reassignments of the partition in question, the oldest first."""
        topic, number = self.subject.topic, self.subject.partition
        if topic is None or number is None:
            return []
        return moves_of(self.facts, partition_name(topic, number))

    def exists(self) -> bool:
        """Whether the topic or partition in question exists."""
        topic = self.subject.topic
        if self.subject.partition is not None:
            return self.view() is not None
        return topic is not None and self.cluster.topic(topic) is not None

    def facts_about_name(self) -> list[AnyFact]:
        """The facts about the topic or partition in question, whether it exists or not. Facts about
        the whole topic are included only if the topic does not exist or is in question itself."""
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
        case NoticeIssued(code=code):
            # An observer notes only those about the subject, and failures of the controller.
            return code not in CONTROLLER_FAILURES
        case (
            StateWritten(partition=partition)
            | NoLeader(partition=partition)
            | LeftUnchanged(partition=partition)
            | AssignmentWritten(partition=partition)
            | IsrRequested(partition=partition)
            | ReassignmentRequested(partition=partition)
        ):
            name, its_number = partition_named(partition)
            return name == topic and number in (None, its_number)
    return False
