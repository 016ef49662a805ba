"""Kafka's log lines about reassignments (onPartitionReassignment, KB 7)."""

from collections.abc import Mapping, Sequence
from typing import Final

from controller.core import znodes
from controller.core.api_requests.alter_partition import AlterPartitionReceived
from controller.core.commands import (
    BrokerRequest,
    Choice,
    Issued,
    Notice,
    ReadZnodes,
    Reason,
    WriteZnodes,
)
from controller.core.election import REASSIGNMENT
from controller.core.errors import ZnodeError
from controller.core.events import ZnodesRead, ZnodesWritten
from controller.core.operations import Create, Delete, SetData
from controller.core.procedures.reassignment.assignments import STORE
from controller.core.procedures.reassignment.leader_epochs import RAISE
from controller.core.procedures.reassignment.partition_reassignment import RULE
from controller.core.state import Partition
from controller.core.state_machines import PartitionState
from controller.core.triggers import (
    ApiCall,
    IsrChangeNotification,
    PartitionReassignmentIsrChange,
    Trigger,
)
from replay.description.error_names import error_name
from replay.kafka_text.kafka_log import (
    CONTROLLER,
    STATE_CHANGE,
    KafkaLog,
    LogObserver,
    ZooKeeperOutcome,
)
from replay.kafka_text.scala_text import (
    assignment,
    collection,
    immutable_map,
    leader_isr_and_epoch,
    mk_string,
    mutable_map,
)
from replay.names import partition_name
from replay.parsed_znodes import parsed_state

_PATH: Final = znodes.REASSIGN_PARTITIONS


