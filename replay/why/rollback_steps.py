"""The seven steps of a rollback, recognized by their commands (KB 14.2.2)."""

from collections.abc import Callable, Sequence
from typing import Final

from controller.core import znodes
from controller.core.commands import (
    BrokerRequest,
    Issued,
    StopReplicaRequest,
    UpdateMetadataRequest,
    WriteAtomically,
    WriteZnodes,
)
from controller.core.errors import ZnodeError
from controller.core.operations import Create, Delete, SetData, WriteOperation
from controller.core.state import Partition
from controller.core.values import Assignment, LeaderAndIsr
from controller.core.znodes import Name, read_entries, reassignment_path
from replay.description.phrases import broker_list, leader_in_words, state_in_words
from replay.names import command_name

LAST: Final = 7
STORE: Final = 5
DELETE: Final = 4

_NO_STATE: Final = "the partition has no state to write"
_WITHOUT_COMMAND: Final = {
    3: "no live broker is to be stopped, and none leaves the ISR",
    4: "no live broker is to be sent a deletion",
    6: "there is no entry and no record to remove",
}

OnStep = Callable[[int, str, str, bool], None]
"""Called with the number of a step, its description, the name of its command ("" for none), and
whether the step had nothing to do."""


class RollbackSteps:
    """Observes one rollback of one partition.

    `on_step` is called once per step. A step that needs no command is reported with the last step.
    """

    def __init__(
        self, partition: Partition, originals: tuple[int, ...], before: Assignment, on_step: OnStep
    ) -> None:
        self._name: Name = partition.key
        self._originals = originals
        self._dropped = tuple(one for one in before.replicas if one not in originals)
        self._state = partition.leadership
        self._isr = self._state.isr if self._state is not None else ()
        self._on_step = on_step
        self._done: set[int] = set()
        self._step(1, f"the controller takes {broker_list(originals)} as the replicas, in memory")

    @property
    def is_over(self) -> bool:
        """Whether the last step was taken."""
        return LAST in self._done

    def issues(self, issued: Issued) -> None:
        """A command is issued."""
        if isinstance(issued.command, WriteZnodes | WriteAtomically):
            command = command_name(issued.id)
            for operation in issued.command.operations:
                self._writes(operation, command)
            for operation in issued.command.operations:
                self._removes(operation, command)

    def sends(self, requests: Sequence[BrokerRequest]) -> None:
        """A batch of requests is sent."""
        stopped = [one for one in requests if isinstance(one, StopReplicaRequest)]
        for step, what, is_deletion in (
            (3, "stopped", False),
            (4, "sent the deletion of the replica", True),
        ):
            brokers = [
                one.broker
                for one in stopped
                for part in one.partitions
                if (part.topic, part.partition) == self._name and part.delete is is_deletion
            ]
            if brokers:
                self._step(step, f"{_brokers(brokers)} {what}")
        updates = [one for one in requests if isinstance(one, UpdateMetadataRequest)]
        if STORE in self._done and updates and self._is_named_by(updates[0]):
            self._finish([one.broker for one in updates])

    def _is_named_by(self, request: UpdateMetadataRequest) -> bool:
        return any((one.topic, one.partition) == self._name for one in request.partitions)

    def _writes(self, operation: WriteOperation, command: str) -> None:
        if not isinstance(operation, SetData | Create):
            return
        if operation.path == znodes.state_path(*self._name):
            self._writes_state(operation, command)
        elif operation.path == znodes.topic_path(self._name[0]):
            self._writes_topic(operation, command)

    def _writes_state(self, operation: SetData | Create, command: str) -> None:
        try:
            written = znodes.read_state(operation.path, operation.data, 0)
        except ZnodeError:
            return
        self._step(2, _written_leader(written), command)
        left = [one for one in self._dropped if one in self._isr and one not in written.isr]
        if left:
            self._step(3, f"{_brokers(left)} removed from the ISR", command)
        self._isr = written.isr

    def _writes_topic(self, operation: SetData | Create, command: str) -> None:
        topic, number = self._name
        try:
            content = znodes.read_topic(topic, operation.data)
        except ZnodeError:
            return
        if content.assignments.get(number) == Assignment(self._originals):
            text = f"{broker_list(self._originals)} are written to {operation.path}"
            self._step(STORE, text, command)

    def _removes(self, operation: WriteOperation, command: str) -> None:
        if STORE not in self._done:
            return
        if operation.path == znodes.REASSIGN_PARTITIONS and not self._keeps_entry(operation):
            self._step(6, f"its entry is removed from {operation.path}", command)
        elif isinstance(operation, Delete) and operation.path == reassignment_path(*self._name):
            self._step(6, f"its record {operation.path} is removed", command)

    def _keeps_entry(self, operation: WriteOperation) -> bool:
        if not isinstance(operation, SetData | Create):
            return False
        try:
            return self._name in read_entries(operation.path, operation.data).entries
        except ZnodeError:
            return True

    def _finish(self, brokers: list[int]) -> None:
        if self.is_over:
            return
        self._step(2, self._why_not_written(), is_empty=True)
        for step, why in _WITHOUT_COMMAND.items():
            self._step(step, why, is_empty=True)
        self._step(LAST, f"{_brokers(brokers)} sent the new metadata")

    def _why_not_written(self) -> str:
        if self._state is None:
            return _NO_STATE
        return f"no leader can be elected, and the state stays: {state_in_words(self._state)}"

    def _step(self, step: int, text: str, command: str = "", *, is_empty: bool = False) -> None:
        if step not in self._done:
            self._done.add(step)
            self._on_step(step, text, command, is_empty)


def _brokers(brokers: list[int]) -> str:
    """The subject and verb of a sentence about brokers."""
    return f"broker {brokers[0]} is" if len(brokers) == 1 else f"brokers {broker_list(brokers)} are"


def _written_leader(written: LeaderAndIsr) -> str:
    return f"{leader_in_words(written.leader)} is written with leader epoch {written.leader_epoch}"
