"""Controllers' requests in the request logs of the brokers that served them."""

from typing import Final

import msgspec
from msgspec import Struct

from replay.agreement.broker_requests.partition_state import RequestPartitionState
from replay.agreement.broker_requests.sent_request import (
    LEADER_AND_ISR,
    STOP_REPLICA,
    UPDATE_METADATA,
    SentPartition,
    SentRequest,
    in_order,
    whole_request,
)
from replay.stock_clusters.imported_log.events import RequestServed

APIS: Final = {
    "LEADER_AND_ISR": LEADER_AND_ISR,
    "STOP_REPLICA": STOP_REPLICA,
    "UPDATE_METADATA": UPDATE_METADATA,
}
"""The kind of request for each API name of the request log."""


class UnreadableError(Exception):
    """The JSON is not that of such a request; the text says what is wrong."""


class _Topic(Struct, rename="camel"):
    topic_name: str
    partition_states: list[RequestPartitionState]


class _StoppedTopic(Struct, rename="camel"):
    name: str
    partition_indexes: list[int]


class _Live(Struct, rename="camel"):
    """A live broker of UpdateMetadata, or a live leader of LeaderAndIsr."""

    id: int = -1
    broker_id: int = -1


class _Request(Struct, rename="camel"):
    """The three requests in all their versions.

    Partitions are in one of four fields: by topic in newer versions, ungrouped in LeaderAndIsr 0-1,
    UpdateMetadata 0-4 and StopReplica 0, in `topics` in StopReplica 1-2.
    """

    controller_id: int
    controller_epoch: int
    broker_epoch: int | None = None
    delete_partitions: bool | None = None
    topic_states: list[_Topic] | None = None
    ungrouped_partition_states: list[RequestPartitionState] | None = None
    ungrouped_partitions: list[RequestPartitionState] | None = None
    topics: list[_StoppedTopic] | None = None
    live_brokers: list[_Live] | None = None
    live_leaders: list[_Live] | None = None

    def partitions(self) -> tuple[SentPartition, ...] | None:
        delete = self.delete_partitions
        if self.topic_states is not None:
            return in_order(
                state.sent_partition(topic.topic_name, delete)
                for topic in self.topic_states
                for state in topic.partition_states
            )
        if self.topics is not None:
            return in_order(
                SentPartition(topic.name, number, delete=delete)
                for topic in self.topics
                for number in topic.partition_indexes
            )
        states = self.ungrouped_partition_states
        states = self.ungrouped_partitions if states is None else states
        if states is None:
            return None
        return in_order(state.sent_partition(state.topic_name, delete) for state in states)

    def live(self) -> tuple[int, ...] | None:
        if self.live_brokers is not None:
            return tuple(sorted(one.id for one in self.live_brokers))
        if self.live_leaders is not None:
            return tuple(sorted(one.broker_id for one in self.live_leaders))
        return None


_decoder: Final = msgspec.json.Decoder(_Request)


def request_in_log(served: RequestServed, seq: int) -> SentRequest | None:
    """The controller's request in record `seq`; None for requests of clients.

    Raises UnreadableError.
    """
    kind = APIS.get(served.api)
    if kind is None:
        return None
    try:
        request = _decoder.decode(served.request)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableError(str(error)) from None
    partitions = request.partitions()
    if partitions is None:
        raise UnreadableError("the request names no partitions")
    return whole_request(
        request,
        partitions,
        seq=seq,
        kind=kind,
        broker=served.broker,
        version=served.version,
        live_brokers=request.live(),
        connection=served.connection,
    )
