"""The state of a cluster of the 0.8 design in ZooKeeper, parsed, for the invariants.

`KnownCluster08` has what `KnownCluster` has for the controller. The state of a partition is made of
its ISR and leader znodes, the state of a topic of the replicas of its partitions.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from controller.core.errors import ZnodeError
from controller.core.values import NO_LEADER, Assignment, LeaderAndIsr
from controller.core.znodes.schema import parse_natural
from controller.kafka_0_8 import znodes
from controller.kafka_0_8.state import NO_EPOCH, Name
from controller.kafka_0_8.znodes import StateChange
from replay.explore.invariants.invariant import AssignmentWrite, StateWrite
from replay.explore.invariants.known_cluster import KnownCluster, KnownTopic
from replay.explore.kafka_0_8.losses import Losses08
from replay.names import is_broker
from replay.world.processes import ADMIN
from replay.world.zookeeper import Changes, ZooKeeper
from replay.znode_tree.tree import Znode

_NO_BROKER_EPOCH: Final = 0


class KnownCluster08(KnownCluster):
    """The znodes of the design.

    - `moves`: the new replicas of each reassigned partition, which existed when they were stored
    - `queues`: the requests in the state path of each broker, None for an unreadable one; no entry:
      there is no such path
    - `discarded`: the replicas whose close-replica request was deleted by remove-brokers
    - `first_epochs`: what /brokers/epoch was when a topic was created. An earlier topic of the same
      name had this leader epoch or a lower one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.losses: Losses08 = Losses08()
        self.leader_epoch = NO_EPOCH
        self.moves: dict[Name, tuple[int, ...]] = {}
        self.queues: dict[int, dict[str, StateChange | None]] = {}
        self.discarded: dict[tuple[int, Name], None] = {}
        self.first_epochs: dict[str, int] = {}

    @staticmethod
    def is_refold(process: str) -> bool:
        """Whether a process writes assignments: the leaders do."""
        return is_broker(process)

    def is_of_earlier_topic(self, name: Name, leader_epoch: int) -> bool:
        """Whether a leader epoch is one of an earlier topic of the same name, or there is no such
        topic any more."""
        return leader_epoch <= self.first_epochs.get(name[0], leader_epoch)


