"""The history of partitions and brokers, from a log or from a simulated run.

Both are read into the same values, so that they can be compared. Times are milliseconds since the
incident began.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from controller.core import znodes
from controller.core.values import NO_ASSIGNMENT, NO_LEADER, Assignment, LeaderAndIsr
from controller.core.znodes import Name
from replay.parsed_znodes import parsed_state, parsed_topic
from replay.subjects import ZnodeSubject, subject_of


class PartitionSnapshot(NamedTuple):
    """A partition at a moment. `state` is None before it has a leader for the first time."""

    state: LeaderAndIsr | None = None
    assignment: Assignment = NO_ASSIGNMENT

    @property
    def leader(self) -> int:
        """The broker that leads; NO_LEADER: none."""
        return self.state.leader if self.state is not None else NO_LEADER

    @property
    def isr(self) -> tuple[int, ...]:
        """The in-sync replicas."""
        return self.state.isr if self.state is not None else ()


def is_unclean(was: PartitionSnapshot, now: PartitionSnapshot) -> bool:
    """Whether a leader was elected that was not in the ISR: it may lack records."""
    return now.leader >= 0 and bool(was.isr) and now.leader not in was.isr


def is_leaderless(now: PartitionSnapshot, brokers: Mapping[int, object]) -> bool:
    """Whether a partition cannot be written: it has no leader, or its leader is not registered."""
    return now.leader == NO_LEADER or now.leader not in brokers


class PartitionChange(NamedTuple):
    """A partition is like this from now on; None: it is deleted."""

    seq: int
    at_ms: int
    name: Name
    now: PartitionSnapshot | None


class RegistrationChange(NamedTuple):
    """A broker is registered from now on, or no longer."""

    seq: int
    at_ms: int
    broker: int
    is_registered: bool

    def apply(self, registered: dict[int, None]) -> None:
        """Change the brokers that are registered."""
        if self.is_registered:
            registered[self.broker] = None
        else:
            registered.pop(self.broker, None)


class TopicIdChange(NamedTuple):
    """The id of a topic is known from now on."""

    seq: int
    at_ms: int
    topic: str
    id: bytes | None


class ZnodeChange(NamedTuple):
    """Another znode that affects decisions has this content from now on; None: it is gone."""

    seq: int
    at_ms: int
    path: str
    data: bytes | None

    @property
    def deleted_topic(self) -> str | None:
        """The topic whose deletion this znode requests; None: it is another znode."""
        parent, _, topic = self.path.rpartition("/")
        return topic if parent == znodes.DELETE_TOPICS else None

    def apply_deletion(self, topics: dict[str, None]) -> None:
        """Change the topics whose deletion is requested, if the znode is such a request."""
        topic = self.deleted_topic
        if topic is not None and self.data is not None:
            topics[topic] = None
        elif topic is not None:
            topics.pop(topic, None)


Change = PartitionChange | RegistrationChange | TopicIdChange | ZnodeChange


class ClusterHistory:
    """All changes, in the order of `seq` once `sort` was called."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self._partitions: dict[Name, PartitionSnapshot] = {}
        self._topics: dict[str, bytes | None] = {}
        self._znodes: dict[str, bytes] = {}

    def note_partition(
        self, seq: int, at_ms: int, name: Name, now: PartitionSnapshot | None
    ) -> None:
        """Note how a partition is now."""
        if self._partitions.get(name) == now:
            return
        if now is None:
            del self._partitions[name]
        else:
            self._partitions[name] = now
        self.changes.append(PartitionChange(seq, at_ms, name, now))

    def partition(self, name: Name) -> PartitionSnapshot:
        """How a partition was noted last."""
        return self._partitions.get(name, PartitionSnapshot())

    def names(self) -> Collection[Name]:
        """The names of all partitions that exist."""
        return self._partitions

    def note_topic(self, seq: int, at_ms: int, topic: str, id: bytes | None) -> None:
        """Note the id of a topic."""
        if topic not in self._topics or self._topics[topic] != id:
            self._topics[topic] = id
            self.changes.append(TopicIdChange(seq, at_ms, topic, id))

    def note_znode(self, seq: int, at_ms: int, path: str, data: bytes | None) -> None:
        """Note the content of another znode."""
        if self._znodes.get(path) == data:
            return
        if data is None:
            del self._znodes[path]
        else:
            self._znodes[path] = data
        self.changes.append(ZnodeChange(seq, at_ms, path, data))

    def note_broker(self, seq: int, at_ms: int, broker: int, *, is_registered: bool) -> None:
        """Note that a broker registered, or is no longer registered."""
        self.changes.append(RegistrationChange(seq, at_ms, broker, is_registered))

    def sort(self) -> None:
        """Put the changes into their order: some are known later than they happened."""
        self.changes.sort(key=lambda one: one.seq)


