"""Encodes UpdateMetadata requests by hand. All but the head is the same for every broker (KB
12.3.2)."""

from struct import pack

from controller.core.commands import UpdateMetadataPartition, UpdateMetadataRequest
from controller.core.values import Broker
from controller.wire.apis import UPDATE_METADATA
from controller.wire.errors import UnencodableValue
from controller.wire.framing import EncodedRequest
from controller.wire.partition_states import StateEncoder
from controller.wire.primitives import Int32Arrays, Layout
from controller.wire.steps import Steps
from controller.wire.topics import TopicEncoding

_FIRST_WITH_TOPIC_IDS = 7
_FIRST_WITH_KRAFT_FLAG = 8
_HEAD_BYTES_MAX = 17
_SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


def encode_shared(
    request: UpdateMetadataRequest, version: int, bytes_max: int
) -> Steps[tuple[bytes, ...]]:
    """Encode all but the head of one or more bodies, each at most `bytes_max` long with its head.

    Each contains all live brokers, since a broker forgets those that a request does not contain.
    Raises `UnsupportedVersion`, `UnencodableValue`.
    """
    layout = UPDATE_METADATA.layout(version)
    tail = _live_brokers(request.live_brokers, layout) + layout.tags
    room = bytes_max - _HEAD_BYTES_MAX - len(tail)
    arrays = yield from topic_encoding(version).arrays(request.partitions, room)
    return tuple(b"".join([*array, tail]) for array in arrays)


def topic_encoding(version: int) -> TopicEncoding[UpdateMetadataPartition]:
    """The arrays of partitions, by topic, that a request of this version has. Raises
    `UnsupportedVersion`."""
    layout = UPDATE_METADATA.layout(version)
    states, arrays = StateEncoder(layout), Int32Arrays(layout)
    plain_tail = arrays[()] + layout.tags

    def fragments(partitions: tuple[UpdateMetadataPartition, ...]) -> list[bytes]:
        return [
            states.encode(one.partition, one.leadership, one.replicas)
            + arrays[one.offline_replicas]
            + layout.tags
            for one in partitions
        ]

    return TopicEncoding(
        f"UpdateMetadata {version}",
        fragments,
        states,
        plain_tail,
        lambda partitions: [plain_tail] * len(partitions),
        layout,
        with_topic_ids=version >= _FIRST_WITH_TOPIC_IDS,
    )


def with_head(
    request: UpdateMetadataRequest, version: int, shared: tuple[bytes, ...]
) -> tuple[EncodedRequest, ...]:
    """Add one broker's head to the shared bodies."""
    # In version 8 the request type is a tagged field; its default, 0 for "unknown", is omitted.
    kraft_flag = b"\0" if version >= _FIRST_WITH_KRAFT_FLAG else b""
    epochs = pack(">iq", request.controller_epoch, request.broker_epoch)
    head = pack(">i", request.controller_id) + kraft_flag + epochs
    return tuple(EncodedRequest(UPDATE_METADATA, version, head, rest) for rest in shared)


def _live_brokers(brokers: tuple[Broker, ...], layout: Layout) -> bytes:
    encoded = [layout.array_length(len(brokers))]
    for broker in brokers:
        encoded += (pack(">i", broker.id), layout.array_length(len(broker.endpoints)))
        for endpoint in broker.endpoints:
            encoded += (
                pack(">i", endpoint.port),
                layout.string(endpoint.host),
                layout.string(endpoint.listener),
                pack(">h", _security_protocol(broker, endpoint.security_protocol)),
                layout.tags,
            )
        encoded += (layout.nullable_string(broker.rack), layout.tags)
    return b"".join(encoded)


def _security_protocol(broker: Broker, name: str) -> int:
    try:
        return _SECURITY_PROTOCOLS[name]
    except KeyError:
        known = ", ".join(_SECURITY_PROTOCOLS)
        raise UnencodableValue(
            f"broker {broker.id}: unknown security protocol {name!r}, Kafka has {known}"
        ) from None
