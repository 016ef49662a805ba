"""A fold that follows one session of a stock controller in an imported log.

It reads the log's ZooKeeper. Its writes wait until they are compared with Kafka's.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

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
from controller.core.events import (
    BrokerResponded,
    SessionConnected,
    TopicIdsDrawn,
    ZnodesWritten,
)
from controller.core.operations import FENCED
from controller.core.triggers import Trigger
from replay.agreement.assumptions import Choices, ControllerStep, OpenChoice
from replay.agreement.broker_requests.sent_request import (
    SentRequest,
    sent_request_of,
)
from replay.agreement.cause import FoldCause
from replay.agreement.decisions.write_batch import WriteBatch
from replay.agreement.logs.index import BrokerLogIndex
from replay.agreement.logs.logged_reads import (
    ListedChildren,
    brokers_read_by_failover,
    reads_after,
)
from replay.agreement.logs.markers import LogMarker
from replay.agreement.processing_order import LoggedProcessingOrder
from replay.agreement.trace.broker_queues import BrokerQueues
from replay.agreement.trace.fold_inputs import FoldInputs
from replay.agreement.trace.stepped_fold import SteppedFold
from replay.checkpoint import Checkpointed
from replay.parsed_znodes import parsed_topic
from replay.subjects import subject_of
from replay.znode_tree.tree import Znode
from replay.znode_view import (
    READS,
    ControllerWatches,
    Overlay,
    Read,
    ZnodeView,
    paths_of,
)

_NO_TOPIC_ID: Final = bytes(16)
_REQUESTS: Final = (LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest)
_SESSION_TIMEOUT_MS: Final = 6000
_NS_A_MS: Final = 1_000_000


class WaitStart(NamedTuple):
    """When a fold began to wait: a record, its time, and the last transaction by then."""

    seq: int
    ms: int
    zxid: int


class ShadowFold(Checkpointed):
    """The fold of one session of a broker.

    It waits for at most one thing: a reply to `read`, or the outcome of `batch`. `sent` has its
    requests to brokers, `inputs` its other inputs. `event` and `rule` are the controller event and
    the rule that it is processing, since record `since`; `step` is the beginning of that event, or
    the last read for it.
    """

    STATE = (
        "_fold",
        "_reads_since",
        "_topics_without_id",
        "_sent_counts",
        "_kafka_counts",
        "watches",
        "queues",
        "sent",
        "fenced",
        "inputs",
        "read",
        "step",
        "batch",
        "listed",
        "overlay",
        "event",
        "rule",
        "seq",
        "since",
        "now_ms",
        "settled_seq",
        "zxid",
        "waiting",
    )

    def __init__(
        self,
        session: int,
        configuration: Configuration,
        view: ZnodeView,
        index: BrokerLogIndex,
        choices: Choices,
    ) -> None:
        self._session = session
        self._broker = configuration.broker_id
        self._view = view
        self._index = index
        self._choices = choices
        self._reads_since = 0
        self._fold = SteppedFold(configuration, LoggedProcessingOrder(self._next_writes))
        self._topics_without_id: list[str] = []
        self._sent_counts: Counter[tuple[str, int]] = Counter()
        self._kafka_counts: Counter[tuple[str, int]] = Counter()
        self.controller = self._fold.controller
        self.watches = ControllerWatches()
        self.queues = BrokerQueues()
        self.sent: list[SentRequest] = []
        self.fenced: list[ZnodesWritten] = []
        """The outcomes with writes that were fenced."""
        self.inputs = FoldInputs()
        self.read: tuple[Issued, Read] | None = None
        self.step = ControllerStep(session, "", 0)
        self.batch: WriteBatch | None = None
        self.listed: ListedChildren | None = None
        """The children that the next read of this path returns."""
        self.overlay: Overlay = {}
        self.event = self.rule = ""
        self.seq = self.since = self.now_ms = 0
        self.settled_seq = 0
        """The last record whose writes the fold has taken into account."""
        self.zxid = 0
        """The last transaction that the log has reached."""
        self.waiting = WaitStart(0, 0, 0)
        """Since when it waits for the reply to its last read or the outcome of its last batch."""

    @property
    def cause(self) -> FoldCause:
        """The controller event and the rule that it is processing."""
        return FoldCause(self.event, self.rule)

    @property
    def is_running(self) -> bool:
        """Whether a controller event is in progress."""
        return self._fold.is_running

    @property
    def is_failing_over(self) -> bool:
        """Whether a failover is in progress."""
        return self.is_running and self.event in ("Startup", "Reelect")

    @property
    def is_active(self) -> bool:
        """Whether it is the active controller."""
        return self.controller.is_active

    @property
    def epoch(self) -> int:
        """The controller epoch that it holds, 0 if none."""
        return self._fold.term

    def advance(self, seq: int, time_ms: int, zxid: int) -> None:
        """The log has reached a record, after a transaction."""
        self.seq, self.now_ms, self.settled_seq, self.zxid = seq, time_ms, seq - 1, zxid

    def content(self, path: str) -> bytes | None:
        """A znode's present content, None if it does not exist."""
        znode = self._view.find(path)
        return None if znode is None else znode.data

    def owner_of(self, path: str) -> int:
        """The session that owns an ephemeral znode, 0 if it does not exist."""
        znode = self._view.find(path)
        return 0 if znode is None else znode.owner

    def connect(self) -> None:
        """Begin the session."""
        connected = SessionConnected(self._session, _SESSION_TIMEOUT_MS, "", renewed=False)
        self._note_issued(self._fold.feed(connected, self.now_ms))

    def begin(self, trigger: Trigger, step: ControllerStep) -> None:
        """Process a controller event up to its first wait."""
        self.event, self.step = step.event, step
        self._reads_since = self.seq
        self.since = self.seq
        self.inputs.add(self.seq, self.now_ms * _NS_A_MS, trigger)
        self._note_issued(self._fold.begin(trigger, self.now_ms))

    def take_queued(self) -> list[Trigger]:
        """Remove and return the events that the fold has queued itself."""
        triggers = self._fold.queued
        self.controller.triggers.clear()
        return triggers

    def answer(self) -> None:
        """Answer the read with what ZooKeeper holds now."""
        assert self.read is not None, "nothing is read"
        issued, command = self.read
        self.read = None
        self._choices.record(self._read_choice(command))
        listed = self._logged_children(command.path) if isinstance(command, ReadChildren) else None
        if isinstance(command, ReadZnodes):
            self._note_topics_without_id(command)
        overlay = {**self.overlay, **self._states_at_logged_versions(command)}
        outcome = self._view.answer(issued, command, overlay, listed)
        self.watches.set_for_read(command, self._view)
        self._note_issued(self._fold.feed(outcome, self.now_ms))

    def answer_without(self, path: str) -> None:
        """Answer the read as if a znode did not exist."""
        overlay, self.overlay = self.overlay, {**self.overlay, path: None}
        if self.read is not None:
            self.answer()
        self.overlay = overlay

    def _read_choice(self, command: Read) -> OpenChoice:
        """When this read happens; a failover reads as late as possible."""
        has_debug = self._index.has_debug(self._broker, self._session)
        return OpenChoice(
            self.step,
            self._broker,
            self._reads_since,
            self.seq,
            paths_of(command),
            is_latest=self.is_failing_over,
            is_logged=has_debug and not self.is_failing_over,
        )

    def answer_all(self) -> None:
        """Answer reads up to the next write or the end of the event."""
        while self.read is not None:
            self.answer()

    def deliver(self) -> None:
        """Return the batch's outcome to the fold if all writes are settled."""
        outcome = self.batch.outcome if self.batch is not None else None
        if outcome is not None:
            if FENCED in outcome.errors:
                self.fenced.append(outcome)
            self.batch = None
            self._reads_since = self.seq
            self._note_issued(self._fold.feed(outcome, self.now_ms))

    def take_sent(self) -> list[SentRequest]:
        """Remove and return the requests that were sent so far, and forget all inputs."""
        taken, self.sent = self.sent, []
        self.inputs.clear()
        self.fenced.clear()
        return taken

    def receive_response(self, response: BrokerResponded) -> None:
        """A broker has answered."""
        self.inputs.add(self.seq, self.now_ms * _NS_A_MS, response)
        self._note_issued(self._fold.feed(response, self.now_ms))

    def receive_deletion_responses(self, marker: LogMarker) -> None:
        """The line of a controller event reports that brokers have deleted replicas."""
        for broker in marker.brokers:
            topics, error, failed = {*marker.topics}, marker.error, marker.failed
            answer = self.queues.answer_deletion(broker, topics, error, failed)
            if answer is not None:
                self.receive_response(answer)

    def answer_reads_before(self, text: str) -> None:
        """The log has reached a line of a failover: answer the reads that come before it."""
        self.listed = brokers_read_by_failover(text)
        paths = reads_after(text)
        while paths and self.read is not None and self.is_failing_over:
            command = str(self.read[1])
            if any(path in command for path in paths):
                break
            self.answer()
        self.listed = None

    def catch_up(self, stock: SentRequest) -> None:
        """Kafka has sent a request: continue until the fold has, or until it waits for a write."""
        self._kafka_counts[stock.kind, stock.broker] += 1
        self.read_until_sent(stock)

    def read_until_sent(self, stock: SentRequest) -> None:
        """Answer reads until the fold has sent as many requests of this kind as Kafka."""
        while self.has_sent_fewer(stock) and self.read is not None:
            self.answer()

    def has_sent_fewer(self, stock: SentRequest) -> bool:
        """Whether Kafka has sent more requests of this kind to this broker."""
        key = (stock.kind, stock.broker)
        return self._sent_counts[key] < self._kafka_counts[key]

    def with_cause(self, request: SentRequest) -> SentRequest:
        """The request, with the event and rule that the fold is processing."""
        return structs.replace(request, cause=self.cause, since=self.since)

    def _note_issued(self, issued: Iterable[Issued]) -> None:
        """Carry out the fold's commands."""
        for one in issued:
            command = one.command
            self.rule = one.reason.rule
            if isinstance(command, READS):
                self.read = (one, command)
                self.waiting = WaitStart(self.seq, self.now_ms, self.zxid)
                self.step = self.step._replace(read=self.step.read + 1)
            elif isinstance(command, (WriteZnodes, WriteAtomically)):
                is_atomic = isinstance(command, WriteAtomically)
                self.batch = WriteBatch(one.id, command.operations, self._view, is_atomic=is_atomic)
                self.waiting = WaitStart(self.seq, self.now_ms, self.zxid)
            elif isinstance(command, _REQUESTS):
                request = self.with_cause(sent_request_of(command, self.seq))
                self.sent.append(request)
                self._sent_counts[request.kind, request.broker] += 1
                self.queues.add(one.id, command, self.now_ms)
            elif isinstance(command, CloseChannel):
                self.queues.close(command.broker)
            elif isinstance(command, DrawTopicIds):
                drawn = TopicIdsDrawn(one.id, self._drawn_ids(command.count))
                self.inputs.add(self.seq, self.now_ms * _NS_A_MS, drawn)
                self._note_issued(self._fold.feed(drawn, self.now_ms))

    def _logged_children(self, path: str) -> tuple[str, ...] | None:
        """The children that were listed, if a log line shows them."""
        if self.listed is not None and self.listed[0] == path:
            return self.listed[1]
        if path == znodes.TOPICS and self.is_failing_over:
            return self._index.topics_read.listed(self._broker, self.seq)
        return None

    def _states_at_logged_versions(self, command: Read) -> Overlay:
        """Partition states that were older when they were read, by log lines."""
        older: dict[str, Znode | None] = {}
        for path in command.paths if isinstance(command, ReadZnodes) else ():
            version = self._index.states_read.version(self._broker, self.epoch, path, self.seq)
            now = None if version is None else self._view.find(path)
            if now is not None and version is not None and version < now.version:
                older[path] = self._view.find_earlier(path, version) or now
        return older

    def _note_topics_without_id(self, command: ReadZnodes) -> None:
        """Note the topics that need an id, in the order in which ids are drawn for them."""
        found: list[str] = []
        for path in command.paths:
            subject = subject_of(path)
            znode = self._view.find(path) if subject.kind == "topic" else None
            if subject.topic and znode is not None and _lacks_id(subject.topic, znode.data):
                found.append(subject.topic)
        self._topics_without_id = found or self._topics_without_id

    def _drawn_ids(self, count: int) -> list[bytes]:
        """The ids that Kafka drew."""
        names = self._topics_without_id[:count]
        ids = [self._index.next_topic_id(name, self.seq - 1) for name in names]
        known = [one or _NO_TOPIC_ID for one in ids]
        return known + [_NO_TOPIC_ID] * (count - len(known))

    def _next_writes(self) -> dict[tuple[str, int], int]:
        return self._index.first_writes(self._session, self.settled_seq)


def _lacks_id(name: str, data: bytes) -> bool:
    content = parsed_topic(name, data)
    return content is not None and content.topic_id is None and bool(content.assignments)
