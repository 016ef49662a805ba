"""Invariants that must hold again within a stated time after the last fault: the cluster recovers.

They are polled from the end of the faults on, until they hold once.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from controller.core import znodes
from controller.core.configuration import Configuration
from controller.core.values import Assignment, LeaderAndIsr
from controller.core.znodes import Name, ReplicaDeletion
from replay.explore.invariants.cluster_view import CachedPartition, SimulationView
from replay.explore.invariants.invariant import Invariant, Report
from replay.explore.invariants.known_cluster import KnownCluster, KnownTopic
from replay.names import broker_name, partition_name
from replay.parsed_znodes import is_request
from replay.subjects import subject_of

_OFTEN_SECONDS: Final = 20
Missing = tuple[str, str]
"""A subject and what it lacks."""


class Recovery(Invariant):
    """Must hold at the latest `WITHIN_MS` after the last fault has ended.

    `ONLY_REFOLD`: not checked while a controller with Kafka's rules has the role, because of known
    defects of Kafka (docs/races.md).
    """

    WITHIN_MS: ClassVar[int]
    ONLY_REFOLD: ClassVar[bool] = False

    def __init__(self, known: KnownCluster, report: Report, view: SimulationView) -> None:
        super().__init__(known, report)
        self.view = view

    def missing(self) -> Iterator[Missing]:
        """Yield each subject for which the invariant does not hold yet, with the reason."""
        raise NotImplementedError

    def _replicas_live(self, name: Name) -> bool:
        assignment = self.known.assignment(name)
        if assignment is None:
            return False
        return all(self.view.is_live(broker, name) for broker in assignment.replicas)


class ControllerActive(Recovery):
    """Source: races R3, R6, R14, R15."""

    NAME: ClassVar[str] = "controller-active"
    STATEMENT: ClassVar[str] = (
        "If a refold runs, /controller exists, and its owner acts with the epoch that is in "
        "/controller_epoch. If only stock controllers run, there may be none: one that is deposed "
        "during its failover waits until another one creates /controller."
    )
    WITHIN_MS: ClassVar[int] = 45_000

    def missing(self) -> Iterator[Missing]:
        if self.view.runs_refold() and self.view.active() is None:
            holder = self.known.controller
            text = "does not exist" if holder is None else f"has the broker id {holder}"
            yield znodes.CONTROLLER, f"{text}, and no process acts with epoch {self.known.epoch}"


class ProceduresEnded(Recovery):
    """Source: race R14."""

    NAME: ClassVar[str] = "procedures-ended"
    STATEMENT: ClassVar[str] = "Every controller that runs has handled all its events."
    WITHIN_MS: ClassVar[int] = 45_000

    def missing(self) -> Iterator[Missing]:
        for process in self.view.busy_controllers():
            yield process, "still handles an event"


class RequestsAnswered(Recovery):
    """Source: KB 11; a client or broker that gets no response waits for its request timeout."""

    NAME: ClassVar[str] = "requests-answered"
    STATEMENT: ClassVar[str] = (
        "Every controller that runs has answered all requests that it has received."
    )
    WITHIN_MS: ClassVar[int] = 45_000

    def missing(self) -> Iterator[Missing]:
        for (process, number), asked in self.known.open_requests.items():
            yield process, f"has not answered request {number}, {type(asked).__name__}"


class PartitionsLed(Recovery):
    """Source: races R9, R24, R29."""

    NAME: ClassVar[str] = "partitions-led"
    STATEMENT: ClassVar[str] = (
        "A partition with a live replica in its ISR has a leader, which is live and leads in the "
        "leader epoch that is in ZooKeeper. Any live replica is enough if the setting of its "
        "topic allows unclean elections, or if it has never had one and the default allows them. "
        "This does not hold for a replica that a reassignment adds, nor while "
        "/admin/reassign_cancel exists."
    )
    WITHIN_MS: ClassVar[int] = 60_000
    ONLY_REFOLD: ClassVar[bool] = True

    def missing(self) -> Iterator[Missing]:
        known, view = self.known, self.view
        for name, _ in known.recoverable():
            state = known.states.get(name)
            if state is None:
                if self._replicas_live(name):
                    yield partition_name(*name), "has no state znode"
                continue
            if not any(view.is_live(one, name) for one in self._eligible(name, state)):
                continue
            leads = view.leadership(state.leader, name)
            if leads != (state.leader, state.leader_epoch):
                what = f"broker {state.leader} does not lead in leader epoch"
                yield partition_name(*name), f"{what} {state.leader_epoch}: {leads}"
            elif not view.is_live(state.leader, name):
                yield partition_name(*name), f"the leader, broker {state.leader}, is not live"

    def _eligible(self, name: Name, state: LeaderAndIsr) -> Sequence[int]:
        """The replicas of which one must lead. Kafka's controller may leave members in the ISR that
        it has removed from the assignment. The start of a reassignment triggers no election: a
        replica that it adds to an offline partition may wait for another trigger (KB 4.2)."""
        known = self.known
        assignment = known.assignment(name) or Assignment()
        replicas, adding = assignment.replicas, assignment.adding
        active = self.view.configuration()
        is_elected_uncleanly = active is not None and known.elects_uncleanly(name[0], active)
        if is_elected_uncleanly and not known.is_cancelling():
            return [one for one in replicas if one in state.isr or one not in adding]
        return [one for one in state.isr if one in replicas]


def _rebalances_often(configuration: Configuration) -> bool:
    """Whether a rebalance ends within the time in which a cluster must recover."""
    seconds = configuration.leader_imbalance_check_interval_seconds
    return configuration.auto_leader_rebalance_enable and seconds <= _OFTEN_SECONDS


class PreferredLeaders(Recovery):
    """Source: KB 10. Checked only if the controller rebalances often enough."""

    NAME: ClassVar[str] = "preferred-leaders"
    STATEMENT: ClassVar[str] = (
        "If the controller rebalances leaders automatically, the imbalance of each broker is "
        "within leader.imbalance.per.broker.percentage. The imbalance is the share of its "
        "preferred partitions that a broker does not lead, although it is live and in their ISRs. "
        "Partitions whose assignment a tool has changed in the topic's znode do not count: the "
        "controller continues with the one that it knows."
    )
    WITHIN_MS: ClassVar[int] = 60_000
    ONLY_REFOLD: ClassVar[bool] = True

    def missing(self) -> Iterator[Missing]:
        known, view = self.known, self.view
        active = view.configuration()
        if active is None or not _rebalances_often(active) or known.is_cancelling():
            return
        percentage = active.leader_imbalance_per_broker_percentage
        preferring: dict[int, int] = {}
        wrong: dict[int, list[Name]] = {}
        for name, assignment in known.recoverable():
            state = known.states.get(name)
            if state is None or not assignment.replicas or known.is_assigned_by_tool(name):
                continue
            preferred = assignment.replicas[0]
            preferring[preferred] = preferring.get(preferred, 0) + 1
            is_able = preferred in state.isr and view.is_live(preferred, name)
            if state.leader != preferred and is_able and not assignment.is_being_reassigned:
                wrong.setdefault(preferred, []).append(name)
        for broker, names in wrong.items():
            if len(names) * 100 > percentage * preferring[broker]:
                yield partition_name(*names[0]), f"is not led by its preferred replica {broker}"


class IsrsFull(Recovery):
    """Source: races R1, R2, R4 and R9 (a broker is left out of the cluster); KB 14.2.3."""

    NAME: ClassVar[str] = "isrs-full"
    STATEMENT: ClassVar[str] = (
        "Every broker that runs is registered and knows its broker epoch. Every replica whose "
        "broker runs is in the ISR of its partition. Replicas that a reassignment adds while "
        "/admin/reassign_cancel exists do not count: they wait. A broker whose registration a "
        "tool has deleted does not count: it does not register again. Without kip-236.enable, the "
        "controller remembers no deletions, so that a replica with the log of an earlier topic "
        "does not count. Nor does a partition whose assignment a tool has changed since a "
        "controller wrote it."
    )
    WITHIN_MS: ClassVar[int] = 60_000
    ONLY_REFOLD: ClassVar[bool] = True

    def missing(self) -> Iterator[Missing]:
        known, view = self.known, self.view
        for broker in view.running_brokers():
            if broker in known.unregistered_by_tools:
                continue
            if broker not in known.brokers:
                yield broker_name(broker), "runs and is not registered"
            elif view.broker_epoch(broker) != known.brokers[broker]:
                has = f"is registered with broker epoch {known.brokers[broker]}"
                yield broker_name(broker), f"{has}, and takes it for {view.broker_epoch(broker)}"
        for name, assignment in known.recoverable():
            state = known.states.get(name)
            if state is None or known.is_assigned_by_tool(name):
                continue
            members = [one for one in state.isr if one in assignment.replicas]
            if not any(view.is_live(one, name) for one in members):
                # No replica can lead, so none can be added.
                continue
            absent = [
                one
                for one in assignment.replicas
                if one not in state.isr
                and view.is_live(one, name)
                and not known.waits(one, name)
                and (known.has_kip_236() or not known.has_earlier_log(one, name))
            ]
            if absent:
                isr = list(state.isr)
                yield partition_name(*name), f"brokers {absent} are not in the ISR {isr}"


class ReassignmentsEnded(Recovery):
    """Source: races R19, R22, R23; KIP-236."""

    NAME: ClassVar[str] = "reassignments-ended"
    STATEMENT: ClassVar[str] = (
        "Every reassignment whose replicas are all live has ended, unless no member of the ISR is "
        "one of them: Kafka's controller may leave such an ISR. While /admin/reassign_cancel "
        "exists, only those that it cancels: the others wait."
    )
    WITHIN_MS: ClassVar[int] = 60_000
    ONLY_REFOLD: ClassVar[bool] = True

    def missing(self) -> Iterator[Missing]:
        known = self.known
        for name, assignment in known.recoverable():
            if not assignment.is_being_reassigned or not self._replicas_live(name):
                continue
            state = known.states.get(name)
            if state is not None and not any(one in assignment.replicas for one in state.isr):
                continue
            if not known.is_cancelling() or known.is_legacy_move(name):
                text = f"to {list(assignment.target)} has not ended"
                yield partition_name(*name), f"the reassignment {text}"
        if not known.is_cancelling():
            yield from self._waiting_entries()

    def _waiting_entries(self) -> Iterator[Missing]:
        extra = (znodes.REASSIGN_PARTITIONS_EXTRA,) if self.known.has_kip_236() else ()
        for path in (znodes.REASSIGN_PARTITIONS, *extra):
            for name in self.known.entries_of(path):
                if self.view.can_move(name, self.known.entries_of(path)[name]):
                    yield partition_name(*name), f"its entry is still in {path}"


class DeletionsEnded(Recovery):
    """Source: race R23; KB 8."""

    NAME: ClassVar[str] = "deletions-ended"
    STATEMENT: ClassVar[str] = "Every deletion of a topic whose replicas are all live has ended."
    WITHIN_MS: ClassVar[int] = 60_000
    ONLY_REFOLD: ClassVar[bool] = True

    def missing(self) -> Iterator[Missing]:
        prefix = f"{znodes.DELETE_TOPICS}/"
        for path in self.known.admin:
            if not path.startswith(prefix):
                continue
            topic = self.known.topics.get(path.removeprefix(prefix))
            numbers = topic.assignments if topic is not None else {}
            if topic is None or all(self._replicas_live((topic.name, one)) for one in numbers):
                yield path, "still exists"


class AdminZnodesGone(Recovery):
    """Source: KB 1.2, KIP-236."""

    NAME: ClassVar[str] = "admin-znodes-gone"
    STATEMENT: ClassVar[str] = (
        "No znode of a finished act is left under /admin: elections, entries and requests of "
        "reassignments, records of reassignments that have ended, confirmed deletions of "
        "replicas. A record that an operator has created by hand may stay until the next "
        "failover. A deletion of a replica that a reassignment adds again may stay while "
        "/admin/reassign_cancel exists. One of an assigned replica may stay while its topic waits "
        "for deletion."
    )
    WITHIN_MS: ClassVar[int] = 60_000
    ONLY_REFOLD: ClassVar[bool] = True

    def missing(self) -> Iterator[Missing]:
        known = self.known
        for path in known.admin:
            if path == znodes.PREFERRED_ELECTION:
                yield path, "still exists"
                continue
            subject = subject_of(path)
            if subject.kind == "reassignment" and subject.topic and subject.partition is not None:
                assignment = known.assignment((subject.topic, subject.partition))
                has_ended = assignment is None or not assignment.is_being_reassigned
                if has_ended and path not in known.made_by_clients:
                    yield path, "is the record of a reassignment that has ended"
            elif is_request(path):
                is_followed = known.has_kip_236() and not known.is_cancelling()
                if is_followed and self._is_possible(path):
                    yield path, "still exists"
            elif path.startswith(f"{znodes.REPLICA_DELETIONS}/"):
                deletion = known.deletion_of(path)
                if deletion is not None and self._can_confirm(deletion):
                    yield path, f"still exists, although broker {deletion.broker} is registered"

    def _can_confirm(self, deletion: ReplicaDeletion) -> bool:
        """Whether a broker can delete the replicas: not while its log directory has failed, while
        it waits whether it is to have the replica again, or if the topic's deletion does it."""
        broker, known = deletion.broker, self.known
        return all(
            self.view.is_live(broker, name)
            and not known.waits(broker, name)
            and not known.is_deleted_with_topic(broker, name)
            for name in deletion.partitions
        )

    def _is_possible(self, path: str) -> bool:
        """Whether no replica that a request names is down: otherwise it may have to wait."""
        return all(
            self.view.can_move(name, replicas)
            for name, replicas in self.known.request_of(path).items()
        )


