"""API requests to a controller that no log has, and the requests to brokers that they may cause.

These requests to brokers are not judged.
"""

import sys
from collections.abc import Iterable
from typing import Final, NamedTuple

from msgspec.structs import replace

from replay.agreement.broker_requests.sent_request import (
    STOP_REPLICA,
    UPDATE_METADATA,
    SentPartition,
    SentRequest,
    agrees,
    partitions_agree,
)

NEVER: Final = sys.maxsize
_SHUTDOWN: Final = "ControlledShutdown"
"""The controller event of a controlled shutdown."""


class UnknownCalls(NamedTuple):
    """The records from which on API requests to a controller may be in no log.

    A controller also sends UpdateMetadata for an AlterPartition that changes nothing, or not
    everything. A repeated controlled shutdown stops all replicas of the broker, which are followers
    by then, and sends the other brokers states that the controller has sent to a broker already
    (KafkaController.doControlledShutdown).
    """

    since: int = NEVER
    shutdowns_since: int = NEVER

    def may_cause(self, stock: SentRequest, sent_before: Iterable[SentRequest]) -> bool:
        """Whether an unlogged call may have caused a request that only Kafka sent.

        `sent_before` are the fold's requests to all brokers.
        """
        if stock.kind == UPDATE_METADATA:
            return stock.seq >= self.since
        if stock.seq < self.shutdowns_since:
            return False
        if stock.partitions is None:
            return _follows_shutdown(stock, sent_before)
        if not stock.partitions:
            return False
        if stock.kind == STOP_REPLICA:
            return not any(one.delete for one in stock.partitions)
        return _is_nothing_new(stock, sent_before)

    def may_be_same(self, refold: SentRequest, stock: SentRequest) -> bool:
        """Whether Kafka's request can be the fold's with more content, because of unlogged calls.

        Without unlogged calls the content may differ in any way.
        """
        if stock.kind != UPDATE_METADATA or stock.seq < self.since:
            return True
        is_known = refold.partitions is not None and stock.partitions is not None
        return refold.size <= stock.size and (not is_known or refold.names <= stock.names)

    def may_add(self, refold: SentRequest, kafka: Iterable[SentRequest]) -> bool:
        """Whether the only difference is that Kafka sent more partitions."""
        if refold.kind != UPDATE_METADATA or refold.seq < self.since:
            return False
        stock = list(kafka)
        is_more = any(one.size > refold.size for one in stock)
        return is_more and all(agrees(refold, _as_far_as(refold, one)) for one in stock)


NO_UNKNOWN_CALLS: Final = UnknownCalls()


def _as_far_as(refold: SentRequest, stock: SentRequest) -> SentRequest:
    """Kafka's request, with only the partitions that the fold's request has."""
    if stock.partitions is None:
        return replace(stock, size=min(refold.size, stock.size))
    partitions = tuple(one for one in stock.partitions if one.key in refold.names)
    return replace(stock, size=len(partitions), partitions=partitions)


def _follows_shutdown(stock: SentRequest, sent_before: Iterable[SentRequest]) -> bool:
    """Whether a request of unknown partitions may belong to a repeated controlled shutdown: a
    broker was sent a StopReplica by one before. A StopReplica goes to the same broker."""
    return any(
        one.kind == STOP_REPLICA
        and one.seq <= stock.seq
        and one.cause.event == _SHUTDOWN
        and (stock.kind != STOP_REPLICA or one.broker == stock.broker)
        for one in sent_before
    )


def _is_nothing_new(stock: SentRequest, sent_before: Iterable[SentRequest]) -> bool:
    current = {one.key: one for one in stock.partitions or ()}
    new = set(current)
    for sent in sent_before:
        if sent.kind == stock.kind and sent.seq <= stock.seq:
            for one in sent.partitions or ():
                if one.key in new and _is_known_by(one, current[one.key]):
                    new.discard(one.key)
    return not new


def _is_known_by(before: SentPartition, now: SentPartition) -> bool:
    """Whether a broker knows a partition already, by a former request or as its leader.

    The leader itself may have changed the state: a controller increments the leader epoch with
    every change.
    """
    if (before.partition_epoch or 0) < (now.partition_epoch or 0):
        before = replace(
            before, isr=None, partition_epoch=None, controller_epoch=None, recovery_state=None
        )
    return partitions_agree(before, now)
