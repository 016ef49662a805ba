"""Invariants of replicas: the ISR, ineligible replicas, and deleted files."""

from typing import ClassVar

from controller.core.commands import BrokerRequest, StopReplicaRequest
from controller.core.values import LeaderAndIsr
from controller.core.znodes import Name
from replay.explore.invariants.invariant import (
    AssignmentWrite,
    Invariant,
    Report,
    StateWrite,
    TopicReplica,
)
from replay.explore.invariants.known_cluster import KnownCluster, KnownTopic
from replay.names import broker_named, partition_name
from replay.world.processes import is_controller


class IsrWithinAssignment(Invariant):
    """Source: race R18 (KAFKA-1097).

    With Kafka's rules, a replica leaves the assignment before the ISR (KB 7.8.1). Until its leader
    knows, the leader may add it: with ZooKeeper's version before 2.7, later with the partition
    epoch, which the new assignment does not change.
    """

    NAME: ClassVar[str] = "isr-within-assignment"
    STATEMENT: ClassVar[str] = (
        "Every member of a partition's ISR is one of its replicas. A replica that a tool has "
        "removed from the topic's znode may stay in the ISR or join it, until a controller writes "
        "the assignment. If a controller with Kafka's rules has removed a replica from the "
        "assignment, the replica may stay in the ISR. The leader and that controller may still "
        "add it."
    )

    def __init__(self, known: KnownCluster, report: Report) -> None:
        super().__init__(known, report)
        self._removed: dict[Name, tuple[int, ...]] = {}
        """The replicas that controllers with Kafka's rules have removed from an assignment."""
        self._overwritten: dict[Name, tuple[int, ...]] = {}
        """The replicas that tools have removed since a controller wrote the assignment: a tool may
        write what it read before a reassignment."""

    def state_written(self, write: StateWrite) -> None:
        before = write.before.isr if write.before is not None else ()
        before += self._overwritten.get(write.name, ())
        if not write.is_controller or self.known.is_kafka(write.process):
            before += self._removed.get(write.name, ())
        self._check(write.name, tuple(one for one in write.after.isr if one not in before))

    def assignment_written(self, write: AssignmentWrite) -> None:
        self._remember(write)
        state = self.known.states.get(write.name)
        known, process = self.known, write.process
        if state is not None and known.is_refold(process) and not known.is_kafka(process):
            left = self._removed[write.name]
            self._check(write.name, tuple(one for one in state.isr if one not in left))

    def topic_deleted(self, topic: KnownTopic) -> None:
        for number in topic.assignments:
            self._removed.pop((topic.name, number), None)
            self._overwritten.pop((topic.name, number), None)

    def _remember(self, write: AssignmentWrite) -> None:
        known, before = self.known, write.before.replicas if write.before is not None else ()
        removed = self._removed.get(write.name, ())
        if known.is_kafka(write.process):
            removed += before
        overwritten: tuple[int, ...] = ()
        if not is_controller(write.process):
            overwritten = self._overwritten.get(write.name, ()) + before
        for replicas, those in ((removed, self._removed), (overwritten, self._overwritten)):
            left = dict.fromkeys(replicas)
            those[write.name] = tuple(one for one in left if one not in write.after.replicas)

    def _check(self, name: Name, isr: tuple[int, ...]) -> None:
        assignment = self.known.assignment(name)
        if assignment is None:
            return
        outside = [one for one in isr if one not in assignment.replicas]
        if outside:
            self.violated(
                partition_name(*name),
                f"the ISR has {outside}, the replicas are {list(assignment.replicas)}",
            )


class NoIneligibleInIsr(Invariant):
    """Source: race R27 (KAFKA-14140), KB 11.2 row h.

    The ISR route of brokers before 2.7 has no such check in Kafka, and is left out. A broker that
    has restarted since the proposal may be added (KAFKA-14617): with ZooKeeper, an AlterPartition
    request has no broker epochs of the members (KB 11.2 step 3).
    """

    NAME: ClassVar[str] = "no-ineligible-in-isr"
    STATEMENT: ClassVar[str] = (
        "A controller adds no replica to an ISR whose broker is, as far as that controller knows, "
        "not registered or in controlled shutdown. It knows of each controlled shutdown that it "
        "has granted since its election, as long as the broker has not registered again."
    )

    def decided(self, process: str, name: Name, state: LeaderAndIsr) -> None:
        before = self.known.states.get(name)
        live = self.known.live_brokers_of(process)
        if before is not None and before.leader_epoch == state.leader_epoch:
            # A request of the leader: no change of brokers is being handled.
            live = self.known.latest_live_of(process)
        # ZooKeeper refuses a write with another version than the present one.
        version = before.partition_epoch if before is not None else 0
        if live is None or version != state.partition_epoch:
            return
        members = before.isr if before is not None else ()
        for broker in state.isr:
            leaves = self.known.has_granted_shutdown(process, broker)
            if broker not in members and (broker not in live or leaves):
                self.violated(
                    partition_name(*name),
                    f"{process} adds broker {broker} to the ISR, which is not registered or in "
                    "controlled shutdown",
                )