class StraysDeleted(Recovery):
    """Source: KB 7.7.1, docs/kip-236-design.md#deleted-replicas; Kafka's controller forgets
    deletions that it has not seen confirmed."""

    NAME: ClassVar[str] = "strays-deleted"
    STATEMENT: ClassVar[str] = (
        "No live broker has a replica that is not assigned to it. Exceptions: a controller with "
        "Kafka's rules has had the role; a tool has changed the assignment in the topic's znode; "
        "the replica's log directory had failed when the broker confirmed the deletion."
    )
    WITHIN_MS: ClassVar[int] = 60_000
    ONLY_REFOLD: ClassVar[bool] = True

    def missing(self) -> Iterator[Missing]:
        known = self.known
        active = self.view.active()
        if known.had_kafka or active is None or not known.restores_order(active):
            return
        for broker, name, topic_id in self.view.replicas():
            if known.is_beyond_recovery(name[0]) or name in known.changed_by_tools:
                continue
            if not self.view.is_live(broker, name) or (broker, name) in known.stopped_while_failed:
                continue
            topic, assignment = known.topics.get(name[0]), known.assignment(name)
            is_other = topic is None or (None not in (topic.id, topic_id) and topic.id != topic_id)
            if is_other or assignment is None or broker not in assignment.replicas:
                yield (
                    broker_name(broker),
                    f"has a replica of {partition_name(*name)}, which is not its",
                )


