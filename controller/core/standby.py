"""A standby's knowledge of ZooKeeper, so that its take-over reads little (docs/standby.md).

A standby reads what a failover reads, and watches all of it. A watch that fires makes its znode
*stale*. ZooKeeper sends the event of a change before the reply to a later request: when the reply
to the take-over's multi arrives, everything that is not stale is as it was at the take-over.
"""

from collections.abc import Iterable, Iterator, Sized
from operator import attrgetter
from typing import Final, NamedTuple

from controller.core import znodes
from controller.core.operations import NO_NODE
from controller.core.outcomes import Children, ZnodeColumns
from controller.core.prepared_topics import PreparedTopic, prepare, unprepare
from controller.core.state import ControllerContext, Partition, Topic
from controller.core.values import ANY_VERSION

FOLLOW_TIMER: Final = "read what has changed"
FOLLOW_MS: Final = 200
"""A standby reads changes at most five times a second, however many there are."""

LISTS: Final = (
    znodes.BROKER_IDS,
    znodes.TOPICS,
    znodes.DELETE_TOPICS,
    znodes.ISR_CHANGES,
    znodes.LOG_DIR_EVENTS,
    znodes.CONFIG_CHANGES,
)
"""The lists of children that a failover reads."""

_TOPICS_PREFIX: Final = f"{znodes.TOPICS}/"


class KnownZnode(NamedTuple):
    """A znode as it was read; `error` is NO_NODE if it does not exist."""

    error: int
    data: bytes | None
    version: int
    czxid: int
    mzxid: int
    owner: int


MISSING: Final = KnownZnode(NO_NODE, None, -1, -1, -1, -1)


