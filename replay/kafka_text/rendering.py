"""A log as Kafka's controller.log and state-change.log would read, both in one, in order.

The log is folded again, and every teller follows the fold. Told is what Kafka logs at INFO and
above; stack traces are left out, and UpdateMetadata that would go to no broker.
"""

from collections.abc import Iterator, Sequence
from typing import get_args

from controller.core.commands import BrokerRequest, Choice, CommandId, Issued
from controller.core.events import Recorded
from controller.core.fold import Fold
from controller.core.fold_observer import FoldObserver
from controller.core.state import Partition
from controller.core.state_machines import PartitionState, ReplicaState
from controller.core.triggers import Trigger
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from replay.kafka_text.brokers import Brokers
from replay.kafka_text.channels import Channels
from replay.kafka_text.deletions import Deletions
from replay.kafka_text.elections import Elections
from replay.kafka_text.failover import Failover
from replay.kafka_text.isr_changes import IsrChanges, LogDirs
from replay.kafka_text.lines import Line
from replay.kafka_text.reassignments import Reassignments
from replay.kafka_text.requests import Requests
from replay.kafka_text.role import Role
from replay.kafka_text.state_machines import StateMachines
from replay.kafka_text.teller import KafkaLog, Teller, ZooKeeperOutcome
from replay.kafka_text.topics import Topics
from replay.logs.decode import demand_recorded, recorded
from replay.logs.other_core import OtherCoreCheck, folding, is_of_this_core
from replay.logs.recorded_fold import fold_at_start, fold_event

_TELLERS: tuple[type[Teller], ...] = (
    Role,
    Failover,
    Brokers,
    Topics,
    Deletions,
    IsrChanges,
    LogDirs,
    StateMachines,
    Requests,
    Elections,
    Reassignments,
    Channels,
)
"""In the order in which Kafka tells what happens at the same moment: what is about to be done, the
states that a step came to, its requests, what is over then."""


def kafka_lines(reader: LogReader, last_seq: int | None = None) -> Iterator[Line]:
    """The lines of a log, up to those of the event `last_seq`.

    Raises ReplayError for a log that cannot be folded, OtherCoreError where another core recorded
    it and this one decides otherwise.
    """
    demand_recorded(reader.header)
    check = None if is_of_this_core(reader.header) else OtherCoreCheck(reader.header)
    rendering = Rendering(fold_at_start(reader))
    for event, stored in reader.records(EventFilter(last_seq=last_seq)):
        with folding(reader.header, event.seq):
            lines = rendering.lines(recorded(event))
        if check is not None:
            check.compare(event.seq, rendering.issued, stored)
            check.demand()
        yield from lines


class Rendering(FoldObserver):
    """Folds events and gives the lines of each. Passes on to the tellers what the fold does."""

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self._log = KafkaLog(fold.controller)
        self._tellers = [one(self._log) for one in _TELLERS]
        self._asked: dict[CommandId, Issued] = {}
        self.issued: list[Issued] = []
        """The commands of the last event."""
        fold.controller.observer = self

    def lines(self, event: Recorded) -> list[Line]:
        """Fold an event; its lines."""
        log = self._log
        log.seq, log.wall_ns, log.lines = event.seq, event.wall_ns, []
        if isinstance(event.event, get_args(ZooKeeperOutcome)):
            self._hear(event.event)
        for one in self._tellers:
            one.observes(event.event)
        self.issued = fold_event(self._fold, event)
        return log.lines

    def _hear(self, outcome: ZooKeeperOutcome) -> None:
        """Outcomes of a procedure that is over are of no use to anybody."""
        asked = self._asked.get(outcome.command)
        if asked is not None:
            for one in self._tellers:
                one.hears(asked, outcome)

    def begins(self, trigger: Trigger) -> None:
        self._asked.clear()
        self._log.trigger = trigger
        for one in self._tellers:
            one.begins(trigger)

    def ends(self) -> None:
        for one in self._tellers:
            one.ends()
        self._log.trigger = None

    def issues(self, issued: Issued) -> None:
        self._asked[issued.id] = issued
        for one in self._tellers:
            one.issues(issued)

    def sends(self, requests: Sequence[BrokerRequest], rule: str) -> None:
        for one in self._tellers:
            one.sends(requests, rule)

    def moves_partitions(
        self, partitions: Sequence[Partition], target: PartitionState, rule: str, strategy: str
    ) -> None:
        for one in self._tellers:
            one.moves_partitions(partitions, target, rule, strategy)

    def moves_replicas(
        self, broker: int, partitions: Sequence[Partition], target: ReplicaState, rule: str
    ) -> None:
        for one in self._tellers:
            one.moves_replicas(broker, partitions, target, rule)

    def fails(
        self, partition: Partition, code: str, text: str, election: Choice | None = None
    ) -> None:
        for one in self._tellers:
            one.fails(partition, code, text, election)

    def rejects(self, name: tuple[str, int], error: int, why: str) -> None:
        for one in self._tellers:
            one.rejects(name, error, why)

    def resumes_deletions(self) -> None:
        for one in self._tellers:
            one.resumes_deletions()
