"""What partitions and brokers went through, from a log or from a simulated run.

Both are read into the same values, so that they can be compared. Times are milliseconds since the
incident began.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from controller.core import znodes
from controller.core.errors import ZnodeError
from controller.core.values import NO_ASSIGNMENT, NO_LEADER, Assignment, LeaderAndIsr
from controller.core.znodes import Name

_TOPICS: Final = f"{znodes.TOPICS}/"
_BROKERS: Final = f"{znodes.BROKER_IDS}/"


class PartitionNow(NamedTuple):
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


def is_unclean(was: PartitionNow, now: PartitionNow) -> bool:
    """Whether a leader was elected that was not in the ISR: it may lack records."""
    return now.leader >= 0 and bool(was.isr) and now.leader not in was.isr


def is_leaderless(now: PartitionNow, brokers: Mapping[int, object]) -> bool:
    """Whether a partition cannot be written: it has no leader, or its leader is not registered."""
    return now.leader == NO_LEADER or now.leader not in brokers


class PartitionChange(NamedTuple):
    """A partition is like this from now on; None: it is deleted."""

    seq: int
    at_ms: int
    name: Name
    now: PartitionNow | None


class BrokerChange(NamedTuple):
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


class TopicChange(NamedTuple):
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


Change = PartitionChange | BrokerChange | TopicChange | ZnodeChange


class History:
    """All changes, in the order of `seq` once `sort` was called."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self._partitions: dict[Name, PartitionNow] = {}
        self._topics: dict[str, bytes | None] = {}
        self._znodes: dict[str, bytes] = {}

    def partition(self, seq: int, at_ms: int, name: Name, now: PartitionNow | None) -> None:
        """Note how a partition is now."""
        if self._partitions.get(name) == now:
            return
        if now is None:
            del self._partitions[name]
        else:
            self._partitions[name] = now
        self.changes.append(PartitionChange(seq, at_ms, name, now))

    def known(self, name: Name) -> PartitionNow:
        """How a partition was noted last."""
        return self._partitions.get(name, PartitionNow())

    def names(self) -> Collection[Name]:
        """The partitions that exist."""
        return self._partitions

    def topic(self, seq: int, at_ms: int, topic: str, id: bytes | None) -> None:
        """Note the id of a topic."""
        if topic not in self._topics or self._topics[topic] != id:
            self._topics[topic] = id
            self.changes.append(TopicChange(seq, at_ms, topic, id))

    def znode(self, seq: int, at_ms: int, path: str, data: bytes | None) -> None:
        """Note the content of another znode."""
        if self._znodes.get(path) == data:
            return
        if data is None:
            del self._znodes[path]
        else:
            self._znodes[path] = data
        self.changes.append(ZnodeChange(seq, at_ms, path, data))

    def broker(self, seq: int, at_ms: int, broker: int, *, is_registered: bool) -> None:
        """Note that a broker registered, or is no longer registered."""
        self.changes.append(BrokerChange(seq, at_ms, broker, is_registered))

    def sort(self) -> None:
        """Put the changes into their order: some are known later than they happened."""
        self.changes.sort(key=lambda one: one.seq)


class ZnodeReader:
    """Notes in a history what znodes say, as transactions change them.

    `kept` are the paths, or their beginnings, of further znodes to keep.
    """

    def __init__(self, history: History, kept: tuple[str, ...] = ()) -> None:
        self._history = history
        self._kept = kept
        self._registered: dict[int, int] = {}

    def changed(
        self, seq: int, at_ms: int, path: str, data: bytes | None, version: int, owner: int
    ) -> None:
        """A znode has this content now; None: it was deleted."""
        if path.startswith(_TOPICS):
            state_of, topic = znodes.partition_of_state(path), znodes.topic_of(path)
            if state_of is not None:
                self._state_changed(seq, at_ms, state_of, data, version)
            elif topic is not None:
                self._topic_changed(seq, at_ms, topic, data)
        elif path.startswith(_BROKERS):
            self._registration_changed(seq, at_ms, path, owner if data is not None else None)
        elif path.startswith(self._kept):
            self._history.znode(seq, at_ms, path, data)

    def _state_changed(
        self, seq: int, at_ms: int, name: Name, data: bytes | None, version: int
    ) -> None:
        history = self._history
        if data is None or name not in history.names():
            return
        try:
            state = znodes.read_state(znodes.state_path(*name), data, version)
        except ZnodeError:
            return
        history.partition(seq, at_ms, name, PartitionNow(state, history.known(name).assignment))

    def _topic_changed(self, seq: int, at_ms: int, topic: str, data: bytes | None) -> None:
        history = self._history
        assignments: dict[int, Assignment] = {}
        if data is not None:
            try:
                content = znodes.read_topic(topic, data)
            except ZnodeError:
                return
            history.topic(seq, at_ms, topic, content.topic_id)
            assignments = content.assignments
        for name in [one for one in history.names() if one[0] == topic]:
            if name[1] not in assignments:
                history.partition(seq, at_ms, name, None)
        for number, assignment in assignments.items():
            name = (topic, number)
            history.partition(seq, at_ms, name, PartitionNow(history.known(name).state, assignment))

    def _registration_changed(self, seq: int, at_ms: int, path: str, owner: int | None) -> None:
        name = path.removeprefix(_BROKERS)
        if not znodes.is_broker_id(name):
            return
        broker = int(name)
        if owner is None:
            self._registered.pop(broker, None)
        elif self._registered.get(broker) == owner:
            return
        else:
            self._registered[broker] = owner
        self._history.broker(seq, at_ms, broker, is_registered=owner is not None)


class Moment(NamedTuple):
    """The cluster after an event."""

    at_ms: int
    partitions: dict[Name, PartitionNow]
    brokers: dict[int, None]
    topics: dict[str, bytes | None]
    znodes: dict[str, bytes]


def moment_at(changes: Iterable[Change], seq: int, at_ms: int) -> Moment:
    """The cluster after event `seq`, which happened at `at_ms`."""
    moment = Moment(at_ms, {}, {}, {}, {})
    for one in changes:
        if one.seq > seq:
            break
        match one:
            case PartitionChange(name=name, now=None):
                moment.partitions.pop(name, None)
            case PartitionChange(name=name, now=PartitionNow() as now):
                moment.partitions[name] = now
            case BrokerChange():
                one.apply(moment.brokers)
            case TopicChange(topic=topic, id=id):
                moment.topics[topic] = id
            case ZnodeChange(path=path, data=None):
                moment.znodes.pop(path, None)
            case ZnodeChange(path=path, data=bytes() as data):
                moment.znodes[path] = data
    return moment
