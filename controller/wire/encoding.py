"""Requests of one batch as bytes: what they have in common is encoded once."""

from controller.core.commands import (
    BrokerRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from controller.wire.framing import EncodedRequest
from controller.wire.leader_and_isr import LeaderAndIsrFragments, encode_leader_and_isr
from controller.wire.stop_replica import encode_stop_replica
from controller.wire.update_metadata import encode_shared, with_head

BODY_BYTES_MAX = 64 * 1024 * 1024
"""A request body is split below this; brokers refuse above socket.request.max.bytes, 100 MiB."""


class BatchEncoder:
    """Encodes the requests of one batch, and keeps what another of its requests may share.

    Let go of it with the last request of the batch: it holds all bodies of UpdateMetadata, and all
    partitions of LeaderAndIsr, that went through it.
    """

    def __init__(self, bytes_max: int = BODY_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._fragments: dict[int, LeaderAndIsrFragments] = {}
        self._bodies: dict[tuple[int, int, int], tuple[bytes, ...]] = {}
        self._kept: list[UpdateMetadataRequest] = []

    def encode(self, request: BrokerRequest, version: int) -> tuple[EncodedRequest, ...]:
        """The request in the given version, as one or more to be sent in order.

        Raises `UnsupportedVersion`, `UnencodableValue`.
        """
        match request:
            case LeaderAndIsrRequest():
                fragments = self._fragments.get(version)
                if fragments is None:
                    fragments = self._fragments[version] = LeaderAndIsrFragments(version)
                return encode_leader_and_isr(request, fragments, version, self._bytes_max)
            case UpdateMetadataRequest():
                return with_head(request, version, self._shared(request, version))
            case StopReplicaRequest():
                return (encode_stop_replica(request, version),)

    def _shared(self, request: UpdateMetadataRequest, version: int) -> tuple[bytes, ...]:
        """The body that all requests with the same content, by identity, have in common."""
        key = (id(request.partitions), id(request.live_brokers), version)
        shared = self._bodies.get(key)
        if shared is None:
            self._kept.append(request)  # while it lives, no other content can have its identity
            shared = self._bodies[key] = encode_shared(request, version, self._bytes_max)
        return shared
