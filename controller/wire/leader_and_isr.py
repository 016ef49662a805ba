"""Encodes LeaderAndIsr requests, hand-coded because failovers spend most of their time here (KB
12.3.1)."""

from struct import pack

from controller.core.commands import LeaderAndIsrPartition, LeaderAndIsrRequest
from controller.core.values import RECOVERED
from controller.wire.apis import LEADER_AND_ISR
from controller.wire.framing import EncodedRequest
from controller.wire.partition_states import StateEncoder
from controller.wire.primitives import Int32Arrays, Layout
from controller.wire.steps import Steps
from controller.wire.topics import TopicEncoding

_FIRST_WITH_TOPIC_IDS = 5
_FIRST_WITH_RECOVERY_STATE = 6
_FIRST_WITH_KRAFT_FLAG = 7


class LeaderAndIsrFragments:
    """Partitions encoded for one version, each once, for any number of brokers.

    Partitions are identified by object identity; they are kept alive so that no identity is reused.
    """

    def __init__(self, version: int) -> None:
        layout = LEADER_AND_ISR.layout(version)
        self._with_recovery_state = version >= _FIRST_WITH_RECOVERY_STATE
        self._tags = layout.tags
        self._arrays = Int32Arrays(layout)
        self.states = StateEncoder(layout)
        self.plain_tail = self._tail((), (), False, RECOVERED)
        self._known: dict[int, bytes] = {}
        self._kept: list[tuple[LeaderAndIsrPartition, ...]] = []

    def encode_all(self, partitions: tuple[LeaderAndIsrPartition, ...]) -> list[bytes]:
        """The encoded partitions, in order."""
        self._kept.append(partitions)
        known, encode, plain_tail = self._known, self.states.encode, self.plain_tail
        fragments = []
        for partition in partitions:
            key = id(partition)
            fragment = known.get(key)
            if fragment is None:
                now, assignment = partition.leadership, partition.assignment
                plain = not (assignment.adding or assignment.removing or now.recovery_state)
                tail = plain_tail if plain and not partition.is_new else self.tail(partition)
                fragment = encode(partition.partition, now, assignment.replicas) + tail
                known[key] = fragment
            fragments.append(fragment)
        return fragments

    def tail(self, partition: LeaderAndIsrPartition) -> bytes:
        """The fields of a partition after its replicas."""
        assignment, recovery_state = partition.assignment, partition.leadership.recovery_state
        return self._tail(assignment.adding, assignment.removing, partition.is_new, recovery_state)

    def _tail(
        self, adding: tuple[int, ...], removing: tuple[int, ...], is_new: bool, recovery_state: int
    ) -> bytes:
        recovery = pack(">b", recovery_state) if self._with_recovery_state else b""
        arrays = self._arrays[adding] + self._arrays[removing]
        return arrays + pack(">?", is_new) + recovery + self._tags


def encode_leader_and_isr(
    request: LeaderAndIsrRequest, fragments: LeaderAndIsrFragments, version: int, bytes_max: int
) -> Steps[tuple[EncodedRequest, ...]]:
    """Encode a request as one or more, each at most `bytes_max` long, with partitions in order.

    `fragments` must have the same version and may be shared by all brokers. Raises
    `UnsupportedVersion`.
    """
    layout = LEADER_AND_ISR.layout(version)
    head = _head(request, version)
    tail = _live_leaders(request.live_leaders, layout) + layout.tags
    room = bytes_max - len(head) - len(tail)
    arrays = yield from topic_encoding(fragments, version).arrays(request.partitions, room)
    return tuple(
        EncodedRequest(LEADER_AND_ISR, version, head, b"".join([*array, tail])) for array in arrays
    )


def topic_encoding(
    fragments: LeaderAndIsrFragments, version: int
) -> TopicEncoding[LeaderAndIsrPartition]:
    """The arrays of partitions, by topic, that a request of this version has. Raises
    `UnsupportedVersion`."""
    layout = LEADER_AND_ISR.layout(version)
    with_topic_ids = version >= _FIRST_WITH_TOPIC_IDS
    return TopicEncoding(
        f"LeaderAndIsr {version}",
        fragments.encode_all,
        fragments.states,
        fragments.plain_tail,
        lambda partitions: list(map(fragments.tail, partitions)),
        layout,
        with_topic_ids,
    )


def _head(request: LeaderAndIsrRequest, version: int) -> bytes:
    kraft_flag = b"\0" if version >= _FIRST_WITH_KRAFT_FLAG else b""
    # Type 0 is "unknown": the request does not contain all topics (KB 12.3.1).
    request_type = b"\0" if version >= _FIRST_WITH_TOPIC_IDS else b""
    epochs = pack(">iq", request.controller_epoch, request.broker_epoch)
    return pack(">i", request.controller_id) + kraft_flag + epochs + request_type


def _live_leaders(leaders: tuple[tuple[int, str, int], ...], layout: Layout) -> bytes:
    encoded = [layout.array_length(len(leaders))]
    for broker, host, port in leaders:
        encoded += (pack(">i", broker), layout.string(host), pack(">i", port), layout.tags)
    return b"".join(encoded)
