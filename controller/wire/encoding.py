"""Encodes the requests of one batch; content that they share is encoded once."""

from controller.core.commands import (
    BrokerRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from controller.core.prepared_topics import PreparedTopic
from controller.wire import leader_and_isr, update_metadata
from controller.wire.framing import EncodedRequest
from controller.wire.leader_and_isr import LeaderAndIsrFragments, encode_leader_and_isr
from controller.wire.steps import Steps, run_steps
from controller.wire.stop_replica import encode_stop_replica
from controller.wire.update_metadata import encode_shared, with_head

BODY_BYTES_MAX = 64 * 1024 * 1024
"""A larger request body is split. Brokers reject requests above socket.request.max.bytes, 100
MiB."""


def encode_ahead(
    prepared: PreparedTopic,
    leader_and_isr_version: int,
    update_metadata_version: int,
    *,
    for_all: bool,
) -> None:
    """Encode what is prepared of a topic, in the versions that it will be sent in. LeaderAndIsr is
    joined only if it is `for_all` brokers, since a broker that starts alone needs a part of it.

    Raises `UnsupportedVersion`.
    """
    if for_all:
        fragments = LeaderAndIsrFragments(leader_and_isr_version)
        encoding = leader_and_isr.topic_encoding(fragments, leader_and_isr_version)
        for part in prepared.leader_and_isr.values():
            encoding.encode_ahead(part)
    update_metadata.topic_encoding(update_metadata_version).encode_ahead(prepared.update_metadata)


class BatchEncoder:
    """Encodes the requests of one batch and caches what its other requests may share.

    Drop the encoder with the last request of the batch: it holds all UpdateMetadata bodies and
    LeaderAndIsr partitions that it has encoded.
    """

    def __init__(self, bytes_max: int = BODY_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._fragments: dict[int, LeaderAndIsrFragments] = {}
        self._bodies: dict[tuple[int, int, int], tuple[bytes, ...]] = {}
        self._kept: list[UpdateMetadataRequest] = []

    def encode(self, request: BrokerRequest, version: int) -> tuple[EncodedRequest, ...]:
        """Encode a request in a version at once, as one or more requests to be sent in order.
        Raises `UnsupportedVersion`, `UnencodableValue`."""
        return run_steps(self.encode_in_steps(request, version))

    def encode_in_steps(
        self, request: BrokerRequest, version: int
    ) -> Steps[tuple[EncodedRequest, ...]]:
        """Encode a request in a version, as one or more requests to be sent in order.

        Raises `UnsupportedVersion`, `UnencodableValue`.
        """
        match request:
            case LeaderAndIsrRequest():
                fragments = self._fragments.get(version)
                if fragments is None:
                    fragments = self._fragments[version] = LeaderAndIsrFragments(version)
                encode = encode_leader_and_isr(request, fragments, version, self._bytes_max)
                return (yield from encode)
            case UpdateMetadataRequest():
                shared = yield from self._shared_body(request, version)
                return with_head(request, version, shared)
            case StopReplicaRequest():
                return (encode_stop_replica(request, version),)

    def _shared_body(
        self, request: UpdateMetadataRequest, version: int
    ) -> Steps[tuple[bytes, ...]]:
        """The shared body of all requests with the same content, by identity."""
        key = (id(request.partitions), id(request.live_brokers), version)
        shared = self._bodies.get(key)
        if shared is None:
            self._kept.append(
                request
            )  # keeps the content alive, so that its identity is not reused
            shared = yield from encode_shared(request, version, self._bytes_max)
            self._bodies[key] = shared
        return shared