class ReassignmentLines(LogObserver):
    """Logs each step: assignments written, leader epochs raised, target replicas in sync, leaders
    moved, requests completed."""

    def __init__(self, log: KafkaLog) -> None:
        super().__init__(log)
        self._caught_up: dict[Partition, None] = {}
        self._raised: list[Partition] = []
        self._logged_alive: dict[Partition, None] = {}
        self._entries: znodes.ReassignmentEntries | None = None
        self._refused: dict[str, str] = {}

    def begins(self, trigger: Trigger) -> None:
        self._caught_up, self._raised, self._logged_alive = {}, [], {}
        self._entries, self._refused = None, {}

    # Outcomes

    def on_outcome(self, issued: Issued, outcome: ZooKeeperOutcome) -> None:
        match issued.command, outcome:
            case WriteZnodes(), ZnodesWritten():
                self._apply_written(issued.reason, issued.command, outcome)
            case ReadZnodes(paths=(znodes.REASSIGN_PARTITIONS,)), ZnodesRead(errors=[0]) as read:
                self._entries = _entries(read.data[0])
            case ReadZnodes(), ZnodesRead() if issued.reason.rule == RULE:
                paths = issued.command.paths[outcome.offset :]
                for path, error, data in zip(paths, outcome.errors, outcome.data, strict=False):
                    if not error:
                        self._apply_isr(path, data)

    def _apply_written(self, reason: Reason, command: WriteZnodes, outcome: ZnodesWritten) -> None:
        """Topics' znodes with assignments, or states with raised leader epochs."""
        written = command.operations[outcome.offset :]
        done = [
            (operation, version)
            for operation, error, version in zip(
                written, outcome.errors, outcome.versions, strict=False
            )
            if isinstance(operation, SetData) and not error
        ]
        for choice in reason.choices:
            paths = {
                STORE: znodes.topic_path(choice.topic),
                RAISE: znodes.state_path(choice.topic, choice.partition),
            }
            for operation, version in done:
                if operation.path != paths.get(reason.rule):
                    continue
                if reason.rule == STORE:
                    self._log_stored(operation, choice)
                else:
                    self._log_raised(operation, choice, version)

    def _log_stored(self, done: SetData, choice: Choice) -> None:
        written = znodes.read_topic(choice.topic, done.data).assignments[choice.partition]
        self.log.info(
            CONTROLLER,
            f"Successfully updated assignment of partition {choice.topic}-{choice.partition} to "
            f"{assignment(written)}",
        )

    def _log_raised(self, done: SetData, choice: Choice, version: int) -> None:
        epoch = znodes.read_state(done.path, done.data, version).leader_epoch
        partition = self.log.context.find(choice.topic, choice.partition)
        if partition is not None:
            self._raised.append(partition)
        self.log.info(
            CONTROLLER,
            f"Updated leader epoch for partition {choice.topic}-{choice.partition} to {epoch}, "
            f"zkVersion={version}",
        )

    def _apply_isr(self, path: str, data: bytes | None) -> None:
        """The ISR was read to check whether the reassignment is complete. If the check follows a
        change of the ISR, Kafka logs the result, and reads the ISR once more when it continues."""
        name = znodes.partition_of_state(path)
        partition = self.log.context.find(*name) if name is not None else None
        if partition is None or not _follows_isr(self.log.trigger):
            return
        if not partition.assignment.is_being_reassigned:
            return
        if partition in self._caught_up:
            del self._caught_up[partition]
            return
        state = parsed_state(path, data, 0)
        target = partition.assignment.target
        if state is not None and all(one in state.isr for one in target):
            self._caught_up[partition] = None
            self.log.info(
                CONTROLLER,
                f"Target replicas {collection('ArrayBuffer', target)} have all caught up with the "
                f"leader for reassigning partition {partition!r}",
            )

    # Steps of the fold

    def moves_partitions(
        self, partitions: Sequence[Partition], target: PartitionState, rule: str, strategy: str
    ) -> None:
        if strategy == REASSIGNMENT.name:
            for partition in partitions:
                self._log_leader(partition)

    def sends(self, requests: Sequence[BrokerRequest], rule: str) -> None:
        raised, self._raised = self._raised, []
        for partition in raised:
            state = partition.leadership
            if state is None:
                continue
            self._logged_alive.pop(partition, None)
            self.log.info(
                STATE_CHANGE,
                f"Sent LeaderAndIsr request {leader_isr_and_epoch(state)} with new replica "
                f"assignment {assignment(partition.assignment)} to leader {state.leader} "
                f"for partition being reassigned {partition!r}",
            )

    def rejects(self, name: tuple[str, int], error: int, why: str) -> None:
        spelt = f"ApiError(error={error_name(error)}, message={why})"
        self._refused["-".join(map(str, name))] = spelt

    def issues(self, issued: Issued) -> None:
        command = issued.command
        if self._refused and not isinstance(command, Notice):
            failed, self._refused = mutable_map(self._refused), {}
            text = f"Failed reassignment through zk with the following errors: {failed}"
            self.log.warn(CONTROLLER, text)
        match command:
            case ReadZnodes(paths=paths) if issued.reason.rule == RAISE:
                for path in paths:
                    self._log_alive(path)
            case WriteZnodes(operations=[Delete(path=znodes.REASSIGN_PARTITIONS)]):
                self._log_remaining({})
            case WriteZnodes(operations=[SetData() | Create() as put]) if put.path == _PATH:
                self._log_remaining(znodes.read_reassignments(put.data))
            case Notice(code="reassignment_failed", subject=name, text=text):
                self.log.error(
                    CONTROLLER,
                    f"Error completing reassignment of partition {name}",
                    f"org.apache.kafka.common.KafkaException: {text}",
                )

    def _log_alive(self, path: str) -> None:
        """The leader stays, with a new epoch; Kafka logs that at the end of a reassignment."""
        name = znodes.partition_of_state(path)
        partition = self.log.context.find(*name) if name is not None else None
        if partition is None or partition.assignment.is_being_reassigned:
            return
        if partition not in self._logged_alive:
            self._logged_alive[partition] = None
            self._log_leader(partition)

    def _log_leader(self, partition: Partition) -> None:
        leader = partition.leadership.leader if partition.leadership is not None else -1
        target = partition.assignment.target
        where = f"is already in the new list of replicas {mk_string(target)}"
        if leader not in target:
            what = f"is not in the new list of replicas {mk_string(target)}. Re-electing leader"
        elif self.log.context.is_online(leader, partition):
            what = f"{where} and is alive"
        else:
            what = f"{where} but is dead"
        self.log.info(
            CONTROLLER, f"Leader {leader} for partition {partition!r} being reassigned, {what}"
        )

    def _log_remaining(self, remaining: Mapping[tuple[str, int], tuple[int, ...]]) -> None:
        removed = {
            partition_name(topic, number): collection("Buffer", target)
            for (topic, number), target in (self._entries or {}).items()
            if (topic, number) not in remaining
        }
        self._entries = None
        self.log.info(
            CONTROLLER,
            f"Removing partitions {immutable_map(removed)} from the list of reassigned partitions "
            "in zookeeper",
        )
        if not remaining:
            self.log.info(
                CONTROLLER, f"No more partitions need to be reassigned. Deleting zk path {_PATH}"
            )


def _follows_isr(trigger: Trigger | None) -> bool:
    match trigger:
        case IsrChangeNotification() | PartitionReassignmentIsrChange():
            return True
        case ApiCall(request=AlterPartitionReceived()):
            return True
        case _:
            return False


def _entries(data: bytes | None) -> znodes.ReassignmentEntries:
    try:
        return znodes.read_reassignments(data)
    except ZnodeError:
        return {}
