"""Groups encoded partitions by topic, for LeaderAndIsr and UpdateMetadata.

Partitions that a standby has prepared are encoded by topic, ahead of time or when they are sent.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import add
from typing import Final, Generic, NamedTuple, TypeVar

from controller.core.commands import LeaderAndIsrPartition, UpdateMetadataPartition
from controller.core.prepared_topics import JoinedEntries, PreparedPartitions, TopicEntries
from controller.wire.partition_states import StateEncoder
from controller.wire.primitives import NO_TOPIC_ID, Layout
from controller.wire.steps import Steps

Partition = LeaderAndIsrPartition | UpdateMetadataPartition
Entry = TypeVar("Entry", bound=Partition)

_STEP_PARTITIONS: Final = 5_000
"""The partitions that are encoded without letting the event loop do other work."""


class TopicEncoding(NamedTuple, Generic[Entry]):
    """The arrays of partitions, by topic, of a kind of request. `name` is the encoding's name, for
    what is encoded ahead; `fragments` encodes partitions, each without its topic. A prepared
    partition is encoded by `states`, followed by its tail: `plain_tail`, or what `tails` returns if
    its topic is not plain.
    """

    name: str
    fragments: Callable[[tuple[Entry, ...]], list[bytes]]
    states: StateEncoder
    plain_tail: bytes
    tails: Callable[[tuple[LeaderAndIsrPartition, ...]], list[bytes]]
    layout: Layout
    with_topic_ids: bool

    def arrays(self, partitions: tuple[Entry, ...], bytes_max: int) -> Steps[list[list[bytes]]]:
        """The arrays of topics with all partitions in order, one array per request body.

        An array longer than `bytes_max` is halved until it fits or has a single partition. Each
        array is a list of chunks for the caller to join, so that no byte is copied.
        """
        if isinstance(partitions, JoinedEntries):
            array = [self.layout.array_length(len(partitions.parts))]
            handled = 0
            for part in partitions.parts:
                array.append(self.topic(part))
                handled += len(part)
                if handled >= _STEP_PARTITIONS:
                    handled = 0
                    yield
            if sum(map(len, array)) <= bytes_max:
                return [array]
        fragments: list[bytes] = []
        while len(fragments) < len(partitions):
            start = len(fragments)
            fragments += self.fragments(partitions[start : start + _STEP_PARTITIONS])
            yield
        return self._split_to_fit(partitions, fragments, bytes_max)

    def topic(self, part: TopicEntries[Entry]) -> bytes:
        """The prepared entries of one topic, as an entry of the array of topics."""
        encoded = part.encoded.get(self.name)
        if encoded is not None:
            return encoded
        whole = part.whole
        if whole is None:
            return b"".join(self._topic(part[0], self.fragments(part)))
        if not whole.is_plain:
            fragments = self._of_prepared(whole)
            return b"".join(self._topic(part[0], [fragments[place] for place in part.places]))
        states = self.states.of_prepared(whole)
        tail = self.plain_tail
        partitions = tail.join([states[place] for place in part.places])
        return b"".join((*self._head(part[0], len(part)), partitions, tail, self.layout.tags))

    def _of_prepared(self, whole: PreparedPartitions) -> list[bytes]:
        """All partitions of a prepared topic, encoded once for all requests."""
        encoded = whole.encoded.get(self.name)
        if encoded is None:
            states, tails = self.states.of_prepared(whole), self.tails(whole.entries)
            encoded = whole.encoded[self.name] = list(map(add, states, tails))
        return encoded

    def encode_ahead(self, part: TopicEntries[Entry]) -> None:
        """Keep the encoded form of the prepared entries of one topic."""
        part.encoded[self.name] = self.topic(part)

    def _split_to_fit(
        self, partitions: tuple[Entry, ...], fragments: list[bytes], bytes_max: int
    ) -> list[list[bytes]]:
        array = self._array(partitions, fragments)
        if len(partitions) < 2 or sum(map(len, array)) <= bytes_max:
            return [array]
        middle = len(partitions) // 2
        return [
            part
            for half in (slice(middle), slice(middle, None))
            for part in self._split_to_fit(partitions[half], fragments[half], bytes_max)
        ]

    def _array(self, partitions: tuple[Entry, ...], fragments: list[bytes]) -> list[bytes]:
        """Adjacent partitions of the same topic are written as one topic."""
        starts = _topic_starts(partitions)
        chunks = [self.layout.array_length(len(starts))]
        for first, last in pairwise([*starts, len(partitions)]):
            chunks += self._topic(partitions[first], fragments[first:last])
        return chunks

    def _topic(self, first: Entry, fragments: list[bytes]) -> list[bytes]:
        """A topic with its encoded partitions, of which `first` is one."""
        return [*self._head(first, len(fragments)), *fragments, self.layout.tags]

    def _head(self, first: Entry, count: int) -> tuple[bytes, bytes, bytes]:
        """The beginning of a topic with `count` partitions, of which `first` is one."""
        topic_id = (first.topic_id or NO_TOPIC_ID) if self.with_topic_ids else b""
        return self.layout.string(first.topic), topic_id, self.layout.array_length(count)


def _topic_starts(partitions: Sequence[Partition]) -> list[int]:
    """The positions where the topic changes."""
    starts: list[int] = []
    topic: str | None = None
    for at, partition in enumerate(partitions):
        if partition.topic != topic:
            topic = partition.topic
            starts.append(at)
    return starts
