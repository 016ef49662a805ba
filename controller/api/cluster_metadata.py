"""The front's request to the daemon about Metadata and DescribeCluster, and the daemon's response.

A broker answers these requests for its own clients. Where a request cannot be forwarded because a
broker would not know the client, the daemon answers from what the controller knows.
"""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from controller.core.api_requests.received_request import ClientIdentity
from controller.core.values import Broker


class RequestedTopic(Struct, frozen=True, array_like=True):
    """A topic of the request, by name or by id."""

    name: str | None = None
    id: bytes | None = None


class MetadataQuery(Struct, frozen=True):
    """`client`: who asks. `listener`: where; only its addresses are of use. `topics`: those of the
    request; None: all that the client may see. The other fields: whether the client wants to know
    what it may do to each topic and to the cluster."""

    client: ClientIdentity
    listener: str
    topics: tuple[RequestedTopic, ...] | None
    with_topic_operations: bool = False
    with_cluster_operations: bool = False


class AnnouncedPartition(Struct, frozen=True, array_like=True, gc=False):
    """A partition as brokers know it. `leader`: NO_LEADER if there is none, or it is not alive."""

    error: int
    number: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


class TopicMetadata(Struct, frozen=True, array_like=True):
    """A topic, or why there is nothing about it. `operations`: the bits of what the client may do,
    None if it did not ask."""

    error: int
    name: str | None
    id: bytes | None = None
    is_internal: bool = False
    partitions: tuple[AnnouncedPartition, ...] = ()
    operations: int | None = None


class ClusterMetadata(Struct, frozen=True):
    """The response. `brokers`: those with the listener, without the daemon itself."""

    cluster_id: str
    brokers: tuple[Broker, ...]
    topics: tuple[TopicMetadata, ...] = ()
    operations: int | None = None


MetadataSource = Callable[[MetadataQuery], Awaitable[ClusterMetadata | None]]
"""Answers a query; None while the daemon is not controller."""


async def no_metadata(_query: MetadataQuery) -> ClusterMetadata | None:
    """The source of an endpoint without a controller."""
    return None
