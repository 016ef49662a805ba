"""Histories for tests of invariants: short calls that state facts."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from controller.core.commands import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from controller.core.configuration import Configuration
from controller.core.values import Assignment, LeaderAndIsr
from controller.core.znodes import Name, broker_config_path, topic_config_path
from replay.explore.invariants.cluster_view import CachedPartition
from replay.explore.invariants.invariant import (
    AppliedRequest,
    AssignmentWrite,
    Invariant,
    StateWrite,
    TopicReplica,
)
from replay.explore.invariants.known_cluster import KnownCluster, KnownTopic, without_controller
from replay.explore.invariants.recovery import Recovery
from replay.world.processes import is_controller, is_refold

NAME = ("orders", 0)
ID = bytes(range(16))


class History:
    """One invariant with a topic "orders" of one partition, and the violations that it reports."""

    def __init__(
        self, invariant: type[Invariant], *, replicas: tuple[int, ...] = (1, 2, 3)
    ) -> None:
        self.known = KnownCluster()
        self.reported: list[str] = []
        self.topic = KnownTopic("orders", 10)
        self.topic.id = ID
        self.topic.assignments[0] = Assignment(replicas)
        self.known.topics["orders"] = self.topic
        self.known.brokers = {1: 101, 2: 102, 3: 103}
        self.known.epoch = 1
        self.invariant: Any = invariant(self.known, self._report)

    def _report(self, invariant: str, subject: str, text: str) -> None:
        self.reported.append(f"{invariant}: {subject}: {text}")

    def state(
        self,
        leader: int,
        epoch: int,
        isr: Sequence[int],
        *,
        controller_epoch: int = 1,
        process: str = "refold 100",
        restarted: tuple[int, ...] = (),
    ) -> None:
        """A process writes the state of the partition."""
        before = self.known.states.get(NAME)
        version = before.partition_epoch + 1 if before is not None else 0
        after = LeaderAndIsr(leader, epoch, tuple(isr), version, controller_epoch)
        self.known.states[NAME] = after
        self.known.past_states.setdefault(NAME, {})[without_controller(after)] = None
        if before is not None and leader >= 0 and leader not in before.isr:
            self.known.losses.unclean(NAME, epoch)
        by_controller = before is None or before.leader_epoch != epoch
        kept = self.topic.assignments[0].target
        self.known.losses.isr_stored(NAME, epoch, after.isr, kept, by_controller=by_controller)
        by_refold = is_refold(process)
        write = StateWrite(NAME, self.topic, before, after, process, by_refold, restarted)
        self.invariant.state_written(write)

    def assign(
        self,
        replicas: Sequence[int],
        adding: Sequence[int] = (),
        removing: Sequence[int] = (),
        process: str = "refold 100",
    ) -> None:
        """A process writes the assignment of the partition."""
        before = self.topic.assignments[0]
        after = Assignment(tuple(replicas), tuple(adding), tuple(removing))
        self.topic.assignments[0] = after
        self.topic.assigned(0, before, by_controller=is_controller(process))
        write = AssignmentWrite(NAME, self.topic, before, after, process)
        self.invariant.assignment_written(write)

    def admin(self, path: str, data: bytes | None, process: str = "admin") -> None:
        """A process writes a znode under /admin, or deletes it, in a transaction."""
        if data is None:
            del self.known.admin[path]
        else:
            self.known.admin[path] = data
        self.invariant.admin_written(path, data, process)
        self.invariant.transaction_ended()


def replica(broker: int) -> TopicReplica:
    """The partition's replica on a broker."""
    return TopicReplica(broker, "orders", ID, 0)


def leader_and_isr(
    broker: int, leader: int, leader_epoch: int, *, controller_epoch: int = 1, version: int = 0
) -> AppliedRequest:
    """A broker accepted LeaderAndIsr."""
    state = LeaderAndIsr(leader, leader_epoch, (1, 2), version, controller_epoch)
    partition = LeaderAndIsrPartition("orders", ID, 0, state, Assignment((1, 2)), False)
    request = LeaderAndIsrRequest(broker, 101, 7, 100, controller_epoch, (partition,), ())
    return AppliedRequest(broker, 1, request, frozenset())