class FailedLeaveIsr(Invariant):
    """Source: KB 9.2, 9.3 and 5.2 (removeReplicasFromIsr), KB 9.5, KB 3.3.5, KB 12.2.1.

    A broker that registers again is treated as failed and started. The last member stays in an ISR.
    A broker in controlled shutdown also stays if it leads and no other member can. Leaders before
    2.7 write the ISR themselves, and may add a replica that the controller has just removed. The
    writes of a controller that does not know yet that it was deposed are rejected.
    """

    NAME: ClassVar[str] = "failed-leave-isr"
    STATEMENT: ClassVar[str] = (
        "When the controller has handled that a broker failed, registered again or shuts down, "
        "the broker has left all ISRs. With a failover, this holds for all brokers that are not "
        "registered. Exceptions: the last member of an ISR; a broker in controlled shutdown that "
        "leads, if no other member of the ISR can; a member that a leader before 2.7 has added "
        "itself since the controller's election; a controller with Kafka's rules that has logged "
        "that its states no longer change (batch_not_empty)."
    )

    def __init__(self, known: KnownCluster, report: Report) -> None:
        super().__init__(known, report)
        self._waiting: dict[str, dict[tuple[Name, int], None]] = {}
        """For each controller the members of ISRs that are to leave."""
        self._added: dict[Name, tuple[int, ...]] = {}
        """The members that leaders have added themselves since a controller was elected."""
        self._stuck: dict[str, None] = {}
        """The controllers with Kafka's rules whose states no longer change (KB 12.2.1)."""

    def noticed(self, process: str, code: str, subject: str) -> None:
        if code in ("broker_failed", "broker_bounced"):
            broker = broker_named(subject)
            self._waiting.setdefault(process, {}).update(self._memberships(broker))
        elif code == "batch_not_empty":
            self._stuck[process] = None
        elif code == "elected":
            self._waiting.pop(process, None)
            self._stuck.pop(process, None)
            self._added.clear()
        elif code == "failover_done":
            # A controlled shutdown may have begun since.
            live = self.known.live_brokers_of(process) or ()
            known = (*live, *self.known.shutting_down_of(process))
            members = {one for state in self.known.states.values() for one in state.isr}
            for broker in sorted(members.difference(known)):
                for name, _ in self._memberships(broker):
                    self._report_isr_member(process, name, broker, "is not registered")

    def state_written(self, write: StateWrite) -> None:
        self._forget_departed(write.name, write.after.isr)
        added, before, after = self._added.get(write.name, ()), write.before, write.after.isr
        if not write.is_controller and before is not None:
            added += tuple(one for one in after if one not in before.isr)
        self._added[write.name] = tuple(one for one in added if one in after)

    def topic_deleted(self, topic: KnownTopic) -> None:
        for number in topic.assignments:
            self._forget_departed((topic.name, number), ())

    def _forget_departed(self, name: Name, isr: tuple[int, ...]) -> None:
        """The state znode of a partition has this ISR, or is gone: failed brokers that the ISR does
        not contain have left it. The last member of an ISR may stay."""
        for waiting in self._waiting.values():
            for one in [one for one in waiting if one[0] == name]:
                if one[1] not in isr or len(isr) == 1:
                    del waiting[one]

    def handled(self, process: str) -> None:
        for name, broker in self._waiting.pop(process, ()):
            if (name, broker) in self._memberships(broker):
                self._report_isr_member(process, name, broker, "has failed or registered again")

    def shutdown_granted(self, process: str, broker: int, broker_epoch: int) -> None:
        live = self.known.surely_live_of(process)
        for name, _ in self._memberships(broker):
            state, choice = self.known.states[name], self.known.candidates_of(process, name)
            if choice is None or live is None:
                continue
            added = self._added.get(name, ())
            others = [
                one
                for one in state.isr
                if one != broker
                and one in live
                and one in choice.surely_online
                and one not in added
            ]
            if state.leader != broker or others:
                self._report_isr_member(process, name, broker, "shuts down")

    def _memberships(self, broker: int) -> dict[tuple[Name, int], None]:
        """The ISRs that have a broker and other members."""
        found: dict[tuple[Name, int], None] = {}
        for name, state in self.known.states.items():
            assignment = self.known.assignment(name)
            if broker not in state.isr or len(state.isr) == 1 or self.known.is_queued(name[0]):
                continue
            if broker in self._added.get(name, ()):
                continue
            if assignment is not None and broker in assignment.replicas:
                found[name, broker] = None
        return found

    def _report_isr_member(self, process: str, name: Name, broker: int, what: str) -> None:
        if process in self._stuck or not self.known.has_role(process):
            return
        self.violated(
            partition_name(*name),
            f"broker {broker} {what}, which {process} has handled; the ISR still is "
            f"{list(self.known.states[name].isr)}",
        )