class ZnodeReader:
    """Notes in a history what znodes say, as transactions change them.

    `kept` are the paths, or their beginnings, of further znodes to keep.
    """

    def __init__(self, history: ClusterHistory, kept: tuple[str, ...] = ()) -> None:
        self._history = history
        self._kept = kept
        self._registered: dict[int, int] = {}

    def changed(
        self, seq: int, at_ms: int, path: str, data: bytes | None, version: int, owner: int
    ) -> None:
        """A znode has this content now; None: it was deleted."""
        match subject_of(path):
            case ZnodeSubject(kind="state", topic=str() as topic, partition=int() as number):
                self._state_changed(seq, at_ms, (topic, number), data, version)
            case ZnodeSubject(kind="topic", topic=str() as topic):
                self._topic_changed(seq, at_ms, topic, data)
            case ZnodeSubject(kind="broker", broker=int() as broker):
                registered = owner if data is not None else None
                self._registration_changed(seq, at_ms, broker, registered)
            case _ if path.startswith(self._kept):
                self._history.note_znode(seq, at_ms, path, data)

    def _state_changed(
        self, seq: int, at_ms: int, name: Name, data: bytes | None, version: int
    ) -> None:
        history = self._history
        if data is None or name not in history.names():
            return
        state = parsed_state(znodes.state_path(*name), data, version)
        if state is not None:
            now = PartitionSnapshot(state, history.partition(name).assignment)
            history.note_partition(seq, at_ms, name, now)

    def _topic_changed(self, seq: int, at_ms: int, topic: str, data: bytes | None) -> None:
        history = self._history
        assignments: dict[int, Assignment] = {}
        if data is not None:
            content = parsed_topic(topic, data)
            if content is None:
                return
            history.note_topic(seq, at_ms, topic, content.topic_id)
            assignments = content.assignments
        for name in [one for one in history.names() if one[0] == topic]:
            if name[1] not in assignments:
                history.note_partition(seq, at_ms, name, None)
        for number, assignment in assignments.items():
            name = (topic, number)
            history.note_partition(
                seq, at_ms, name, PartitionSnapshot(history.partition(name).state, assignment)
            )

    def _registration_changed(self, seq: int, at_ms: int, broker: int, owner: int | None) -> None:
        if owner is None:
            self._registered.pop(broker, None)
        elif self._registered.get(broker) == owner:
            return
        else:
            self._registered[broker] = owner
        self._history.note_broker(seq, at_ms, broker, is_registered=owner is not None)


class ClusterAtEvent(NamedTuple):
    """The cluster after an event."""

    at_ms: int
    partitions: dict[Name, PartitionSnapshot]
    brokers: dict[int, None]
    topics: dict[str, bytes | None]
    znodes: dict[str, bytes]


def cluster_state_at(changes: Iterable[Change], seq: int, at_ms: int) -> ClusterAtEvent:
    """The cluster after event `seq`, which happened at `at_ms`."""
    cluster = ClusterAtEvent(at_ms, {}, {}, {}, {})
    for one in changes:
        if one.seq > seq:
            break
        match one:
            case PartitionChange(name=name, now=None):
                cluster.partitions.pop(name, None)
            case PartitionChange(name=name, now=PartitionSnapshot() as now):
                cluster.partitions[name] = now
            case RegistrationChange():
                one.apply(cluster.brokers)
            case TopicIdChange(topic=topic, id=id):
                cluster.topics[topic] = id
            case ZnodeChange(path=path, data=None):
                cluster.znodes.pop(path, None)
            case ZnodeChange(path=path, data=bytes() as data):
                cluster.znodes[path] = data
    return cluster
