"""Kafka's log lines about new and deleted topics and partitions (processTopicChange, KB 3.5)."""

from collections.abc import Iterable, Sequence

from controller.core import znodes
from controller.core.commands import Issued, ReadChildren, ReadZnodes
from controller.core.events import ChildrenRead, ZnodesRead
from controller.core.operations import OK
from controller.core.state import Partition
from controller.core.state_machines import PartitionState
from controller.core.triggers import HandBack, PartitionModifications, Trigger
from replay.kafka_text.kafka_log import CONTROLLER, KafkaLog, LogObserver, ZooKeeperOutcome
from replay.kafka_text.scala_text import (
    assignment,
    filtered_map,
    immutable_map,
    immutable_set,
    mk_string,
    mutable_set,
)
from replay.parsed_znodes import parsed_topic


class TopicLines(LogObserver):
    """Logs a change of the list of topics, or of one topic, when it has been read."""

    def __init__(self, log: KafkaLog) -> None:
        super().__init__(log)
        self._changed: tuple[list[str], list[str]] | None = None
        self._refused: list[int] | None = None

    def begins(self, trigger: Trigger) -> None:
        self._changed = self._refused = None

    def on_outcome(self, issued: Issued, outcome: ZooKeeperOutcome) -> None:
        match issued.command, outcome:
            case ReadChildren(path=znodes.TOPICS, watch=True), ChildrenRead(error=0) as read:
                if not self.log.is_failing_over:
                    before, now = dict.fromkeys(self.log.context.known_topics()), {*read.children}
                    new = [one for one in read.children if one not in before]
                    self._changed = (new, [one for one in before if one not in now])
            case ReadZnodes(paths=[_]), ZnodesRead(errors=[error], data=[data]) if error == OK:
                self._apply_refused(data)

    def issues(self, issued: Issued) -> None:
        trigger = self.log.trigger
        if isinstance(issued.command, ReadChildren) and self._refused and self._is_queued(trigger):
            assert isinstance(trigger, PartitionModifications)
            self.log.warn(
                CONTROLLER,
                f"Skipping adding partitions {mk_string(self._refused)} for topic {trigger.topic} "
                "since it is currently being deleted",
            )
            text = f"Restoring the partition replica assignment for topic {trigger.topic}"
            self.log.info(CONTROLLER, text)
            self._refused = None

    def moves_partitions(
        self, partitions: Sequence[Partition], target: PartitionState, rule: str, strategy: str
    ) -> None:
        if target is not PartitionState.NEW:
            return
        self._log_changed()
        if not partitions:
            return
        if isinstance(self.log.trigger, PartitionModifications):
            found = len(partitions[0].topic.assigned())
            added = filtered_map(_assignments(partitions), found)
            self.log.info(CONTROLLER, f"New partitions to be added {added}")
        names = mk_string(map(repr, partitions))
        self.log.info(CONTROLLER, f"New partition creation callback for {names}")

    def ends(self) -> None:
        self._log_changed()
        if self._refused == [] and self._is_queued(self.log.trigger):
            self.log.info(
                CONTROLLER,
                "Ignoring partition change during topic deletion as no new partitions are added",
            )

    def _log_changed(self) -> None:
        if self._changed is None:
            return
        (new, deleted), self._changed = self._changed, None
        if isinstance(self.log.trigger, HandBack) and not new and not deleted:
            # Kafka does not list the topics before it ends.
            return
        added = immutable_set(map(self._topic, new))
        self.log.info(
            CONTROLLER,
            f"New topics: [{immutable_set(new)}], deleted topics: [{mutable_set(deleted)}], "
            f"new partition replica assignment [{added}]",
        )

    def _topic(self, name: str) -> str:
        """TopicIdReplicaAssignment: a new topic in its current state."""
        topic = self.log.context.topic(name)
        topic_id = f"Some({znodes.write_topic_id(topic.id)})" if topic.id is not None else "None"
        partitions = immutable_map(_assignments(topic.assigned()))
        return f"TopicIdReplicaAssignment({name},{topic_id},{partitions})"

    def _apply_refused(self, data: bytes | None) -> None:
        """Note the partitions that a topic got while it is queued for deletion."""
        trigger = self.log.trigger
        if not isinstance(trigger, PartitionModifications) or not self._is_queued(trigger):
            return
        content = parsed_topic(trigger.topic, data)
        if content is None:
            return
        known = {one.number for one in self.log.context.topics[trigger.topic].assigned()}
        self._refused = [one for one in content.assignments if one not in known]

    def _is_queued(self, trigger: Trigger | None) -> bool:
        queued = self.log.context.queued_for_deletion
        return isinstance(trigger, PartitionModifications) and trigger.topic in queued


def _assignments(partitions: Iterable[Partition]) -> dict[str, str]:
    return {repr(one): assignment(one.assignment) for one in partitions}
