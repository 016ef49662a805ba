"""The processes of the simulation, as the invariants see them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from controller.core import znodes
from controller.core.commands import UpdateMetadataRequest
from controller.core.configuration import Configuration
from controller.core.values import LEADER_DURING_DELETE
from controller.core.znodes import Name
from replay.explore.invariants.cluster_view import CachedPartition
from replay.explore.invariants.known_cluster import KnownCluster, LeaderCandidates

if TYPE_CHECKING:
    from replay.world.cluster import Cluster
    from replay.world.kafka_0_8.networked.cluster import NetworkedCluster


class Processes:
    """The processes of the simulation, as the invariants about recovery see them."""

    def __init__(self, cluster: "Cluster | NetworkedCluster", known: KnownCluster) -> None:
        self._cluster = cluster
        self._known = known
        self._runs: dict[int, int] = {}
        self._running: dict[int, None] = {}
        self._metadata: dict[int, dict[Name, CachedPartition]] = {}
        self._live: dict[int, tuple[int, ...]] = {}
        self.logs: Mapping[tuple[int, Name], object] = {}
        self.topic_ids: Mapping[tuple[int, Name], bytes | None] = {}
        self.topic_czxids: Mapping[tuple[int, Name], int] = {}
        self.leaderships: dict[tuple[int, Name], tuple[int, int]] = {}
        self.failed_logs: dict[tuple[int, Name], None] = {}

    def inform_invariants(self) -> None:
        """Let the invariants ask what processes know, by `KnownCluster`."""
        known = self._known
        known.children_known_to = self.children_known_to
        known.deletes_topics = self.deletes_topics
        known.restores_order = self.restores_order
        known.keeps_partitions = self.keeps_partitions
        known.is_kafka = self.is_kafka
        known.has_topic_ids = self.has_topic_ids
        known.knows_topic_id = self.knows_topic_id
        known.has_earlier_log = self.has_earlier_log
        known.has_log = self.has_log
        known.active_process = self.active
        known.has_role = self.has_role
        known.has_kip_236 = self.has_kip_236

    # Facts

    def started(self, broker: int) -> int:
        """A broker's process started; returns the number of its run."""
        self._running[broker] = None
        self._runs[broker] = self._runs.get(broker, 0) + 1
        return self._runs[broker]

    def run_of(self, broker: int) -> int:
        """How often a broker's process has started."""
        return self._runs.get(broker, 0)

    def ended(self, broker: int) -> None:
        """Forget what a broker knew and led, because its process ended."""
        self._running.pop(broker, None)
        self._metadata.pop(broker, None)
        self._live.pop(broker, None)
        for key in [one for one in self.leaderships if one[0] == broker]:
            del self.leaderships[key]
        for key in [one for one in self.failed_logs if one[0] == broker]:
            del self.failed_logs[key]

    def update_metadata(self, broker: int, request: UpdateMetadataRequest) -> None:
        """A broker applied an UpdateMetadata request."""
        self._live[broker] = tuple(one.id for one in request.live_brokers)
        cache = self._metadata.setdefault(broker, {})
        for one in request.partitions:
            state = one.leadership
            if state.leader == LEADER_DURING_DELETE:
                cache.pop((one.topic, one.partition), None)
            else:
                cache[one.topic, one.partition] = CachedPartition(
                    state.leader, state.leader_epoch, state.isr, one.replicas
                )

    # Controllers

    def live_brokers_of(self, process: str) -> Collection[int] | None:
        """The brokers that a controller knows to be live and not shutting down."""
        controller = self._cluster.controllers.get(process)
        if controller is None or controller.run is None:
            return None
        return controller.run.fold.controller.context.live_brokers

    def broker_epoch_known_to(self, process: str, broker: int) -> int | None:
        """The broker epoch of a broker as a controller knows it; None: it knows no such broker."""
        controller = self._cluster.controllers.get(process)
        if controller is None or controller.run is None:
            return None
        found = controller.run.fold.controller.context.brokers.get(broker)
        return found.epoch if found is not None else None

    def children_known_to(self, process: str, path: str) -> Collection[str] | None:
        """The children of /brokers/ids or /brokers/topics that a controller knows; None: it keeps
        no such list."""
        controller = self._cluster.controllers.get(process)
        if controller is None or controller.run is None:
            return None
        context = controller.run.fold.controller.context
        if path == znodes.BROKER_IDS:
            return {str(one) for one in context.brokers}
        return context.topics if path == znodes.TOPICS else None

    def candidates_of(self, process: str, name: Name) -> LeaderCandidates | None:
        """Between which replicas a controller chooses the leader of a partition now."""
        controller = self._cluster.controllers.get(process)
        if controller is None or controller.run is None:
            return None
        context = controller.run.fold.controller.context
        partition = context.find(*name)
        if partition is None:
            return None
        assignments = [partition.assignment]
        stored = self._known.assignment(name)
        if stored is not None:
            assignments.append(stored)
        orders = [order for one in assignments for order in (one.replicas, one.target, one.origin)]
        record = context.reassignments.get(partition)
        if record is not None:
            orders.append(record.original_replicas)
        online = tuple(one for one in context.brokers if context.is_online(one, partition))
        return LeaderCandidates(tuple(orders), online, online)

    def configuration(self) -> Configuration | None:
        """The configuration of the controller that is `active`."""
        active = self.active()
        return self._cluster.controllers[active].settings.configuration if active else None

    def is_standby(self, process: str) -> bool:
        """Whether a controller follows the cluster before its term."""
        controller = self._cluster.controllers.get(process)
        return controller is not None and controller.settings.configuration.standby

    def is_kafka(self, process: str) -> bool:
        """Whether a process is a controller with Kafka's rules."""
        controller = self._cluster.controllers.get(process)
        return controller is not None and controller.settings.configuration.rules == "kafka"

    def cancel_known_to(self, process: str) -> int:
        """The czxid of the /admin/reassign_cancel that a controller knows; 0: it knows none."""
        controller = self._cluster.controllers.get(process)
        if controller is None or controller.run is None:
            return 0
        return controller.run.fold.controller.context.cancel

    def knows_topic_id(self, process: str, name: str) -> bool:
        """Whether a controller knows the id of a topic, or the process is no controller."""
        controller = self._cluster.controllers.get(process)
        if controller is None or controller.run is None:
            return True
        topic = controller.run.fold.controller.context.topics.get(name)
        return topic is not None and topic.is_known and topic.id is not None

    def has_topic_ids(self, process: str) -> bool:
        """Whether the protocol version of a controller has topic ids."""
        controller = self._cluster.controllers.get(process)
        return controller is None or controller.settings.configuration.protocol.has_topic_ids

    def restores_order(self, process: str) -> bool:
        """Whether a controller restores the order of cancelled reassignments."""
        controller = self._cluster.controllers.get(process)
        return controller is None or controller.settings.configuration.has_kip_236

    def has_kip_236(self) -> bool:
        """Whether the active controller follows the znodes of KIP-236; without one, whether any
        controller does."""
        active = self.active()
        specs = self._cluster.controllers
        followed = [specs[active]] if active is not None else list(specs.values())
        return any(one.settings.configuration.has_kip_236 for one in followed)

    def keeps_partitions(self, process: str) -> bool:
        """Whether a process is a controller that keeps the partitions that a tool adds."""
        return process in self._cluster.controllers and not self.is_kafka(process)

    def deletes_topics(self, process: str) -> bool:
        """Whether the configuration of a controller allows deletions of topics."""
        controller = self._cluster.controllers.get(process)
        return controller is None or controller.settings.configuration.delete_topic_enable

    def runs_refold(self) -> bool:
        """Whether a process runs that can become controller and has not Kafka's rules."""
        controllers = self._cluster.controllers
        return any(controllers[one].run and not self.is_kafka(one) for one in controllers)

    def term_of(self, process: str) -> int:
        """The controller epoch with which a process acts; 0: it is no active controller."""
        controller = self._cluster.controllers.get(process)
        run = controller.run if controller is not None else None
        return run.fold.term if run is not None else 0

    def is_idle(self, process: str) -> bool:
        """Whether a controller has handled all its events."""
        run = self._cluster.controllers[process].run
        return run is not None and run.fold.is_idle

    def busy_controllers(self) -> Sequence[str]:
        """The controllers that run a procedure, or have queued events."""
        return [
            process
            for process, one in self._cluster.controllers.items()
            if one.run is not None and not one.run.fold.is_idle
        ]

    def active(self) -> str | None:
        """The controller that acts with the epoch in /controller_epoch; None: none."""
        for process, one in self._cluster.controllers.items():
            is_loaded = one.run is not None and one.run.fold.controller.context.is_loaded
            if is_loaded and self.has_role(process):
                return process
        return None

    def has_role(self, process: str) -> bool:
        """Whether a controller has /controller and the epoch in /controller_epoch, which a deposed
        one may not know yet."""
        found = self._cluster.controllers.get(process)
        if found is None or found.run is None:
            return False
        is_owner = found.settings.configuration.broker_id == self._known.controller
        return is_owner and found.run.fold.term == self._known.epoch

    # Brokers

    def running_brokers(self) -> Sequence[int]:
        """The brokers whose process runs."""
        return list(self._running)

    def broker_epoch(self, broker: int) -> int:
        """The broker epoch that a running broker has been sent."""
        return self._cluster.brokers[broker].broker_epoch

    def is_live(self, broker: int, name: Name) -> bool:
        """Whether a broker is registered, runs, and its log directory of the partition works."""
        return (
            broker in self._running
            and broker in self._known.brokers
            and (broker, name) not in self.failed_logs
        )

    def has_earlier_log(self, broker: int, name: Name) -> bool:
        """Whether the log of a replica is that of an earlier topic of the same name."""
        topic, replica = self._known.topics.get(name[0]), (broker, name)
        if topic is None or replica not in self.logs:
            return False
        log_id = self.topic_ids.get(replica)
        if topic.id is not None and log_id is not None:
            return topic.id != log_id
        return self.topic_czxids[replica] != topic.czxid

    def has_log(self, broker: int, name: Name) -> bool:
        """Whether a broker has a log of a partition, not of an earlier topic of the same name."""
        return (broker, name) in self.logs and not self.has_earlier_log(broker, name)

    def leadership(self, broker: int, name: Name) -> tuple[int, int] | None:
        """The leader and leader epoch that a replica has applied; None: none."""
        return self.leaderships.get((broker, name))

    def metadata(self, broker: int) -> Mapping[Name, CachedPartition]:
        """The metadata cache of a broker."""
        return self._metadata.get(broker, {})

    def live_in_metadata(self, broker: int) -> Collection[int]:
        """The live brokers in the metadata cache of a broker."""
        return self._live.get(broker, ())

    def replicas(self) -> Iterator[tuple[int, Name, bytes | None]]:
        """The replicas on the disks of all brokers, each with the topic id that it has."""
        for broker, name in self.logs:
            yield broker, name, self.topic_ids.get((broker, name))

    def can_move(self, name: Name, replicas: Sequence[int]) -> bool:
        """Whether a partition exists and these replicas and its current ones are live."""
        assignment = self._known.assignment(name)
        if assignment is None:
            return True
        if self._known.is_beyond_recovery(name[0]):
            return False
        return all(self.is_live(one, name) for one in (*assignment.replicas, *replicas))
