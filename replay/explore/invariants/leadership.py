"""Invariants of leaders and leader epochs."""

from typing import ClassVar

from controller.core.values import NO_LEADER
from replay.explore.invariants.invariant import (
    AppliedRequest,
    Invariant,
    Report,
    StateWrite,
    TopicReplica,
    forget_topic_without_id,
)
from replay.explore.invariants.known_cluster import KnownCluster, KnownTopic
from replay.names import partition_name


class OneLeaderPerEpoch(Invariant):
    """Source: KIP-101, whose truncation is correct only if an epoch has one leader."""

    NAME: ClassVar[str] = "one-leader-per-epoch"
    STATEMENT: ClassVar[str] = (
        "A partition has at most one leader in a leader epoch, in ZooKeeper and on the brokers."
    )

    def __init__(self, known: KnownCluster, report: Report) -> None:
        super().__init__(known, report)
        self._stored: dict[tuple[str, int, int, int], int] = {}
        self._leading: dict[tuple[str, bytes | None, int, int], int] = {}

    def state_written(self, write: StateWrite) -> None:
        leader, epoch = write.after.leader, write.after.leader_epoch
        if leader == NO_LEADER or write.topic is None:
            return
        other = self._stored.setdefault((*write.name, write.topic.czxid, epoch), leader)
        if other != leader:
            self.violated(
                partition_name(*write.name),
                f"{write.process} stored broker {leader} as the leader in leader epoch {epoch}; "
                f"broker {other} was the leader in that epoch",
            )

    def topic_deleted(self, topic: KnownTopic) -> None:
        forget_topic_without_id(self._leading, topic)

    def leads(self, replica: TopicReplica, leader_epoch: int) -> None:
        key = (replica.topic, replica.topic_id, replica.partition, leader_epoch)
        other = self._leading.setdefault(key, replica.broker)
        if other != replica.broker:
            self.violated(
                partition_name(*replica.name),
                f"broker {replica.broker} begins to lead in leader epoch {leader_epoch}, in which "
                f"broker {other} leads",
            )


class LeaderEpochsForward(Invariant):
    """Source: KIP-320: brokers and clients fence requests by leader epoch."""

    NAME: ClassVar[str] = "leader-epochs-forward"
    STATEMENT: ClassVar[str] = (
        "The leader epoch of a partition never goes back while its topic exists, in ZooKeeper and "
        "in the LeaderAndIsr requests that a broker accepts."
    )

    def __init__(self, known: KnownCluster, report: Report) -> None:
        super().__init__(known, report)
        self._stored: dict[tuple[str, int, int], int] = {}
        self._accepted: dict[tuple[str, bytes | None, int, int, int], int] = {}

    def state_written(self, write: StateWrite) -> None:
        if write.topic is None:
            return
        key = (*write.name, write.topic.czxid)
        epoch, before = write.after.leader_epoch, self._stored.get(key, -1)
        if epoch < before:
            self.violated(
                partition_name(*write.name),
                f"{write.process} stored leader epoch {epoch} after leader epoch {before}",
            )
        self._stored[key] = epoch

    def topic_deleted(self, topic: KnownTopic) -> None:
        forget_topic_without_id(self._accepted, topic)

    def applied(self, applied: AppliedRequest) -> None:
        request = applied.request
        # Only LeaderAndIsr: a later invariant is about UpdateMetadata.
        for one in getattr(request, "partitions", ()):
            leadership = getattr(one, "leadership", None)
            if leadership is None or not hasattr(one, "is_new"):
                return
            if (one.topic, one.partition) in applied.refused:
                continue
            key = (one.topic, one.topic_id, one.partition, applied.broker, applied.run)
            before = self._accepted.get(key, -1)
            if leadership.leader_epoch < before:
                self.violated(
                    partition_name(one.topic, one.partition),
                    f"broker {applied.broker} accepted leader epoch {leadership.leader_epoch} "
                    f"after leader epoch {before}",
                )
            self._accepted[key] = leadership.leader_epoch


class LeaderInIsr(Invariant):
    """Source: KB 11.2, race R18."""

    NAME: ClassVar[str] = "leader-in-isr"
    STATEMENT: ClassVar[str] = "The leader in a partition's state znode is a member of its ISR."

    def state_written(self, write: StateWrite) -> None:
        after = write.after
        if after.leader != NO_LEADER and after.leader not in after.isr:
            self.violated(
                partition_name(*write.name),
                f"{write.process} stored leader {after.leader} with the ISR {list(after.isr)}",
            )


class TopicIdsKept(Invariant):
    """Source: race R29 (KAFKA-14190)."""

    NAME: ClassVar[str] = "topic-ids-kept"
    STATEMENT: ClassVar[str] = (
        "The id of a topic never changes while the topic exists, unless a tool removes the id when "
        "no controller knows it. No controller whose protocol version has topic ids removes it."
    )

    def __init__(self, known: KnownCluster, report: Report) -> None:
        super().__init__(known, report)
        self._ids: dict[tuple[str, int], bytes] = {}

    def topic_id_written(self, topic: KnownTopic, before: bytes | None, after: bytes) -> None:
        first = self._ids.setdefault((topic.name, topic.czxid), before or after)
        if first != after and not topic.has_lost_id:
            self.violated(topic.name, f"the topic id {first.hex()} was replaced by {after.hex()}")

    def topic_id_removed(self, topic: KnownTopic, process: str) -> None:
        if self.known.has_topic_ids(process):
            self.violated(topic.name, f"{process} wrote the topic without its id")