class StandbyState:
    """The knowledge of a standby on one connection to ZooKeeper.

    - `is_watching`: all that is below /brokers is watched; if not, nothing is known.
    - `is_unsupported`: nothing can be watched, as before ZooKeeper 3.6; a take-over reads
      everything.
    - `is_ready`: everything was read once.
    - `is_timed`: the timer FOLLOW_TIMER is running.
    - `znodes`, `children`: single znodes, and lists of children, by path.
    - `topics`: by name the topics that need nothing but their leaders to be taken over. None: the
      topic's znode is to be read again by the take-over.
    - `mzxids`: by topic and partition the transactions that wrote the states that are known.
    - `unread`: by topic the partitions whose state has to be read.
    - `unusable`: by topic the partitions whose state was read and is to be read again by the
      take-over, which repairs or reports it.
    - `prepared`: by name the topics whose requests are ready; `unencoded`: those of them that the
      daemon may still encode; `unprepared`: those that are to be prepared. None of these affects a
      decision.
    - `reading`: the znodes and lists that are being read.
    - `stale`, `stale_children`, `stale_topics`: what has changed since it was read.
    """

    def __init__(self) -> None:
        self.is_watching = False
        self.is_unsupported = False
        self.is_ready = False
        self.is_timed = False
        self.znodes: dict[str, KnownZnode] = {}
        self.children: dict[str, list[str]] = {}
        self.topics: dict[str, Topic | None] = {}
        self.mzxids: dict[str, dict[int, int]] = {}
        self.unread: dict[str, dict[int, None]] = {}
        self.unusable: dict[str, dict[int, None]] = {}
        self.prepared: dict[str, PreparedTopic] = {}
        self.unencoded: dict[str, PreparedTopic] = {}
        self.unprepared: dict[str, None] = {}
        self.reading: dict[str, None] = {}
        self.stale: dict[str, None] = {}
        self.stale_children: dict[str, None] = {}
        self.stale_topics: dict[str, None] = {}

    @property
    def has_stale(self) -> bool:
        """Whether something has to be read."""
        return bool(self.stale or self.stale_children or self.stale_topics or self.unread)

    def count_stale(self) -> int:
        """How many znodes and lists are to be read again."""
        stale: list[Sized] = [self.stale, self.stale_children, self.stale_topics]
        return sum(map(len, [*stale, *self.unread.values()]))

    def fired(self, path: str, change: str) -> None:
        """Note the change of a znode."""
        if not self.is_watching:
            return
        if path.startswith(_TOPICS_PREFIX):
            self._note_topic_change(path)
        elif path in self.reading:
            # Of several znodes, this one may have been read before the change. A list was not: its
            # second read changes no decision, and stays so that recorded logs replay.
            (self.stale_children if path in LISTS else self.stale)[path] = None
        elif path in self.children:
            if change != "data":
                self.stale_children[path] = None
        elif path in self.znodes:
            if change == "deleted":
                self.znodes[path] = MISSING
                self.stale.pop(path, None)
            else:
                self.stale[path] = None

    def _note_topic_change(self, path: str) -> None:
        topic = znodes.topic_of(path)
        state = znodes.partition_of_state(path)
        if topic is not None:
            self.stale_topics[topic] = None
        elif state is not None and self.topics.get(state[0]) is not None:
            self.unread.setdefault(state[0], {})[state[1]] = None
            self._unprepare(state[0])

    def _unprepare(self, name: str) -> None:
        self.unprepared[name] = None
        self.unencoded.pop(name, None)
        if self.prepared.pop(name, None) is not None:
            topic = self.topics.get(name)
            assert topic is not None, "a prepared topic is known"
            unprepare(topic)

    # Reads that need no command

    def read(self, paths: Iterable[str], *, has_data: bool) -> ZnodeColumns | None:
        """The current znodes; None if one of them is not known."""
        if not self.is_watching:
            return None
        found = []
        for path in paths:
            if path in self.stale or path not in self.znodes:
                return None
            found.append(self.znodes[path])
        read = ZnodeColumns(len(found))
        read.errors = [one.error for one in found]
        read.data = [one.data if has_data else None for one in found]
        read.versions = [one.version for one in found]
        read.czxids = [one.czxid for one in found]
        read.mzxids = [one.mzxid for one in found]
        read.owners = [one.owner for one in found]
        return read

    def children_of(self, path: str) -> Children | None:
        """The current children of a znode; None if they are not known."""
        if not self.is_watching or path in self.stale_children or path not in self.children:
            return None
        listed = Children()
        listed.children = self.children[path].copy()
        return listed

    # Topics

    def put_topic(self, topic: Topic) -> None:
        """Note a topic that was read, and that is not known; the states of its partitions have to
        be read."""
        self.topics[topic.name] = topic
        self.mzxids[topic.name] = {}
        self.unprepared[topic.name] = None
        self.unread[topic.name] = dict.fromkeys(topic.partitions)

    def drop_topic(self, name: str) -> list[Topic]:
        """Forget a topic; returns it, if it was known."""
        topic = self.topics.pop(name, None)
        self.mzxids.pop(name, None)
        self.prepared.pop(name, None)
        self.unencoded.pop(name, None)
        self.unprepared.pop(name, None)
        self.unread.pop(name, None)
        self.unusable.pop(name, None)
        return [topic] if topic is not None else []

    def current_topic(self, name: str) -> Topic | None:
        """A topic whose assignment is current; None if the topic has to be read."""
        return None if name in self.stale_topics else self.topics.get(name)

    def adopt(self, context: ControllerContext, names: list[str]) -> list[str]:
        """Take the current ones of these topics into the context, where all topics get their
        places. Returns the topics that have to be read."""
        others = []
        for name in names:
            topic = self.current_topic(name)
            if topic is None:
                context.topic(name)
                others.append(name)
                continue
            context.topics[name] = topic
            if topic.id is not None:
                context.topics_by_id[topic.id] = topic
        return others

    def prepare_some(self, count: int) -> None:
        """Prepare topics, until about `count` partitions are prepared."""
        while self.unprepared and count > 0:
            name = next(iter(self.unprepared))
            del self.unprepared[name]
            topic = self.topics.get(name)
            if topic is None or name in self.unread or name in self.stale_topics:
                continue
            prepared = prepare(topic)
            if prepared is not None:
                self.prepared[name] = self.unencoded[name] = prepared
            count -= len(topic.partitions)

    def take_prepared(
        self, context: ControllerContext, changed: Iterable[Partition]
    ) -> dict[str, PreparedTopic]:
        """The prepared topics in the context of a failover whose brokers are all live, that are not
        being deleted, and that have no `changed` partition.

        Afterwards, nothing is prepared here: a state that changes from now on is handled by the
        controller, whose partitions must stay online.
        """
        for partition in changed:
            self._unprepare(partition.topic.name)
        usable: dict[str, PreparedTopic] = {}
        for name, one in self.prepared.items():
            if context.topics.get(name) is not one.topic:
                continue
            if name in context.queued_for_deletion or not one.brokers <= context.brokers.keys():
                unprepare(one.topic)
            else:
                usable[name] = one
        self.prepared, self.unencoded = {}, {}
        return usable

    def known_states(self, context: ControllerContext) -> Iterator[tuple[Partition, int]]:
        """The partitions of the context whose state is known, each with the transaction that wrote
        it."""
        for name, topic in self.topics.items():
            if topic is None or context.topics.get(name) is not topic:
                continue
            unread = self.unread.get(name, {})
            for number, mzxid in self.mzxids[name].items():
                if number not in unread:
                    yield topic.partitions[number], mzxid

    def unread_partitions(self, context: ControllerContext) -> list[Partition]:
        """The partitions of the context whose state has to be read, by topic and number. They have
        no leader until then."""
        found: list[Partition] = []
        for name in sorted(context.topics):
            topic = context.topics[name]
            if self.topics.get(name) is not topic:
                found += sorted(topic.assigned(), key=attrgetter("number"))
                continue
            for number in sorted(self.unread.get(name, {}) | self.unusable.get(name, {})):
                partition = topic.partitions.get(number)
                if partition is not None:
                    partition.leadership = None
                    found.append(partition)
        return found


def new_topic(name: str, content: znodes.TopicContent, version: int) -> Topic:
    """A topic as a failover makes it of its znode; no partition has a leader yet."""
    topic = Topic(name)
    topic.is_known, topic.id = True, content.topic_id
    topic.version = version if version >= 0 else ANY_VERSION
    for number, assignment in content.assignments.items():
        topic.partition(number).assignment = assignment
    return topic
