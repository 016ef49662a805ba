"""What a controller was asked for that no log tells of, and which requests to brokers may come of
it: those are not judged."""

import sys
from collections.abc import Iterable
from typing import Final, NamedTuple

from msgspec.structs import replace

from replay.stock_clusters.agreement.broker_requests.told import (
    STOP_REPLICA,
    UPDATE_METADATA,
    Told,
    ToldPartition,
    agrees,
    is_told_alike,
)

NEVER: Final = sys.maxsize


class UnknownCalls(NamedTuple):
    """The records from which on requests to a controller may be in no log.

    An AlterPartition that changes nothing, or not all, makes it send UpdateMetadata, too. To shut a
    broker down once more makes it stop all its replicas, which are followers by then, and tell the
    others what they know (KafkaController.doControlledShutdown).
    """

    since: int = NEVER
    shutdowns_since: int = NEVER

    def may_cause(self, theirs: Told, told_before: Iterable[Told]) -> bool:
        """Whether a request that only Kafka sent may come of one."""
        if theirs.kind == UPDATE_METADATA:
            return theirs.seq >= self.since
        if theirs.seq < self.shutdowns_since or not theirs.partitions:
            return False
        if theirs.kind == STOP_REPLICA:
            return not any(one.delete for one in theirs.partitions)
        return _is_nothing_new(theirs, told_before)

    def may_be_same(self, ours: Told, theirs: Told) -> bool:
        """Whether Kafka's request can be the fold's, that differs at most in that more came of it.
        Without unknown calls anything may differ."""
        if theirs.kind != UPDATE_METADATA or theirs.seq < self.since:
            return True
        is_known = ours.partitions is not None and theirs.partitions is not None
        return ours.size <= theirs.size and (not is_known or ours.names <= theirs.names)

    def may_add(self, ours: Told, kafka: Iterable[Told]) -> bool:
        """Whether all that differs is that Kafka told a broker of more partitions."""
        if ours.kind != UPDATE_METADATA or ours.seq < self.since:
            return False
        theirs = list(kafka)
        is_more = any(one.size > ours.size for one in theirs)
        return is_more and all(agrees(ours, _as_far_as(ours, one)) for one in theirs)


NO_UNKNOWN_CALLS: Final = UnknownCalls()


def _as_far_as(ours: Told, theirs: Told) -> Told:
    """Kafka's request without the partitions that are not in the fold's."""
    if theirs.partitions is None:
        return replace(theirs, size=min(ours.size, theirs.size))
    partitions = tuple(one for one in theirs.partitions if one.key in ours.names)
    return replace(theirs, size=len(partitions), partitions=partitions)


def _is_nothing_new(theirs: Told, told_before: Iterable[Told]) -> bool:
    asked = {one.key: one for one in theirs.partitions or ()}
    new = set(asked)
    for told in told_before:
        if told.kind == theirs.kind and told.seq <= theirs.seq:
            for one in told.partitions or ():
                if one.key in new and _is_known_by(one, asked[one.key]):
                    new.discard(one.key)
    return not new


def _is_known_by(before: ToldPartition, now: ToldPartition) -> bool:
    """Whether what a broker is told was told before, or is by the leader: a controller raises the
    leader epoch with all that it changes itself."""
    if (before.partition_epoch or 0) < (now.partition_epoch or 0):
        before = replace(
            before, isr=None, partition_epoch=None, controller_epoch=None, recovery_state=None
        )
    return is_told_alike(before, now)