class IsrAsRequested(Invariant):
    """Source: KB 11.2, rows c, d and f; KIP-497."""

    NAME: ClassVar[str] = "isr-as-requested"
    STATEMENT: ClassVar[str] = (
        "If a controller writes another ISR without a new leader epoch, the leader has requested "
        "that ISR. The request had the leader epoch and partition epoch that the state had "
        "before."
    )

    def __init__(self, known: KnownCluster, report: Report) -> None:
        super().__init__(known, report)
        self._requested: dict[tuple[Name, int, int, int, tuple[int, ...]], None] = {}

    def isr_requested(self, name: Name, state: LeaderAndIsr) -> None:
        self._requested[_key(name, state, state.isr)] = None

    def state_written(self, write: StateWrite) -> None:
        before, after = write.before, write.after
        if before is None or not write.is_controller or before.isr == after.isr:
            return
        is_same = (before.leader, before.leader_epoch) == (after.leader, after.leader_epoch)
        if is_same and _key(write.name, before, after.isr) not in self._requested:
            self.violated(
                partition_name(*write.name),
                f"{write.process} stored the ISR {list(after.isr)}; broker {after.leader} has not "
                f"requested it with leader epoch {before.leader_epoch} and partition epoch "
                f"{before.partition_epoch}",
            )


def _key(
    name: Name, state: LeaderAndIsr, isr: tuple[int, ...]
) -> tuple[Name, int, int, int, tuple[int, ...]]:
    return name, state.leader, state.leader_epoch, state.partition_epoch, isr


class AssignedReplicasKept(Invariant):
    """Source: races R9 and R12, KIP-236 step 4. Kafka's controller removes a replica that leads
    when a reassignment is replaced or cancelled (race R24)."""

    NAME: ClassVar[str] = "assigned-replicas-kept"
    STATEMENT: ClassVar[str] = (
        "The controller requests no deletion of a replica that is assigned, and no broker deletes "
        "a replica that is in the ISR. Exceptions: the topic is being deleted; the partition has "
        "no state yet; the replica's log is that of an earlier topic of the same name. Replicas "
        "that a reassignment adds may be deleted, because it may be rolled back. A controller "
        "with Kafka's rules may request the deletion of a replica in the ISR that is no longer "
        "assigned. Not checked while the topic's znode has an assignment that a tool has changed: "
        "the controller writes its own again."
    )

    def __init__(self, known: KnownCluster, report: Report) -> None:
        super().__init__(known, report)
        self._by_kafka: dict[tuple[int, Name], None] = {}
        """The deletions that a controller with Kafka's rules has requested last."""

    def sent(self, process: str, epoch: int, request: BrokerRequest) -> None:
        if not isinstance(request, StopReplicaRequest) or epoch != self.known.epoch:
            return
        for one in request.partitions:
            name = one.topic, one.partition
            if not one.delete or self.known.is_queued(one.topic):
                continue
            self._by_kafka.pop((request.broker, name), None)
            if self.known.is_kafka(process):
                self._by_kafka[request.broker, name] = None
            known = self.known
            if name not in known.states:
                # No controller has begun with the partition, so no broker has a replica of it.
                continue
            if known.is_assigned_by_tool(name) or known.has_earlier_log(request.broker, name):
                continue
            assignment = self.known.assignment(name)
            # Until a reassignment has ended, the topic's znode has the replicas being removed.
            if assignment is not None and request.broker in assignment.target:
                if request.broker in assignment.adding and assignment.adding:
                    continue
                self.violated(
                    partition_name(*name),
                    f"{process} asks broker {request.broker} to delete its replica; the replicas "
                    f"are {list(assignment.replicas)}",
                )

    def replica_deleted(self, replica: TopicReplica) -> None:
        topic = self.known.topics.get(replica.topic)
        state = self.known.states.get(replica.name)
        if topic is None or state is None or self.known.is_queued(replica.topic):
            return
        if None not in (topic.id, replica.topic_id) and topic.id != replica.topic_id:
            return
        if replica.broker in state.isr and (replica.broker, replica.name) not in self._by_kafka:
            self.violated(
                partition_name(*replica.name),
                f"broker {replica.broker} deleted its replica, which is in the ISR "
                f"{list(state.isr)}",
            )
