"""Feeds the invariants: turns what a simulation reports into facts, and keeps what they share.

One monitor belongs to one run. `violation` is the first violation.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from controller.core import znodes
from controller.core.api_requests import ApiRequest, ApiResponse
from controller.core.commands import (
    BrokerRequest,
    CommandId,
    Issued,
    LeaderAndIsrRequest,
    Notice,
    ReadChildren,
    StopReplicaRequest,
    UpdateMetadataRequest,
    WriteZnodes,
)
from controller.core.error_codes import KAFKA_STORAGE_ERROR
from controller.core.events import ChildrenRead, Recorded, WatchFired
from controller.core.operations import NO_NODE, OK, Create, SetData
from controller.core.znodes import Name
from replay.explore.controller_knowledge import ControllerKnowledge
from replay.explore.invariants.catalogue import ALWAYS, RECOVERY
from replay.explore.invariants.invariant import (
    AppliedRequest,
    Invariant,
    TopicReplica,
    Violation,
)
from replay.explore.invariants.known_cluster import KnownCluster
from replay.explore.invariants.records import AcknowledgedRecordsKept
from replay.explore.invariants.recovery import Recovery
from replay.explore.processes import Processes
from replay.explore.request_facts import RequestFacts
from replay.explore.zookeeper_facts import ZooKeeperFacts
from replay.names import broker_named
from replay.parsed_znodes import parsed_state
from replay.world.ensemble.transactions import Transaction
from replay.world.observer import AcknowledgedRecord, Observer, PartitionError
from replay.world.scheduler import MS
from replay.world.zookeeper import Changes

if TYPE_CHECKING:
    from replay.world.cluster import Cluster
    from replay.world.inputs import Input
    from replay.world.kafka_0_8.networked.cluster import NetworkedCluster
    from replay.world.network import Delivery

_POLL_US: Final = 500 * MS
"""How often the invariants about recovery are evaluated."""

_STARTS_US: Final = 5_000 * MS
"""How long processes that were down take to start after the last fault."""

RECOVERY_MS: Final = (_STARTS_US + _POLL_US) // MS + max(one.WITHIN_MS for one in RECOVERY)
"""How long the quiet part must be, so that the invariants about recovery can be violated."""

_SENT: Final = (LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest)


class Monitor(Observer):
    """The observer of a run that evaluates all invariants.

    - `violation`: the first one, None so far
    - `unmet`: what the invariants about recovery still lack
    - `also`: another observer
    """

    always: ClassVar[Sequence[type[Invariant]]] = ALWAYS
    """The invariants that are checked after every step."""
    recovery: ClassVar[Sequence[type[Recovery]]] = RECOVERY
    """The invariants that are checked after the last fault."""

    def __init__(self, also: Observer | None = None, known: KnownCluster | None = None) -> None:
        self.violation: Violation | None = None
        self.known = known or KnownCluster()
        self.unmet: dict[str, str] = {}
        self.is_settled = False
        self.also = also or Observer()
        self._now: Callable[[], int] = lambda: 0
        self._quiet_us: int | None = None
        self._next_poll_us = 0
        self._unchecked: list[str] = []
        self._failing: dict[str, None] = {}
        """The controllers with Kafka's rules whose last failover failed."""
        self._lists_asked: dict[tuple[str, CommandId], str] = {}
        self._logs: dict[tuple[int, Name], list[int]] = {}
        self._topic_ids: dict[tuple[int, Name], bytes | None] = {}
        self._topic_czxids: dict[tuple[int, Name], int] = {}
        self._always = [one(self.known, self._report) for one in self.always]
        self._recovery: list[Recovery] = []
        for one in self._always:
            if isinstance(one, AcknowledgedRecordsKept):
                one.record_at = self._record_at
        self.processes: Processes
        self._delivered: ControllerKnowledge | None = None
        # Facts, each with the invariants that need it.
        self._sent = self._methods_for("sent")
        self._noticed = self._methods_for("noticed")
        self._decided = self._methods_for("decided")
        self._list_changed = self._methods_for("list_changed")
        self._list_read = self._methods_for("list_read")
        self._handled = self._methods_for("handled")
        self._applied = self._methods_for("applied")
        self._leads = self._methods_for("leads")
        self._replica_deleted = self._methods_for("replica_deleted")
        self._truncated = self._methods_for("truncated")
        self._lost = self._methods_for("lost")
        self._acknowledged = self._methods_for("acknowledged")
        self._consumed = self._methods_for("consumed")
        self._controller_writes = self._methods_for("controller_writes")
        self._requests = RequestFacts(self.known, self._methods_for, self._has_role)

    def _methods_for(self, fact: str) -> list[Any]:
        base = getattr(Invariant, fact)
        return [getattr(one, fact) for one in self._always if getattr(type(one), fact) is not base]

    def _report(self, invariant: str, subject: str, text: str) -> None:
        if self.violation is None:
            self.violation = Violation(invariant, self._now(), subject, text)

    def _record_at(self, broker: int, name: Name, offset: int) -> int | None:
        log = self._logs.get((broker, name))
        return log[offset] if log is not None and offset < len(log) else None

    # The run

    def begins(self, cluster: Any) -> None:
        facts = ZooKeeperFacts(self.known, cluster.zookeeper.state, self._methods_for)
        self._follow(cluster, Processes(cluster, self.known), facts.on_commit)
        self.processes.inform_invariants()
        self._delivered = ControllerKnowledge(self.known, self.processes)
        self._delivered.inform_invariants()
        facts.term_begins = self._delivered.term_begins
        if any(
            one.configuration.unclean_leader_election_enable for one in cluster.scenario.controllers
        ):
            self.known.allows_unclean_by_default = True
        facts.load()
        self.also.begins(cluster)

    def _follow(
        self,
        cluster: "Cluster | NetworkedCluster",
        processes: Processes,
        on_commit: Callable[[str, Changes], None],
    ) -> None:
        """Begin to observe a cluster. `on_commit` takes the process and the changes of each
        transaction."""
        scheduler = cluster.scheduler
        self._now = lambda: scheduler.now_us
        self.processes = processes
        processes.logs = self._logs
        processes.topic_ids = self._topic_ids
        processes.topic_czxids = self._topic_czxids
        self._recovery = [one(self.known, self._report, processes) for one in self.recovery]
        before = cluster.zookeeper.on_transaction

        def on_transaction(transaction: Transaction) -> None:
            before(transaction)
            if self._controller_writes and transaction.changes:
                self._check_writer(transaction.process, transaction.changes[0][1])
            on_commit(transaction.process, transaction.changes)

        cluster.zookeeper.on_transaction = on_transaction
        if type(self.also).delivered is Observer.delivered:
            # Every second action is a delivery, and no invariant needs it.
            cluster.network.observe = None

    def _check_writer(self, process: str, path: str) -> None:
        term = self.processes.term_of(process)
        if term:
            for check in self._controller_writes:
                check(process, term, path)

    def stepped(self) -> None:
        self.also.stepped()
        if self._now() >= self._next_poll_us:
            self.poll()

    def quiet_begins(self) -> None:
        self._quiet_us = self._next_poll_us = self._now()
        self.also.quiet_begins()

    def poll(self) -> None:
        """Evaluate the invariants about recovery."""
        assert self._quiet_us is not None
        now = self._now()
        self._next_poll_us = now + _POLL_US
        since_us = self._quiet_us + _STARTS_US
        self.unmet, self._unchecked, self.is_settled = {}, [], False
        if self._failing and self.processes.active() in (None, *self._failing):
            # Kafka's controller repeats a failover that an unreadable znode lets fail (KB 6.2).
            self._unchecked += [one.NAME for one in self._recovery]
            return
        is_ours = self._follows_our_rules()
        for one in self._recovery:
            if one.ONLY_REFOLD and not is_ours:
                self._unchecked.append(one.NAME)
                continue
            missing = next(one.missing(), None)
            if missing is None:
                continue
            self.unmet[one.NAME] = ": ".join(missing)
            if now - since_us >= one.WITHIN_MS * MS:
                one.violated(
                    missing[0], f"{missing[1]}, {one.WITHIN_MS // 1000} s after the last fault"
                )
        self.is_settled = now >= since_us and not self.unmet and not self._unchecked

    def _follows_our_rules(self) -> bool:
        """Whether the cluster is that of an active refold, so that all of `recovery` must hold."""
        active = self.processes.active()
        return active is not None and not self.processes.is_kafka(active)

    @property
    def is_over(self) -> bool:
        """Whether the run need not continue."""
        return self.violation is not None or self.is_settled

    def not_checked(self) -> list[str]:
        """The invariants about recovery for which the run was too short, or whose controller
        followed Kafka's rules or failed by them."""
        if self._quiet_us is None:
            return [one.NAME for one in self._recovery]
        return [*self.unmet, *self._unchecked]

    def input_applied(self, one: "Input") -> None:
        self.also.input_applied(one)

    def delivered(self, delivery: "Delivery") -> None:
        self.also.delivered(delivery)

    # Controllers

    def run_started(self, process: str) -> None:
        self.also.run_started(process)

    def run_ended(self, process: str, reason: str) -> None:
        self._requests.run_ended(process)
        if self._delivered is not None:
            self._delivered.ends(process)
        for key in [one for one in self._lists_asked if one[0] == process]:
            del self._lists_asked[key]
        self._failing.pop(process, None)
        self.also.run_ended(process, reason)

    def folded(self, process: str, recorded: Recorded, issued: list[Issued]) -> None:
        self.also.folded(process, recorded, issued)
        event = recorded.event
        if self._delivered is not None:
            self._delivered.folded(process, recorded, issued)
        if isinstance(event, ApiRequest):
            self._requests.received(process, event)
        elif isinstance(event, WatchFired):
            if event.change == "children" and self._has_role(process):
                for check in self._list_changed:
                    check(process, event.path, recorded.seq)
        elif isinstance(event, ChildrenRead):
            path = self._lists_asked.pop((process, event.command), None)
            if path is not None and event.error in (OK, NO_NODE):
                for check in self._list_read:
                    check(process, path, event.children, event.command[0])
        for number, _, command, _ in issued:
            if isinstance(command, ReadChildren):
                self._lists_asked[process, number] = command.path
            elif isinstance(command, ApiResponse):
                self._requests.answered(process, command)
            elif isinstance(command, WriteZnodes):
                self._decide(process, command)
            elif isinstance(command, Notice):
                self._note(process, command.code)
                for check in self._noticed:
                    check(process, command.code, command.subject)
        if self._has_role(process) and self.processes.is_idle(process):
            for check in self._handled:
                check(process)
            if self._delivered is not None:
                self._delivered.handled(process)

    def _note(self, process: str, code: str) -> None:
        is_kafka = self.processes.is_kafka(process)
        if code == "elected" and is_kafka:
            self.known.had_kafka = True
        elif code == "failover_failed" and is_kafka:
            self._failing[process] = None
        elif code == "failover_done":
            self._failing.pop(process, None)
            if self._has_role(process):
                self.known.losses.controller_loaded()

    def _has_role(self, process: str) -> bool:
        """Whether a controller acts with the epoch that is in /controller_epoch."""
        return self.processes.term_of(process) == self.known.epoch

    def _decide(self, process: str, command: WriteZnodes) -> None:
        for one in command.operations:
            name = znodes.partition_of_state(one.path)
            if name is not None and isinstance(one, Create | SetData):
                version = one.version if isinstance(one, SetData) else 0
                state = parsed_state(one.path, one.data, version)
                if state is not None:
                    for check in self._decided:
                        check(process, name, state)

    def carried_out(self, process: str, issued: Issued) -> None:
        if isinstance(issued.command, _SENT):
            for check in self._sent:
                check(process, issued.command.controller_epoch, issued.command)
        self.also.carried_out(process, issued)

    def controller_acted(self, process: str, act: int, what: str) -> None:
        self.also.controller_acted(process, act, what)

    def crashes(self, process: str, what: str, when: str) -> None:
        self.also.crashes(process, what, when)

    # Brokers

    def started(self, process: str) -> None:
        self.processes.started(broker_named(process))

    def ended(self, process: str, cause: str) -> None:
        broker = broker_named(process)
        self.processes.ended(broker)
        if cause != "shutdown":
            self.known.losses.failed(broker)

    def log_directory_failed(self, process: str, partitions: Sequence[Name]) -> None:
        broker = broker_named(process)
        for name in partitions:
            self.processes.failed_logs[(broker, name)] = None
        # The records are there again after a restart.
        self.known.losses.failed(broker)

    def appended(
        self, process: str, partition: Name, offset: int, leader_epoch: int, records: Sequence[int]
    ) -> None:
        log = self._logs.setdefault((broker_named(process), partition), [])
        assert offset == len(log), f"{process} appends to {partition} at {offset}, not {len(log)}"
        log.extend(records)

    def truncated(self, process: str, partition: Name, end: int, cause: str) -> None:
        broker = broker_named(process)
        log = self._logs.get((broker, partition), [])
        removed = log[end:]
        del log[end:]
        if cause == "crash":
            self._lose(broker, partition, end, removed)
        else:
            replica = self._replica(broker, partition)
            for check in self._truncated:
                check(replica, end)

    def _lose(self, broker: int, name: Name, end: int, removed: Sequence[int]) -> None:
        self.known.losses.lost(broker, name, end, removed)
        replica = self._replica(broker, name)
        for check in self._lost:
            check(replica, end)

    def log_created(self, process: str, partition: Name, topic_id: bytes | None) -> None:
        broker = broker_named(process)
        self._logs[(broker, partition)] = []
        self._topic_ids[(broker, partition)] = topic_id
        topic = self.known.topics.get(partition[0])
        self._topic_czxids[(broker, partition)] = topic.czxid if topic is not None else 0
        self.processes.failed_logs.pop((broker, partition), None)
        self.known.stopped_while_failed.pop((broker, partition), None)

    def log_deleted(self, process: str, partition: Name) -> None:
        broker = broker_named(process)
        replica = self._replica(broker, partition)
        self._logs.pop((broker, partition), None)
        for check in self._replica_deleted:
            check(replica)

    def leader_changed(
        self, process: str, partition: Name, leader: int, leader_epoch: int, isr: Sequence[int]
    ) -> None:
        self.also.leader_changed(process, partition, leader, leader_epoch, isr)
        broker = broker_named(process)
        self.processes.leaderships[(broker, partition)] = leader, leader_epoch
        if leader == broker:
            self.known.losses.leadership_begun(partition, broker, leader_epoch)
            replica = self._replica(broker, partition)
            for check in self._leads:
                check(replica, leader_epoch)

    def replica_stopped(self, process: str, partition: Name) -> None:
        replica = broker_named(process), partition
        self.processes.leaderships.pop(replica, None)
        if replica in self.processes.failed_logs:
            self.known.stopped_while_failed[replica] = None

    def isr_proposed(
        self, process: str, partition: Name, leader_epoch: int, isr: Sequence[int]
    ) -> None:
        self.known.losses.isr_proposed(partition, tuple(isr))
        self.also.isr_proposed(process, partition, leader_epoch, isr)

    def isr_changed(
        self,
        process: str,
        partition: Name,
        leader_epoch: int,
        isr: Sequence[int],
        partition_epoch: int,
    ) -> None:
        self.also.isr_changed(process, partition, leader_epoch, isr, partition_epoch)

    def applied_control_request(
        self,
        process: str,
        request: BrokerRequest,
        error: int,
        partition_errors: Sequence[PartitionError],
    ) -> None:
        if error:
            return
        broker = broker_named(process)
        refused = frozenset(self._names(request, partition_errors)) if partition_errors else _NONE
        applied = AppliedRequest(broker, self.processes.run_of(broker), request, refused)
        for check in self._applied:
            check(applied)
        if isinstance(request, UpdateMetadataRequest):
            self.processes.update_metadata(broker, request)
        # A broker with a failed directory creates no replica that may have been in that directory.
        failed = [one for one in partition_errors if one[2] == KAFKA_STORAGE_ERROR]
        for name in self._names(request, failed):
            self.processes.failed_logs[broker, name] = None

    @staticmethod
    def _names(request: BrokerRequest, errors: Sequence[PartitionError]) -> Iterator[Name]:
        """The partitions with an error, whose topics may be named by id."""
        names: dict[str, str] = {}
        if isinstance(request, LeaderAndIsrRequest):
            names = {one.topic_id.hex(): one.topic for one in request.partitions if one.topic_id}
        for topic, number, _ in errors:
            yield names.get(topic, topic), number

    def _replica(self, broker: int, name: Name) -> TopicReplica:
        return TopicReplica(broker, name[0], self._topic_ids.get((broker, name)), name[1])

    # Clients

    def acknowledged(self, process: str, one: AcknowledgedRecord) -> None:
        if one.acks == -1:
            for check in self._acknowledged:
                check(one)

    def read(
        self, process: str, partition: Name, offset: int, leader_epoch: int, records: Sequence[int]
    ) -> None:
        for check in self._consumed:
            for place, record in enumerate(records, offset):
                check(process, partition, place, record, leader_epoch)


_NONE: Final[frozenset[Name]] = frozenset()
