"""Kafka's log lines about topic deletions (TopicDeletionManager, KB 8)."""

from collections.abc import Sequence

from controller.core import znodes
from controller.core.commands import Issued, Notice, ReadChildren
from controller.core.events import ChildrenRead
from controller.core.state import ControllerContext, Partition
from controller.core.state_machines import PartitionState, ReplicaState
from controller.core.triggers import TopicDeletion, Trigger
from replay.kafka_text.kafka_log import (
    CONTROLLER,
    DELETIONS,
    KafkaLog,
    LogObserver,
    ZooKeeperOutcome,
)
from replay.kafka_text.scala_text import mk_string, mutable_set
from replay.subjects import subject_of


class DeletionLines(LogObserver):
    """Logs which topics are queued, begun, waiting and deleted."""

    def __init__(self, log: KafkaLog) -> None:
        super().__init__(log)
        self._is_resuming = False
        self._waiting: dict[str, None] = {}

    def begins(self, trigger: Trigger) -> None:
        self._is_resuming = False
        self._waiting = {}

    def ends(self) -> None:
        self._log_waiting()

    def on_outcome(self, issued: Issued, outcome: ZooKeeperOutcome) -> None:
        match issued.command, outcome:
            case ReadChildren(path=znodes.DELETE_TOPICS), ChildrenRead(error=0, children=topics):
                if isinstance(self.log.trigger, TopicDeletion):
                    self._log_asked(topics)

    def issues(self, issued: Issued) -> None:
        match issued.command:
            case Notice(code="topic_deleted", subject=path):
                topic = subject_of(path).topic or path
                self.log.info(DELETIONS, f"Deletion of topic {topic} successfully completed")

    def moves_replicas(
        self, broker: int, partitions: Sequence[Partition], target: ReplicaState, rule: str
    ) -> None:
        if target is ReplicaState.DELETION_INELIGIBLE:
            self._waiting |= dict.fromkeys(one.topic.name for one in partitions)

    def moves_partitions(
        self, partitions: Sequence[Partition], target: PartitionState, rule: str, strategy: str
    ) -> None:
        if target is PartitionState.ONLINE:
            self._log_waiting()

    def resumes_deletions(self) -> None:
        self._log_waiting()
        self._is_resuming = True
        context = self.log.context
        if context.queued_for_deletion:
            queued = mk_string(context.queued_for_deletion)
            self.log.info(DELETIONS, f"Handling deletion for topics {queued}")
        for name in context.queued_for_deletion:
            if _begins(context, name):
                self.log.info(DELETIONS, f"Deletion of topic {name} (re)started")

    def _log_asked(self, topics: list[str]) -> None:
        known = {*self.log.context.known_topics()}
        unknown = [one for one in topics if one not in known]
        if unknown:
            text = f"Ignoring request to delete non-existing topics {mk_string(unknown)}"
            self.log.warn(CONTROLLER, text)
        asked = [one for one in topics if one in known]
        if not self.log.controller.configuration.delete_topic_enable:
            text = f"Removing {mutable_set(asked)} since delete topic is disabled"
            self.log.info(CONTROLLER, text)
        elif asked:
            self.log.info(CONTROLLER, f"Starting topic deletion for topics {mk_string(asked)}")
            self._log_moving(asked)

    def _log_moving(self, asked: list[str]) -> None:
        """Kafka logs only the topics that were queued before."""
        context = self.log.context
        moving = {one.topic.name for one in context.reassigning}
        for name in asked:
            if name in moving and name in context.queued_for_deletion:
                self._log_halted([name], "topic reassignment in progress")

    def _log_waiting(self) -> None:
        """Log the topics whose replicas cannot be deleted: offline, or their deletion failed."""
        if self._waiting:
            reason = "offline replicas" if self._is_resuming else "replica deletion failure"
            self._log_halted(self._waiting, reason)
        self._waiting = {}

    def _log_halted(self, topics: Sequence[str] | dict[str, None], reason: str) -> None:
        self.log.info(DELETIONS, f"Halted deletion of topics {mk_string(topics)} due to {reason}")


def _begins(context: ControllerContext, name: str) -> bool:
    """Whether a topic's replicas are about to be deleted (isTopicEligibleForDeletion)."""
    if name in context.ineligible_for_deletion:
        return False
    states = []
    if name in context.topics:
        states = [one.replica_states.get(broker) for broker, one in context.replicas_of(name)]
    is_under_way = ReplicaState.DELETION_STARTED in states
    is_done = all(one is ReplicaState.DELETION_SUCCESSFUL for one in states)
    return not is_under_way and not is_done