class ZooKeeperFacts08:
    """Keeps `KnownCluster08` up to date. `of` returns the methods of the invariants that need a
    fact."""

    def __init__(
        self, known: KnownCluster08, state: ZooKeeper, of: Callable[[str], list[Any]]
    ) -> None:
        self._known = known
        self._state = state
        self._leaders: dict[Name, znodes.LeaderZnode] = {}
        self._isrs: dict[Name, tuple[znodes.Isr, int]] = {}
        """Each ISR with the version of its znode."""
        self._state_written = of("state_written")
        self._assignment_written = of("assignment_written")
        self._topic_deleted = of("topic_deleted")

    def load(self) -> None:
        """The state at the start of the run, which is not checked."""
        self.on_commit("", [("created", path) for path in self._state.dump()])

    def on_commit(self, process: str, changes: Changes) -> None:
        """A transaction was committed: its assignments first, because it may change an ISR, too."""
        partitions: dict[Name, None] = {}
        assignments: list[AssignmentWrite] = []
        for change, path in changes:
            node = None if change == "deleted" else self._state.find(path)
            name = self._znode_changed(process, path, node)
            if name is not None:
                partitions[name] = None
            elif node is not None and (moved := znodes.partition_of_replicas(path)) is not None:
                assignments += self._note_assignment(process, path, moved, node)
        writes = [self._write(process, name) for name in partitions]
        if process:
            for write in assignments:
                for check in self._assignment_written:
                    check(write)
            for state in writes:
                if state is not None:
                    for check in self._state_written:
                        check(state)

    def _znode_changed(self, process: str, path: str, node: Znode | None) -> Name | None:
        """Note a changed znode. Returns the partition whose leader or ISR it is."""
        if (of_partition := znodes.partition_znode(path)) is not None:
            if of_partition.kind in ("leader", "ISR"):
                return self._state_changed(path, node, of_partition.name, of_partition.kind)
            if of_partition.kind == "reassigned":
                self._move_changed(path, of_partition.name, node)
        elif (broker := znodes.broker_of(path)) is not None:
            if path.startswith(f"{znodes.STATE}/"):
                self._queue_changed(process, path, broker, node)
            else:
                self._registration_changed(broker, node)
        elif (topic := znodes.topic_of(path)) is not None:
            self._topic_changed(topic, node)
        elif path == znodes.EPOCH and node is not None:
            self._known.leader_epoch = parse_natural(node.data.decode()) or NO_EPOCH
        return None

    def _topic_changed(self, name: str, node: Znode | None) -> None:
        known = self._known
        if node is not None:
            if name not in known.topics:
                known.topics[name] = KnownTopic(name, node.czxid)
                known.first_epochs[name] = known.leader_epoch
            return
        topic = known.topics.get(name)
        if topic is None:
            return
        for check in self._topic_deleted:
            check(topic)
        del known.topics[name]
        known.first_epochs[name] = known.leader_epoch
        for number in topic.assignments:
            known.losses.forget((name, number))

    def _state_changed(self, path: str, node: Znode | None, name: Name, part: str) -> Name:
        with suppress(ZnodeError):
            if part == "leader" and node is not None:
                self._leaders[name] = znodes.read_leader(path, node.data)
            elif part == "leader":
                self._leaders.pop(name, None)
            elif node is not None:
                self._isrs[name] = znodes.read_isr(path, node.data), node.version
            else:
                self._isrs.pop(name, None)
        return name

    def _registration_changed(self, broker: int, node: Znode | None) -> None:
        if node is None:
            self._known.brokers.pop(broker, None)
        else:
            self._known.brokers[broker] = _NO_BROKER_EPOCH

    def _queue_changed(self, process: str, path: str, broker: int, node: Znode | None) -> None:
        known = self._known
        queues = known.queues
        if path == znodes.state_path(broker):
            if node is None:
                queues.pop(broker, None)
            else:
                queues.setdefault(broker, {})
        elif node is not None:
            self._note_state_change(path, broker, node)
        else:
            removed = queues[broker].pop(path)
            is_close = removed is not None and removed.request == "close-replica"
            if process == ADMIN and removed is not None and is_close:
                known.discarded[broker, (removed.topic, removed.partition)] = None

    def _note_state_change(self, path: str, broker: int, node: Znode) -> None:
        known = self._known
        known.queues[broker][path] = None
        with suppress(ZnodeError):
            change = known.queues[broker][path] = znodes.read_state_change(path, node.data)
            known.discarded.pop((broker, (change.topic, change.partition)), None)

    def _move_changed(self, path: str, name: Name, node: Znode | None) -> None:
        self._known.moves.pop(name, None)
        if node is not None and self._known.assignment(name) is not None:
            with suppress(ZnodeError):
                self._known.moves[name] = znodes.read_brokers(path, node.data)

    def _note_assignment(
        self, process: str, path: str, name: Name, node: Znode
    ) -> Sequence[AssignmentWrite]:
        topic = self._known.topics.get(name[0])
        if topic is None:
            return ()
        before = topic.assignments.get(name[1])
        after = Assignment(znodes.read_brokers(path, node.data))
        topic.assignments[name[1]] = after
        return [AssignmentWrite(name, topic, before, after, process)]

    def _write(self, process: str, name: Name) -> StateWrite | None:
        """The leader or the ISR of a partition changed, or both. None: it has no ISR any more."""
        known = self._known
        if name not in self._isrs:
            known.states.pop(name, None)
            return None
        isr, version = self._isrs[name]
        leader = self._leaders.get(name, znodes.LeaderZnode(NO_LEADER, isr.epoch))
        before = known.states.get(name)
        after = LeaderAndIsr(leader.broker, leader.epoch, isr.brokers, version, 0)
        known.states[name] = after
        known.losses.isr_written(name, isr.brokers)
        topic = known.topics.get(name[0])
        return StateWrite(name, topic, before, after, process, False, ())
