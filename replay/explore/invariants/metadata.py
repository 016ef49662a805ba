"""Invariants of the metadata that brokers get."""

from typing import ClassVar

from controller.core.commands import (
    LeaderAndIsrRequest,
    UpdateMetadataRequest,
)
from controller.core.values import LEADER_DURING_DELETE
from replay.explore.invariants.invariant import Applied, Invariant, Report
from replay.explore.invariants.known import Known, TopicKnown

_Version = tuple[int, int]


class MetadataForward(Invariant):
    """Source: race R25 (KAFKA-9212)."""

    NAME: ClassVar[str] = "metadata-forward"
    STATEMENT: ClassVar[str] = (
        "The leader epoch and partition epoch of a partition in an UpdateMetadata request are "
        "never older than those in a request that the same broker has accepted before. A deposed "
        "controller's request with a state that its successor wrote does not count."
    )

    def __init__(self, known: Known, report: Report) -> None:
        super().__init__(known, report)
        self._accepted: dict[tuple[int, int, str, bytes | None, int], _Version] = {}

    def topic_deleted(self, topic: TopicKnown) -> None:
        for key in [one for one in self._accepted if one[2:4] == (topic.name, None)]:
            del self._accepted[key]

    def applied(self, applied: Applied) -> None:
        request = applied.request
        if not isinstance(request, LeaderAndIsrRequest | UpdateMetadataRequest):
            return
        is_metadata = isinstance(request, UpdateMetadataRequest)
        for one in request.partitions:
            key = (applied.broker, applied.run, one.topic, one.topic_id, one.partition)
            leadership = one.leadership
            if leadership.leader == LEADER_DURING_DELETE:
                self._accepted.pop(key, None)
                continue
            if (one.topic, one.partition) in applied.refused:
                continue
            if leadership.controller_epoch > request.controller_epoch:
                # The first requests of the successor have older states and may arrive later.
                continue
            version = leadership.leader_epoch, leadership.partition_epoch
            before = self._accepted.get(key)
            if before is not None and version < before:
                if is_metadata:
                    self.violated(
                        f"{one.topic}-{one.partition}",
                        f"broker {applied.broker} got UpdateMetadata with leader epoch "
                        f"{version[0]}, partition epoch {version[1]} after {before[0]}, "
                        f"{before[1]}",
                    )
            else:
                self._accepted[key] = version
