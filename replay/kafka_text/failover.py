"""Kafka's log lines while a broker becomes controller (KafkaController.onControllerFailover)."""

from collections.abc import Callable, Sequence
from enum import IntEnum, auto

from controller.core import znodes
from controller.core.commands import (
    BrokerRequest,
    Issued,
    Notice,
    ReadChildren,
    ReadStats,
    WriteZnodes,
)
from controller.core.errors import ZnodeError
from controller.core.operations import Create, SetData, WriteOperation
from controller.core.state import Partition
from controller.core.state_machines import PartitionState, ReplicaState
from controller.core.triggers import Trigger
from replay.kafka_text.kafka_log import (
    CONTROLLER,
    DELETIONS,
    PARTITIONS,
    REPLICAS,
    KafkaLog,
    LogObserver,
)
from replay.kafka_text.scala_text import (
    immutable_map,
    immutable_set,
    mk_string,
    mutable_map,
    mutable_set,
)


class _Stage(IntEnum):
    """The stages of a failover, in order."""

    HANDLERS = auto()
    LOG_DIR_EVENTS = auto()
    ISR_CHANGES = auto()
    CONTEXT = auto()
    BROKERS = auto()
    CLUSTER = auto()
    METADATA = auto()
    REPLICAS = auto()
    OFFLINE_REPLICAS = auto()
    PARTITIONS = auto()
    READY = auto()


