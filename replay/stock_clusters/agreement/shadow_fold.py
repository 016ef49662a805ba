"""The fold in the world of an imported log: it reads what is there, its writes wait."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from msgspec import structs

from controller.core import znodes
from controller.core.commands import (
    CloseChannel,
    DrawTopicIds,
    Issued,
    LeaderAndIsrRequest,
    ReadChildren,
    ReadZnodes,
    StopReplicaRequest,
    UpdateMetadataRequest,
    WriteAtomically,
    WriteZnodes,
)
from controller.core.configuration import Configuration
from controller.core.errors import ZnodeError
from controller.core.events import BrokerAnswered, SessionConnected, TopicIdsDrawn
from controller.core.triggers import Trigger
from replay.stock_clusters.agreement.batches import Batch
from replay.stock_clusters.agreement.broker_queues import BrokerQueues
from replay.stock_clusters.agreement.broker_requests.told import Told, told_of
from replay.stock_clusters.agreement.children_read import Listed
from replay.stock_clusters.agreement.index import Index
from replay.stock_clusters.agreement.inputs import Inputs
from replay.stock_clusters.agreement.logged_turns import LoggedTurns
from replay.stock_clusters.agreement.order import Chosen, Order, Turn
from replay.stock_clusters.agreement.stepped_fold import SteppedFold
from replay.stock_clusters.agreement.znode_view import (
    READS,
    Overlay,
    Read,
    Watches,
    ZnodeView,
    paths_of,
)
from replay.subjects import subject_of
from replay.world.tree import Znode

_NO_TOPIC_ID: Final = bytes(16)
_REQUESTS: Final = (LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest)
_SESSION_TIMEOUT_MS: Final = 6000
_NS_A_MS: Final = 1_000_000


class ShadowFold:
    """A fold that is beside one session of a broker.

    It waits for at most one thing: for `read` to be answered, or for `batch` to be settled. `sent`
    are its requests, `inputs` what it was told beside transactions, `cause` and `rule` what it is
    at, since record `since`, and `turn` the taking of it, or what it reads.
    """

    def __init__(
        self,
        session: int,
        configuration: Configuration,
        view: ZnodeView,
        index: Index,
        order: Order,
    ) -> None:
        self._session = session
        self._broker = configuration.broker_id
        self._view = view
        self._index = index
        self._order = order
        self._reads_since = 0
        self._fold = SteppedFold(configuration, LoggedTurns(self._next_writes))
        self._lacking: list[str] = []
        self._sent_counts: Counter[tuple[str, int]] = Counter()
        self._kafka_counts: Counter[tuple[str, int]] = Counter()
        self.controller = self._fold.controller
        self.watches = Watches()
        self.queues = BrokerQueues()
        self.sent: list[Told] = []
        self.inputs = Inputs()
        self.read: tuple[Issued, Read] | None = None
        self.turn = Turn(session, "", 0)
        self.batch: Batch | None = None
        self.listed: Listed | None = None
        self.overlay: Overlay = {}
        self.cause = self.rule = ""
        self.seq = self.since = self.now_ms = 0
        self.behind = 0
        """The last record whose writes are taken into account already."""

    @property
    def world(self) -> tuple[object, ...]:
        """What it shares with all others."""
        return (self._view, self._index, self._order)

    @property
    def doing(self) -> str:
        """The controller event that it is at, or was last, and the rule."""
        return f"{self.cause}: {self.rule}"

    @property
    def is_running(self) -> bool:
        """Whether a controller event is under way."""
        return self._fold.is_running

    @property
    def is_failing_over(self) -> bool:
        """Whether it is at what a new controller does first."""
        return self.is_running and self.cause in ("Startup", "Reelect")

    @property
    def is_active(self) -> bool:
        """Whether it holds the role."""
        return self.controller.is_active

    @property
    def epoch(self) -> int:
        """The controller epoch that it holds, 0: none."""
        return self._fold.term

    def at(self, seq: int, time_ms: int) -> None:
        """The log has come to a record."""
        self.seq, self.now_ms, self.behind = seq, time_ms, seq - 1

    def content(self, path: str) -> bytes | None:
        """What a znode holds now, None where it is not there."""
        znode = self._view.find(path)
        return None if znode is None else znode.data

    def owner_of(self, path: str) -> int:
        """The session that an ephemeral znode belongs to, 0 where it is not there."""
        znode = self._view.find(path)
        return 0 if znode is None else znode.owner

    def connect(self) -> None:
        """Its session begins."""
        connected = SessionConnected(self._session, _SESSION_TIMEOUT_MS, "", renewed=False)
        self._take(self._fold.tell(connected, self.now_ms))

    def begin(self, trigger: Trigger, turn: Turn) -> None:
        """Handle a controller event up to where it waits."""
        self.cause, self.turn = turn.event, turn
        self._reads_since = self.seq
        self.since = self.seq
        self.inputs.add(self.seq, self.now_ms * _NS_A_MS, trigger)
        self._take(self._fold.begin(trigger, self.now_ms))

    def queued(self) -> list[Trigger]:
        """Take what it has queued itself."""
        triggers = self._fold.queued
        self.controller.triggers.clear()
        return triggers

    def answer(self) -> None:
        """What it waits to read is as it is now."""
        assert self.read is not None, "nothing is read"
        issued, command = self.read
        self.read = None
        self._order.choose(self._chosen(command))
        listed = self._listed(command.path) if isinstance(command, ReadChildren) else None
        if isinstance(command, ReadZnodes):
            self._note_lacking(command)
        overlay = {**self.overlay, **self._as_told(command)}
        outcome = self._view.answer(issued, command, overlay, listed)
        self.watches.arm(command, self._view)
        self._take(self._fold.tell(outcome, self.now_ms))

    def _chosen(self, command: Read) -> Chosen:
        """When what is read now was read: a failover's as late as allowed."""
        has_debug = self._index.has_debug(self._broker, self._session)
        return Chosen(
            self.turn,
            self._broker,
            self._reads_since,
            self.seq,
            paths_of(command),
            is_latest=self.is_failing_over,
            is_logged=has_debug and not self.is_failing_over,
        )

    def answer_all(self) -> None:
        """Read on, up to the next write or the end."""
        while self.read is not None:
            self.answer()

    def deliver(self) -> None:
        """Go on, if all writes are settled."""
        outcome = self.batch.outcome if self.batch is not None else None
        if outcome is not None:
            self.batch = None
            self._reads_since = self.seq
            self._take(self._fold.tell(outcome, self.now_ms))

    def hear(self, answer: BrokerAnswered) -> None:
        """A broker has answered."""
        self.inputs.add(self.seq, self.now_ms * _NS_A_MS, answer)
        self._take(self._fold.tell(answer, self.now_ms))

    def catch_up(self, told: Told) -> None:
        """Kafka has sent this: so has the fold, as far as no write has to come first."""
        self._kafka_counts[told.kind, told.broker] += 1
        self.read_up(told)

    def read_up(self, told: Told) -> None:
        """Read on until as many requests of this kind were sent as Kafka has sent."""
        while self.is_behind(told) and self.read is not None:
            self.answer()

    def is_behind(self, told: Told) -> bool:
        """Whether Kafka has sent more requests of this kind to this broker."""
        key = (told.kind, told.broker)
        return self._sent_counts[key] < self._kafka_counts[key]

    def beside(self, told: Told) -> Told:
        """The request, with what the fold is at."""
        return structs.replace(told, cause=self.doing, since=self.since)

    def _take(self, issued: Iterable[Issued]) -> None:
        """What the fold wants done."""
        for one in issued:
            command = one.command
            self.rule = one.reason.rule
            if isinstance(command, READS):
                self.read = (one, command)
                self.turn = self.turn._replace(read=self.turn.read + 1)
            elif isinstance(command, (WriteZnodes, WriteAtomically)):
                is_atomic = isinstance(command, WriteAtomically)
                self.batch = Batch(one.id, command.operations, self._view, is_atomic=is_atomic)
            elif isinstance(command, _REQUESTS):
                told = self.beside(told_of(command, self.seq))
                self.sent.append(told)
                self._sent_counts[told.kind, told.broker] += 1
                self.queues.add(one.id, command, self.now_ms)
            elif isinstance(command, CloseChannel):
                self.queues.close(command.broker)
            elif isinstance(command, DrawTopicIds):
                drawn = TopicIdsDrawn(one.id, self._drawn(command.count))
                self.inputs.add(self.seq, self.now_ms * _NS_A_MS, drawn)
                self._take(self._fold.tell(drawn, self.now_ms))

    def _listed(self, path: str) -> tuple[str, ...] | None:
        """The children that were read, where a line tells."""
        if self.listed is not None and self.listed[0] == path:
            return self.listed[1]
        if path == znodes.TOPICS and self.is_failing_over:
            return self._index.topics_read.told(self._broker, self.seq)
        return None

    def _as_told(self, command: Read) -> Overlay:
        """States that were older when they were read, as lines tell."""
        older: dict[str, Znode | None] = {}
        for path in command.paths if isinstance(command, ReadZnodes) else ():
            told = self._index.states_read.version(self._broker, self.epoch, path, self.seq)
            now = None if told is None else self._view.find(path)
            if now is not None and told is not None and told < now.version:
                older[path] = self._view.find_earlier(path, told) or now
        return older

    def _note_lacking(self, command: ReadZnodes) -> None:
        """Topics that are read and have no id, in the order in which ids are drawn for them."""
        found: list[str] = []
        for path in command.paths:
            subject = subject_of(path)
            znode = self._view.find(path) if subject.kind == "topic" else None
            if subject.topic and znode is not None and _lacks_id(subject.topic, znode.data):
                found.append(subject.topic)
        self._lacking = found or self._lacking

    def _drawn(self, count: int) -> list[bytes]:
        """The ids that Kafka drew."""
        ids = [self._index.next_topic_id(name, self.seq - 1) for name in self._lacking[:count]]
        known = [one or _NO_TOPIC_ID for one in ids]
        return known + [_NO_TOPIC_ID] * (count - len(known))

    def _next_writes(self) -> dict[tuple[str, int], int]:
        return self._index.first_writes(self._session, self.behind)


def _lacks_id(name: str, data: bytes) -> bool:
    try:
        content = znodes.read_topic(name, data)
    except ZnodeError:
        return False
    return content.topic_id is None and bool(content.assignments)
