"""The reports of the simulated processes during a run.

A simulation has one observer. It must not change the simulation. Calls come in the order of virtual
time. Each has the name of the process ("broker 1", "producer 0", "consumer 0") and plain values. A
method that a subclass does not override does nothing.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from controller.core.commands import BrokerRequest, Issued, UpdateMetadataRequest
from controller.core.events import Recorded
from replay.world.inputs import Input
from replay.world.network import Delivery

Name = tuple[str, int]
"""A partition: its topic and number."""

PartitionError = tuple[str, int, int]
"""Topic (its id in hex if the request names topics by id), partition and error code."""


class AcknowledgedRecord(NamedTuple):
    """The acknowledgement of a record, with what the leader knew when it sent it: its leader epoch
    and the ISR. `acks`: as the producer asked, -1 for all."""

    name: Name
    offset: int
    record: int
    isr: tuple[int, ...]
    leader_epoch: int
    acks: int = -1


class Observer:
    """The base of all observers, and the observer that does nothing."""

    # The run

    def begins(self, cluster: Any) -> None:
        """The `Cluster` was put together; nothing has run."""

    def stepped(self) -> None:
        """One scheduled action has run, after `quiet_begins`."""

    def input_applied(self, one: Input) -> None:
        """An input takes effect now."""

    def quiet_begins(self) -> None:
        """All faults that have an end have ended."""

    def delivered(self, delivery: Delivery) -> None:
        """A message is about to be handled by its receiver."""

    # Controllers

    def run_started(self, process: str) -> None:
        """A controller started: a new fold, a new history."""

    def run_ended(self, process: str, reason: str) -> None:
        """A controller ended. `reason`: "crash", "kill", "broker" (the broker of a stock controller
        ended), or that of its Stop, empty after an orderly shutdown."""

    def folded(self, process: str, recorded: Recorded, issued: list[Issued]) -> None:
        """A controller has folded an event; its commands are not carried out yet."""

    def carried_out(self, process: str, issued: Issued) -> None:
        """A controller started to carry out a command. A command that was dropped because its term
        has ended is not reported."""

    def controller_acted(self, process: str, act: int, what: str) -> None:
        """A write of a controller was applied by ZooKeeper, or a request was sent to a broker. Acts
        are numbered from 1, over all runs of a process."""

    def crashes(self, process: str, what: str, when: str) -> None:
        """A controller is about to end by a CrashController input, "before" or "after" this act.
        Before it, `controller_acted` is not called."""

    # Brokers of the 0.8 design

    def broker_folded(self, process: str) -> None:
        """A broker of the 0.8 design has folded an event; its commands are not carried out yet."""

    # The life of a broker

    def started(self, process: str) -> None:
        """The process of a broker runs. Its logs are what `truncated` left of them."""

    def registered(self, process: str, broker_epoch: int) -> None:
        """The broker knows that it is registered, with this broker epoch."""

    def ended(self, process: str, cause: str) -> None:
        """The process of a broker ended. `cause`: "crash", "shutdown" (controlled, whether it
        succeeded or not), "exit" (its registration failed)."""

    def paused(self, process: str) -> None:
        """The process does nothing until `resumed`."""

    def resumed(self, process: str) -> None:
        """The process runs again, and handles first what has waited."""

    def log_directory_failed(self, process: str, partitions: Sequence[Name]) -> None:
        """A log directory failed; the partitions that were in it are offline."""

    # Logs

    def appended(
        self, process: str, partition: Name, offset: int, leader_epoch: int, records: Sequence[int]
    ) -> None:
        """Records, by id, were appended from `offset` on, by the leader or a follower. All have the
        same leader epoch."""

    def flushed(self, process: str, partition: Name, end: int) -> None:
        """Records below `end` survive every crash from now on."""

    def truncated(self, process: str, partition: Name, end: int, cause: str) -> None:
        """Records from offset `end` on were removed. `cause`: "leader" (they diverge from the
        leader's log), "crash" (they were not flushed) or, in the 0.8 design, "high watermark" (the
        replica begins to follow a leader)."""

    def log_created(self, process: str, partition: Name, topic_id: bytes | None) -> None:
        """An empty log was created."""

    def log_deleted(self, process: str, partition: Name) -> None:
        """A log was deleted, as a StopReplica request asked."""

    def high_watermark_changed(self, process: str, partition: Name, offset: int) -> None:
        """The high watermark of a replica changed: records below it are committed, as far as this
        broker knows. The high watermark of a follower may go back."""

    # Leadership

    def leader_changed(
        self, process: str, partition: Name, leader: int, leader_epoch: int, isr: Sequence[int]
    ) -> None:
        """The broker applied a LeaderAndIsr request with a higher leader epoch to a partition. It
        leads if `leader` is its id; otherwise it follows `leader` (-1: none)."""

    def replica_stopped(self, process: str, partition: Name) -> None:
        """The broker applied a StopReplica request to a partition. `log_deleted` follows if it
        asked for that."""

    def isr_proposed(
        self, process: str, partition: Name, leader_epoch: int, isr: Sequence[int]
    ) -> None:
        """A leader asks its controller, or ZooKeeper, for another ISR."""

    def isr_changed(
        self,
        process: str,
        partition: Name,
        leader_epoch: int,
        isr: Sequence[int],
        partition_epoch: int,
    ) -> None:
        """A leader learned that its proposal is committed, with this version of the state znode."""

    # Control requests

    def applied_control_request(
        self,
        process: str,
        request: BrokerRequest,
        error: int,
        partition_errors: Sequence[PartitionError],
    ) -> None:
        """The broker handled a request of a controller, with these errors."""

    def metadata_updated(self, process: str, request: UpdateMetadataRequest) -> None:
        """The broker applied an UpdateMetadata request to its metadata cache."""

    # Clients

    def produced(self, process: str, partition: Name, record: int) -> None:
        """A producer has a new record to send."""

    def acknowledged(self, process: str, one: AcknowledgedRecord) -> None:
        """A producer got the acknowledgement of a record. With acks 0 there is none: the call
        follows the sending, with offset -1 and an empty ISR.

        A record that is sent again after a lost reply may be in the log several times.
        """

    def given_up(self, process: str, partition: Name, record: int) -> None:
        """A producer gave up a record after its delivery time-out."""

    def read(
        self, process: str, partition: Name, offset: int, leader_epoch: int, records: Sequence[int]
    ) -> None:
        """A consumer read records, by id, from `offset` on. All have the same leader epoch."""

    def went_back(self, process: str, partition: Name, position: int, end: int) -> None:
        """A consumer was at `position`, and the leader's log diverges from what it read from offset
        `end` on. The consumer continues there."""