class FailoverLines(LogObserver):
    """Logs the stages, each when the procedure has reached it or a later one."""

    def __init__(self, log: KafkaLog) -> None:
        super().__init__(log)
        self._next = _Stage.HANDLERS.value
        self._log_stage: dict[int, Callable[[], None]] = {
            _Stage.HANDLERS: self._line("Registering handlers"),
            _Stage.LOG_DIR_EVENTS: self._line("Deleting log dir event notifications"),
            _Stage.ISR_CHANGES: self._line("Deleting isr change notifications"),
            _Stage.CONTEXT: self._line("Initializing controller context"),
            _Stage.BROKERS: self._log_brokers,
            _Stage.CLUSTER: self._log_cluster,
            _Stage.METADATA: self._log_deletions,
            _Stage.REPLICAS: self._log_replicas,
            _Stage.OFFLINE_REPLICAS: self._log_offline_replicas,
            _Stage.PARTITIONS: self._log_partitions,
            _Stage.READY: self._log_ready,
        }

    def begins(self, trigger: Trigger) -> None:
        self.log.is_failing_over = False

    def issues(self, issued: Issued) -> None:
        match issued.command:
            case Notice(code="elected"):
                self.log.is_failing_over = True
                self._next = _Stage.HANDLERS
            case _ if not self.log.is_failing_over:
                pass
            case Notice(code="failover_done"):
                self.log.is_failing_over = False
                self.log.info(CONTROLLER, "Starting the controller scheduler")
            case Notice(code="failover_failed"):
                self.log.is_failing_over = False
            case WriteZnodes(operations=[operation]) if operation.path == znodes.FEATURE:
                self._log_feature(operation)
            case ReadStats(paths=(znodes.PREFERRED_ELECTION, znodes.REASSIGN_PARTITIONS)):
                self._reach(_Stage.HANDLERS)
            case ReadStats(paths=(znodes.REASSIGN_PARTITIONS,)):
                self._reach(_Stage.READY)
            case ReadChildren(path=path):
                self._reach(_BY_LIST.get(path, 0))

    def sends(self, requests: Sequence[BrokerRequest], rule: str) -> None:
        self._reach(_Stage.METADATA)

    def moves_replicas(
        self, broker: int, partitions: Sequence[Partition], target: ReplicaState, rule: str
    ) -> None:
        is_offline = target is ReplicaState.OFFLINE
        self._reach(_Stage.OFFLINE_REPLICAS if is_offline else _Stage.REPLICAS)

    def moves_partitions(
        self, partitions: Sequence[Partition], target: PartitionState, rule: str, strategy: str
    ) -> None:
        self._reach(_Stage.PARTITIONS)

    def _reach(self, stage: int) -> None:
        """Log this stage, and earlier stages that were not logged."""
        while self.log.is_failing_over and self._next <= stage:
            self._log_stage[self._next]()
            self._next += 1

    def _line(self, text: str) -> Callable[[], None]:
        return lambda: self.log.info(CONTROLLER, text)

    def _log_feature(self, operation: WriteOperation) -> None:
        verb = "Creating" if isinstance(operation, Create) else "Updating"
        if not isinstance(operation, (Create, SetData)):
            return
        try:
            features = znodes.read_features(operation.data)
        except ZnodeError:
            return
        status = "Enabled" if features.enabled else "Disabled"
        levels = immutable_map({name: str(level) for name, level in features.levels.items()})
        self.log.info(
            CONTROLLER,
            f"{verb} FeatureZNode at path: {znodes.FEATURE} with contents: "
            f"FeatureZNode({features.version},{status},{levels})",
        )

    def _log_brokers(self) -> None:
        self.log.info(CONTROLLER, f"Initialized broker epochs cache: {broker_epochs(self.log)}")

    def _log_cluster(self) -> None:
        context = self.log.context
        info = self.log.info
        live = immutable_set(sorted(context.live_brokers))
        info(CONTROLLER, f"Currently active brokers in the cluster: {live}")
        stopping = mutable_set(sorted(context.shutting_down))
        info(CONTROLLER, f"Currently shutting brokers in the cluster: {stopping}")
        topics = mutable_set(sorted(context.known_topics()))
        info(CONTROLLER, f"Current list of topics in the cluster: {topics}")
        info(CONTROLLER, "Fetching topic deletions in progress")

    def _log_deletions(self) -> None:
        context = self.log.context
        queued, waiting = sorted(context.queued_for_deletion), sorted(_waiting_topics(self.log))
        self.log.info(CONTROLLER, f"List of topics to be deleted: {mk_string(queued)}")
        self.log.info(CONTROLLER, f"List of topics ineligible for deletion: {mk_string(waiting)}")
        self.log.info(CONTROLLER, "Initializing topic deletion manager")
        self.log.info(
            DELETIONS,
            f"Initializing manager with initial deletions: {immutable_set(queued)}, "
            f"initial ineligible deletions: {mutable_set(waiting)}",
        )
        self.log.info(CONTROLLER, "Sending update metadata request")

    def _log_replicas(self) -> None:
        self.log.info(REPLICAS, "Initializing replica state")
        self.log.info(REPLICAS, "Triggering online replica state changes")

    def _log_offline_replicas(self) -> None:
        self.log.info(REPLICAS, "Triggering offline replica state changes")

    def _log_partitions(self) -> None:
        self.log.info(PARTITIONS, "Initializing partition state")
        self.log.info(PARTITIONS, "Triggering online partition state changes")

    def _log_ready(self) -> None:
        epoch = self.log.context.epoch
        self.log.info(CONTROLLER, f"Ready to serve as the new controller with epoch {epoch}")


_BY_LIST = {
    znodes.LOG_DIR_EVENTS: _Stage.LOG_DIR_EVENTS,
    znodes.ISR_CHANGES: _Stage.ISR_CHANGES,
    znodes.BROKER_IDS: _Stage.CONTEXT,
    znodes.TOPICS: _Stage.BROKERS,
    znodes.DELETE_TOPICS: _Stage.CLUSTER,
}
"""The stage that begins with listing the children of a znode."""


def broker_epochs(log: KafkaLog) -> str:
    """The epochs of all registered brokers."""
    brokers = log.context.brokers
    return mutable_map({str(id): str(brokers[id].epoch) for id in sorted(brokers)})


def _waiting_topics(log: KafkaLog) -> set[str]:
    """Topics with offline replicas or a reassignment, which cannot be deleted now."""
    context = log.context
    offline = {
        one.topic.name
        for one in context.partitions()
        if not all(context.is_online(broker, one) for broker in one.replicas)
    }
    return offline | {one.topic.name for one in context.reassigning}
