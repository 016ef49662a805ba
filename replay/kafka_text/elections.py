"""Kafka's log lines on elections that a client or a timer requests (onReplicaElection, KB 3.9)."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from controller.core import znodes
from controller.core.api_requests.elections import ElectLeadersReceived
from controller.core.commands import BrokerRequest, Issued, ReadZnodes
from controller.core.election import PREFERRED, UNCLEAN
from controller.core.errors import ZnodeError
from controller.core.events import ZnodesRead
from controller.core.operations import NO_NODE, OK
from controller.core.state import Partition
from controller.core.state_machines import PartitionState
from controller.core.triggers import (
    ApiCall,
    AutoPreferredReplicaLeaderElection,
    ReplicaLeaderElection,
    Trigger,
)
from replay.kafka_text.kafka_log import CONTROLLER, KafkaLog, LogObserver, ZooKeeperOutcome
from replay.kafka_text.scala_text import immutable_set, mk_string
from replay.names import partition_name

Name = tuple[str, int]


class _RequestedElections(NamedTuple):
    """The partitions of a request, by the result."""

    unknown: list[Name]
    queued: list[Partition]
    led: list[Partition]
    others: list[Partition]


class ElectionLines(LogObserver):
    """Logs each election when it begins, and its result when it is over."""

    def __init__(self, log: KafkaLog) -> None:
        super().__init__(log)
        self._under_way: list[Partition] = []

    def begins(self, trigger: Trigger) -> None:
        self._under_way = []
        match trigger:
            case ApiCall(request=ElectLeadersReceived(partitions=partitions) as asked):
                if self.log.controller.is_active and partitions is not None:
                    self._log_skipped(self._sort(partitions), asked.election.upper())

    def on_outcome(self, issued: Issued, outcome: ZooKeeperOutcome) -> None:
        match issued.command, outcome:
            case ReadZnodes(paths=(znodes.PREFERRED_ELECTION,)), ZnodesRead(errors=[error]):
                if error not in (OK, NO_NODE):
                    return
                names = self._sort(_names(outcome.data[0]) if error == OK else [])
                if self.log.is_failing_over:
                    self._log_pending(names)
                elif isinstance(self.log.trigger, ReplicaLeaderElection) and error == OK:
                    self._log_skipped(names, "PREFERRED")

    def moves_partitions(
        self, partitions: Sequence[Partition], target: PartitionState, rule: str, strategy: str
    ) -> None:
        if strategy in (PREFERRED.name, UNCLEAN.name):
            kind = "PREFERRED" if strategy == PREFERRED.name else "UNCLEAN"
            self._log_start(partitions, kind)
            if not isinstance(self.log.trigger, ApiCall):
                self._under_way = list(partitions)

    def sends(self, requests: Sequence[BrokerRequest], rule: str) -> None:
        over, self._under_way = self._under_way, []
        for one in over:
            leader = one.leadership.leader if one.leadership is not None else -1
            if leader != one.replicas[0]:
                self._log_error(one)
        for one in over:
            leader = one.leadership.leader if one.leadership is not None else -1
            self._log_result(one, leader)

    def _sort(self, names: Iterable[Name]) -> _RequestedElections:
        context = self.log.context
        asked = _RequestedElections([], [], [], [])
        for name in dict.fromkeys(names):
            one = context.find(*name)
            if one is None or not one.replicas:
                asked.unknown.append(name)
            elif one.leadership is not None and one.leadership.leader == one.replicas[0]:
                asked.led.append(one)
            elif context.is_queued(one):
                asked.queued.append(one)
            else:
                asked.others.append(one)
        return asked

    def _log_pending(self, asked: _RequestedElections) -> None:
        """Log, at a failover, the remaining partitions of a request."""
        unknown = [partition_name(topic, number) for topic, number in asked.unknown]
        completed = [*unknown, *map(repr, asked.led)]
        queued, pending = list(map(repr, asked.queued)), list(map(repr, asked.others))
        lists = {
            "Partitions undergoing preferred replica election": completed + queued + pending,
            "Partitions that completed preferred replica election": completed,
            "Skipping preferred replica election for partitions due to topic deletion": queued,
            "Resuming preferred replica election for partitions": pending,
        }
        for text, partitions in lists.items():
            self.log.info(CONTROLLER, f"{text}: {mk_string(partitions)}")

    def _log_skipped(self, asked: _RequestedElections, kind: str) -> None:
        what, by = f"Skipping replica leader election ({kind}) for", self._trigger()
        for topic, number in asked.unknown:
            text = f"{what} partition {topic}-{number} by {by} since it doesn't exist."
            self.log.info(CONTROLLER, text)
        queued = [one for one in asked.queued + asked.led if self.log.context.is_queued(one)]
        if queued:
            self.log.warn(
                CONTROLLER,
                f"{what} partitions {immutable_set(map(repr, queued))} by {by} since the "
                "respective topics are being deleted",
            )

    def _log_start(self, partitions: Sequence[Partition], kind: str) -> None:
        self.log.info(
            CONTROLLER,
            f"Starting replica leader election ({kind}) for partitions "
            f"{mk_string(map(repr, partitions))} triggered by {self._trigger()}",
        )

    def _trigger(self) -> str:
        match self.log.trigger:
            case AutoPreferredReplicaLeaderElection():
                return "AutoTriggered"
            case ApiCall():
                return "AdminClientTriggered"
            case _:
                return "ZkTriggered"

    def _log_error(self, partition: Partition) -> None:
        self.log.error(
            CONTROLLER,
            f"Error completing replica leader election (PREFERRED) for partition {partition!r}",
            "kafka.common.StateChangeFailedException: Failed to elect leader for partition "
            f"{partition!r} under strategy {PREFERRED.kafka_name}",
        )

    def _log_result(self, partition: Partition, leader: int) -> None:
        preferred = partition.replicas[0]
        if leader == preferred:
            self.log.info(
                CONTROLLER,
                f"Partition {partition!r} completed preferred replica leader election. "
                f"New leader is {preferred}",
            )
        else:
            self.log.warn(
                CONTROLLER,
                f"Partition {partition!r} failed to complete preferred replica leader election to "
                f"{preferred}. Leader is still {leader}",
            )


def _names(data: bytes | None) -> list[Name]:
    try:
        return znodes.read_preferred_election(data)
    except ZnodeError:
        return []
