"""A log as lines of Kafka's controller.log and state-change.log, merged in order.

The log is folded again, and the observers write what Kafka logs at INFO and above. Stack traces and
UpdateMetadata requests without a broker are left out.
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
from replay.kafka_text.brokers import BrokerLines
from replay.kafka_text.channels import ChannelLines
from replay.kafka_text.deletions import DeletionLines
from replay.kafka_text.elections import ElectionLines
from replay.kafka_text.failover import FailoverLines
from replay.kafka_text.isr_changes import IsrChangeLines, LogDirLines
from replay.kafka_text.kafka_log import KafkaLog, KafkaLogLine, LogObserver, ZooKeeperOutcome
from replay.kafka_text.reassignments import ReassignmentLines
from replay.kafka_text.requests import RequestLines
from replay.kafka_text.role import RoleLines
from replay.kafka_text.state_machines import StateMachineLines
from replay.kafka_text.topics import TopicLines
from replay.logs.decode import decode_recorded, require_recorded
from replay.logs.other_core import OtherCoreCheck, is_of_this_core, refuse_event_of_other_core
from replay.logs.recorded_fold import fold_at_start, fold_event

_OBSERVERS: tuple[type[LogObserver], ...] = (
    RoleLines,
    FailoverLines,
    BrokerLines,
    TopicLines,
    DeletionLines,
    IsrChangeLines,
    LogDirLines,
    StateMachineLines,
    RequestLines,
    ElectionLines,
    ReassignmentLines,
    ChannelLines,
)
"""In the order in which Kafka logs the same moment: what is about to be done, the new states, the
requests, what is completed."""


def kafka_lines(
    reader: LogReader, last_seq: int | None = None, *, of_0_8: bool = False
) -> Iterator[KafkaLogLine]:
    """The lines of a log, up to those of the event `last_seq`; or those of Kafka 0.8 that
    docs/kafka-logs.md lists.

    Raises ReplayError for a log that cannot be folded, and OtherCoreError if another core recorded
    the log and this core decides differently.
    """
    require_recorded(reader.header)
    check = None if is_of_this_core(reader.header) else OtherCoreCheck(reader.header)
    rendering = Rendering(fold_at_start(reader), of_0_8=of_0_8)
    for record, stored in reader.records(EventFilter(last_seq=last_seq)):
        event = decode_recorded(record)
        try:
            lines = rendering.lines(event)
        except Exception as error:
            refuse_event_of_other_core(reader.header, event, error)
            raise
        if check is not None:
            check.compare(event.seq, rendering.issued, stored)
            check.require_same()
        yield from lines


class Rendering(FoldObserver):
    """Folds events and returns the lines of each. Passes the steps of the fold on to the observers
    of single subjects."""

    def __init__(self, fold: Fold, *, of_0_8: bool = False) -> None:
        self._fold = fold
        self._of_0_8 = of_0_8
        self._log = KafkaLog(fold.controller)
        self._observers = [one(self._log) for one in _OBSERVERS]
        self._pending: dict[CommandId, Issued] = {}
        self.issued: list[Issued] = []
        """The commands of the last event."""
        fold.controller.observer = self

    def lines(self, event: Recorded) -> list[KafkaLogLine]:
        """Fold an event and return its lines."""
        log = self._log
        log.seq, log.wall_ns, log.lines, log.lines_of_0_8 = event.seq, event.wall_ns, [], []
        if isinstance(event.event, get_args(ZooKeeperOutcome)):
            self._pass_on(event.event)
        for one in self._observers:
            one.on_event(event.event)
        self.issued = fold_event(self._fold, event)
        return log.lines_of_0_8 if self._of_0_8 else log.lines

    def _pass_on(self, outcome: ZooKeeperOutcome) -> None:
        """Pass an outcome on. Ignore outcomes of finished procedures."""
        asked = self._pending.get(outcome.command)
        if asked is not None:
            for one in self._observers:
                one.on_outcome(asked, outcome)

    def begins(self, trigger: Trigger) -> None:
        self._pending.clear()
        self._log.trigger = trigger
        for one in self._observers:
            one.begins(trigger)

    def ends(self) -> None:
        for one in self._observers:
            one.ends()
        self._log.trigger = None

    def issues(self, issued: Issued) -> None:
        self._pending[issued.id] = issued
        for one in self._observers:
            one.issues(issued)

    def sends(self, requests: Sequence[BrokerRequest], rule: str) -> None:
        for one in self._observers:
            one.sends(requests, rule)

    def moves_partitions(
        self, partitions: Sequence[Partition], target: PartitionState, rule: str, strategy: str
    ) -> None:
        for one in self._observers:
            one.moves_partitions(partitions, target, rule, strategy)

    def moves_replicas(
        self, broker: int, partitions: Sequence[Partition], target: ReplicaState, rule: str
    ) -> None:
        for one in self._observers:
            one.moves_replicas(broker, partitions, target, rule)

    def fails(
        self, partition: Partition, code: str, text: str, election: Choice | None = None
    ) -> None:
        for one in self._observers:
            one.fails(partition, code, text, election)

    def rejects(self, name: tuple[str, int], error: int, why: str) -> None:
        for one in self._observers:
            one.rejects(name, error, why)

    def resumes_deletions(self) -> None:
        for one in self._observers:
            one.resumes_deletions()