class MetadataCurrent(Recovery):
    """Source: race R25 (KAFKA-9212): consumers stall on an old leader epoch. KB 11.2, KB 3.12: a
    change of the ISR is sent to all brokers, too."""

    NAME: ClassVar[str] = "metadata-current"
    STATEMENT: ClassVar[str] = (
        "Every registered broker has the leader, the leader epoch, the ISR and the replicas of "
        "every partition that are in ZooKeeper, unless a tool has changed the assignment there. "
        "The broker knows which brokers are registered, and no partition of a topic that was "
        "deleted since its registration."
    )
    WITHIN_MS: ClassVar[int] = 60_000
    ONLY_REFOLD: ClassVar[bool] = True

    def __init__(self, known: KnownCluster, report: Report, view: SimulationView) -> None:
        super().__init__(known, report, view)
        self._deleted: dict[str, dict[int, int]] = {}
        """The registered brokers, with their broker epochs, when a topic was deleted. Others may
        keep its metadata: Kafka's controller sends a deletion only once."""

    def topic_deleted(self, topic: KnownTopic) -> None:
        if self.known.is_queued(topic.name):
            self._deleted[topic.name] = dict(self.known.brokers)

    def missing(self) -> Iterator[Missing]:
        known, view = self.known, self.view
        for broker in view.running_brokers():
            if broker not in known.brokers:
                continue
            yield from self._wrong_brokers(broker)
            metadata = view.metadata(broker)
            for name in metadata:
                epochs = self._deleted.get(name[0], {})
                if name[0] not in known.topics and epochs.get(broker) == known.brokers[broker]:
                    yield broker_name(broker), f"{partition_name(*name)}: its topic does not exist"
            for name, state in known.states.items():
                if name[0] not in known.topics or known.is_beyond_recovery(name[0]):
                    continue
                assignment = known.assignment(name)
                if assignment is None or known.is_assigned_by_tool(name):
                    continue
                expected = CachedPartition(
                    state.leader, state.leader_epoch, state.isr, assignment.replicas
                )
                found = metadata.get(name)
                if found != expected:
                    yield (
                        broker_name(broker),
                        f"{partition_name(*name)}: has {found}, not {expected}",
                    )

    def _wrong_brokers(self, broker: int) -> Iterator[Missing]:
        """The controller is a live broker, too, but need not be registered."""
        controller = {self.known.controller}
        found = set(self.view.live_in_metadata(broker)) - controller
        expected = set(self.known.brokers) - controller
        if found != expected:
            text = f"knows the live brokers {sorted(found)}, not {sorted(expected)}"
            yield broker_name(broker), text