def update_metadata(
    broker: int, leader: int, leader_epoch: int, version: int = 0, state_epoch: int = 1
) -> AppliedRequest:
    """A broker accepted UpdateMetadata with controller epoch 1. `state_epoch`: the controller epoch
    in the partition's state."""
    state = LeaderAndIsr(leader, leader_epoch, (1, 2), version, state_epoch)
    partition = UpdateMetadataPartition("orders", ID, 0, state, (1, 2), ())
    request = UpdateMetadataRequest(broker, 101, 8, 100, 1, (partition,), ())
    return AppliedRequest(broker, 1, request, frozenset())


def stop_replica(broker: int, *, delete: bool) -> StopReplicaRequest:
    """A request to stop the partition's replica."""
    partition = StopReplicaPartition("orders", 0, 1, delete)
    return StopReplicaRequest(broker, 101, 4, 100, 1, (partition,))


def configured(known: KnownCluster, topic: str | None, key: str, *values: str | None) -> None:
    """A setting of a topic has had these values, the present one last; None: of all brokers."""
    path = topic_config_path(topic) if topic is not None else broker_config_path(None)
    contents: list[dict[str, str]] = [{} if one is None else {key: one} for one in values]
    known.configs[path] = [*known.configs.get(path, [{}]), *contents]


class View:
    """The processes that an invariant about recovery sees; healthy at first."""

    def __init__(self, known: KnownCluster) -> None:
        self.known = known
        self.controller: str | None = "refold 100"
        self.leaderships: dict[tuple[int, Name], tuple[int, int]] = {}
        self.caches: dict[int, dict[Name, CachedPartition]] = {}
        self.live_in_caches: dict[int, tuple[int, ...]] = {}
        self.dead: dict[int, None] = {}
        self.on_disk = [1, 2, 3]
        self.busy: list[str] = []
        self.epochs = dict(known.brokers)
        self.active_configuration = Configuration(
            broker_id=100, leader_imbalance_check_interval_seconds=4
        )

    def busy_controllers(self) -> Sequence[str]:
        return self.busy

    def broker_epoch(self, broker: int) -> int:
        return self.epochs[broker]

    def runs_refold(self) -> bool:
        return True

    def active(self) -> str | None:
        return self.controller

    def configuration(self) -> Configuration | None:
        return self.active_configuration

    def is_kafka(self, process: str) -> bool:
        return process.startswith("stock")

    def running_brokers(self) -> Sequence[int]:
        return [one for one in (1, 2, 3) if one not in self.dead]

    def is_live(self, broker: int, name: Name) -> bool:
        return broker not in self.dead and broker in self.known.brokers

    def leadership(self, broker: int, name: Name) -> tuple[int, int] | None:
        return self.leaderships.get((broker, name))

    def metadata(self, broker: int) -> Mapping[Name, CachedPartition]:
        return self.caches.get(broker, {})

    def live_in_metadata(self, broker: int) -> Collection[int]:
        return self.live_in_caches.get(broker, (*self.known.brokers, 100))

    def can_move(self, name: Name, replicas: Sequence[int]) -> bool:
        return all(self.is_live(one, name) for one in replicas)

    def replicas(self) -> Iterator[tuple[int, Name, bytes | None]]:
        return ((broker, NAME, ID) for broker in self.on_disk)


class RecoveryHistory:
    """One invariant about recovery in a healthy cluster of one partition."""

    def __init__(self, invariant: type[Recovery]) -> None:
        history = History(Invariant)
        self.known = history.known
        self.topic = history.topic
        self.view = View(self.known)
        self.known.states[NAME] = LeaderAndIsr(1, 5, (1, 2, 3), 0, 1)
        self.known.controller = 100
        for broker in (1, 2, 3):
            self.view.leaderships[broker, NAME] = (1, 5)
            self.view.caches[broker] = {NAME: CachedPartition(1, 5, (1, 2, 3), (1, 2, 3))}
        self._invariant = invariant(self.known, lambda *_: None, self.view)

    def delete_topic(self, topic: KnownTopic) -> None:
        """A topic's znode is deleted."""
        self._invariant.topic_deleted(topic)

    def missing(self) -> list[tuple[str, str]]:
        """The facts that the invariant lacks now."""
        return list(self._invariant.missing())
