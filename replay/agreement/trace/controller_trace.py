"""One session of a stock controller, reconstructed from the logs, with a fold that follows it.

The logs do not record which event a controller processed when, or what it read. They do record its
writes and some of its log lines. Therefore the fold continues only as far as the log shows the
controller to be: up to a write of its session (`decide`), or to a line of its thread
(`on_event_line`). A read is answered as late as possible, with what ZooKeeper holds when the next
of these is reached.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from controller.core import znodes
from controller.core.configuration import Configuration
from controller.core.operations import NO_NODE
from controller.core.triggers import (
    BrokerChange,
    ConfigChange,
    ControllerChange,
    LogDirEventNotification,
    Reelect,
    Startup,
    Trigger,
    ZkPartitionReassignment,
    trigger_name,
    trigger_of,
)
from replay.agreement.assumptions import Choices
from replay.agreement.broker_requests.sent_request import SentRequest
from replay.agreement.decisions.judgements import Judgement
from replay.agreement.decisions.write_batch import StockDecision, WriteBatch
from replay.agreement.logs.broker_responses import Response
from replay.agreement.logs.index import BrokerLogIndex
from replay.agreement.logs.inferred_requests import api_calls_of
from replay.agreement.logs.logged_reads import (
    children_read_by_event,
    is_failed_failover,
)
from replay.agreement.logs.markers import (
    READS_BEFORE_LINE,
    LocatedMarker,
    LogMarker,
    is_about_ids,
    is_at_same_ms,
    is_before_write,
    trigger_for,
)
from replay.agreement.trace.compared_writes import ComparedWrites
from replay.agreement.trace.inferred_triggers import InferredTriggers
from replay.agreement.trace.pending_events import PendingEvents
from replay.agreement.trace.shadow_fold import ShadowFold
from replay.agreement.trace.write_ahead import WriteAhead
from replay.checkpoint import Checkpoint, Checkpointed
from replay.stock_clusters.imported_log.events import RequestInferred
from replay.znode_view import Change, Overlay, ZnodeView

_LAG_MS: Final = 3
"""An event without a line is processed this long after it arrived."""
_READ_MS: Final = 1
"""The duration of a read."""
_NO_OVERLAY: Final[Overlay] = {}
_BEGINNING: Final = 0
_CHECKPOINT_PARTITIONS_MAX: Final = 5_000
"""A checkpoint of a larger cluster costs more than it is worth."""
_BY_CONFIGURATION: Final = ("UncleanLeaderElectionEnable", "TopicUncleanLeaderElectionEnable")
_REASSIGNMENT_REQUEST: Final = "AlterPartitionReassignments"
_ELECTIONS: Final = ("Elected", "NotElected", "Started")


class ControllerTrace(Checkpointed):
    """A session that takes part in controller elections, and the fold that follows it."""

    STATE = (
        "fold",
        "compared",
        "ahead",
        "unknown_calls",
        "_pending",
        "_triggers",
        "_inferred",
        "_mark_zxid",
        "_last_election_seq",
        "_has_failed",
        "free_ms",
        "_is_connected",
        "_delivered",
        "_begun",
        "_is_in_request",
    )

    def __init__(
        self,
        session: int,
        broker: int,
        configuration: Configuration,
        view: ZnodeView,
        index: BrokerLogIndex,
        choices: Choices,
    ) -> None:
        self.session = session
        self.broker = broker
        self.fold = ShadowFold(session, configuration, view, index, choices)
        self.compared = ComparedWrites(session, broker, self.fold, index)
        self.ahead = WriteAhead(self.fold, self.compared, choices)
        self.unknown_calls: dict[int, int] = {}
        """By epoch, the first record that reports a request that no log has."""
        self._view = view
        self._index = index
        self._choices = choices
        self._pending = PendingEvents(session, broker, self.fold.controller, index, choices)
        self._triggers = InferredTriggers(session, broker, self.fold, self._pending, index)
        self._inferred: list[Trigger] = []
        self._mark_zxid = 0
        self._last_election_seq = 0
        self._has_failed = False
        self.free_ms = 0
        """When it last began an event or wrote something."""
        self._is_connected = False
        self._delivered: WriteBatch | None = None
        self._begun: Trigger | None = None
        self._is_in_request = False
        """Whether the last write belongs to a reassignment request that may continue."""
        self.checkpoint: Checkpoint | None = None

    @property
    def judgements(self) -> list[Judgement]:
        """The verdict on each decision so far."""
        return self.compared.judgements

    @property
    def epoch(self) -> int:
        """The controller epoch that the fold holds, 0 if none."""
        return self.fold.epoch

    # The records of the log -----------------------------------------------------------------------

    def advance(self, seq: int, time_ms: int, zxid: int) -> None:
        """The log has reached a record, after a transaction."""
        self._note(self.advance, seq, time_ms, zxid)
        self.fold.advance(seq, time_ms, zxid)
        self._pending.advance_to(seq)
        while self.fold.read is not None and self._choices.is_due(self.fold.step, seq):
            self.fold.answer()
        self._pending.admit_requests(time_ms, is_active=self.fold.is_active)
        if self.fold.is_active:
            self._renew_watch()
            if not self._pending.has_debug:
                self._pending.release((), self.compared.next_paths)
                self._triggers.answer()
                self._process_unlogged(time_ms)

    def change(self, changes: Sequence[Change]) -> None:
        """A transaction has changed znodes: the controller's watches fire."""
        self._note(self.change, changes)
        for path, what in self.fold.watches.fire(changes):
            trigger = trigger_of(path, what)
            if trigger is not None:
                self._pending.add(trigger, self.fold.now_ms)

    def answered(self, response: Response) -> None:
        """A broker has answered the first request of a kind that it was sent."""
        self._note(self.answered, response)
        queues = self.fold.queues
        broker, api, error, failed, broker_epoch = response
        if queues.is_for_other_run(broker, broker_epoch) or queues.take_known(broker, api):
            return
        while not queues.has(broker, api) and self.fold.read is not None:
            # The request was sent before its response.
            self.fold.answer()
        if (found := queues.answer(broker, api, error, failed)) is not None:
            self.fold.receive_response(found)
            self._collect()

    def kafka_sent(self, stock: SentRequest) -> None:
        """The controller has sent a request: continue until the fold has, or until it waits for a
        write.

        A controller reports failed log directories before it writes; the last event before the
        request may have no line.
        """
        self.fold.catch_up(stock)
        if not self.fold.has_sent_fewer(stock) or self.fold.is_running:
            return
        live = self._index.brokers_read.listed(self.broker, self.epoch, stock.seq)
        if live is not None and not self._pending.is_logged(BrokerChange()):
            # A broker that was not read yet then fired the watch that the read had set.
            self._pending.add(BrokerChange(), self.fold.now_ms)
        for one in self._pending:
            if self._pending.is_log_over or self._shows_by_requests(one, LogDirEventNotification):
                self.fold.listed = live if isinstance(one, BrokerChange) else None
                self._begin(one)
                self.fold.read_until_sent(stock)
        self.fold.listed = None

    def served(self, number: int) -> None:
        """A request was answered: the controller has processed it."""
        self._note(self.served, number)
        if (call := self._pending.served(number, self.fold.now_ms)) is not None:
            # One thread processes all events, so it has finished reading for the earlier ones.
            self.fold.answer_all()
            if not self.fold.is_running:
                self._begin(call)
                self.fold.answer_all()

    def infer(self, found: RequestInferred) -> None:
        """Writes show a request, which arrived just before the first of them."""
        self._note(self.infer, found)
        self._inferred += api_calls_of(found, self.fold.controller.context)

    # The progress of the controller ---------------------------------------------------------------

    def decide(self, decision: StockDecision, overlay: Overlay = _NO_OVERLAY) -> None:
        """Continue until the fold has made this decision, too, or cannot have."""
        is_gone = decision.what == "refused" and decision.error == NO_NODE
        self.fold.overlay = self._view.deleted_since(self._mark_zxid) if is_gone else overlay
        if decision.what == "fenced" and self.fold.is_failing_over:
            self.fold.overlay = self._view.role_of(self.session)
        judgement = self._decide(decision)
        self._is_in_request = self.fold.event == _REASSIGNMENT_REQUEST
        last = self._delivered
        if judgement.verdict == "missing" and last is not None and last.can_repeat(decision):
            # Kafka repeats a write whose reply was lost.
            self._choices.record_repeated(self._mark_zxid)
        self.checkpoint = None
        self._pending.release_unnamed()
        self.fold.overlay = _NO_OVERLAY
        self._mark_zxid = decision.zxid
        self.free_ms = decision.time_ms
        self.compared.add(judgement, decision)

    def on_event_line(self, marker: LogMarker) -> None:
        """A line shows that the controller began an event."""
        if marker.event in _ELECTIONS:
            return
        if self._pending.accept_within_event(marker, self.fold, has_failed=self._has_failed):
            return
        self._is_in_request = False
        if self.fold.batch is not None:
            self._go_back()
        self._finish()
        if marker.event != "Resignation" or self.fold.is_active:
            self._begin_logged(marker)

    def on_failover_line(self, text: str) -> None:
        """A line of a failover: the reads before it are done."""
        self._has_failed = self._has_failed or is_failed_failover(text)
        self.fold.answer_reads_before(text)

    def _shows_by_requests(self, trigger: Trigger, *more: type[Trigger]) -> bool:
        """Whether state-change.log shows when an event was processed."""
        if not isinstance(trigger, (BrokerChange, *more)) or self._pending.is_logged(trigger):
            return False
        return (self.broker, self.epoch) in self._index.state_changes_of

    def _process_unlogged(self, now_ms: int) -> None:
        """Process the events without a line as soon as possible, one after another."""
        until_ms = now_ms - _LAG_MS
        while self.fold.batch is None:
            self._collect()
            if self.fold.read is not None:
                if self._choices.is_early(self.fold.step, self.fold.seq):
                    return
                if self.fold.is_failing_over or self.free_ms + _READ_MS > now_ms:
                    return
                self.fold.answer()
                self.free_ms += _READ_MS
                continue
            following = self._pending.next_unlogged(until_ms)
            if following is None or self.free_ms > now_ms:
                return
            if self._shows_by_requests(following) and not self._pending.is_due(following):
                return
            self._take_checkpoint(following)
            began_ms = max(self.free_ms, self._pending.arrived_ms(following) + _LAG_MS)
            self._begin(following)
            self.free_ms = began_ms

    def _renew_watch(self) -> None:
        """Read at once where this only sets a watch again; otherwise the next change is missed."""
        if self.fold.is_running:
            return
        for one in self._pending:
            if isinstance(one, ZkPartitionReassignment) and not one.created:
                self._process_now([one])

    def _begin_logged(self, marker: LogMarker) -> None:
        """Begin the event that a line shows, after the events before it that leave no line."""
        self._collect()
        if marker.event in _BY_CONFIGURATION:
            # The broker has read the configuration change by then.
            self._process_now([one for one in self._pending if isinstance(one, ConfigChange)])
        trigger = self._pending.event_of(marker, self.fold.now_ms)
        if trigger is None and marker.event == "TopicDeletionStopReplicaResponseReceived":
            # The line reports a response that no other log has reported yet.
            self._finish()
            self.fold.receive_deletion_responses(marker)
            self._collect()
            trigger = self._pending.event_of(marker, self.fold.now_ms)
        if trigger is not None:
            is_deposed = self.fold.owner_of(znodes.CONTROLLER) != self.session
            for one in self._pending.unlogged_before(trigger, is_deposed=is_deposed):
                self._process_unless_early(one)
        trigger = trigger or trigger_for(marker)
        if trigger is None:
            if marker.event == "AlterPartitionReceived":
                self.unknown_calls.setdefault(self.epoch, self.fold.seq)
            return
        known_topics = self.fold.controller.context.known_topics()
        self.fold.listed = children_read_by_event(marker, known_topics)
        is_by_znode = isinstance(trigger, ZkPartitionReassignment)
        if is_by_znode and self._view.find(znodes.REASSIGN_PARTITIONS) is None:
            # The line names the znode's content, so it was read before it was deleted.
            self.fold.overlay = self._view.deleted_since(_BEGINNING)
        self._begin(trigger)
        if marker.event in READS_BEFORE_LINE or is_by_znode:
            self.fold.answer_all()
        self.fold.listed = None
        self.fold.overlay = _NO_OVERLAY

    def _process_now(self, triggers: Iterable[Trigger]) -> None:
        for one in triggers:
            self._begin(one)
            self._finish()
        self._collect()

    def _process_unless_early(self, trigger: Trigger) -> None:
        """Process an event without a line.

        A reassignment request may have arrived later than its log says. Then Kafka makes its writes
        later, and the request waits.
        """
        if trigger_name(trigger) != _REASSIGNMENT_REQUEST:
            self._process_now([trigger])
            return
        self._take_checkpoint(trigger)
        self._begin(trigger)
        self.fold.answer_all()
        paths = self.fold.batch.paths() if self.fold.batch else ()
        if paths and self.compared.are_written_later(paths) and self._go_back():
            return
        self.checkpoint = None
        self._finish()
        self._collect()

    # Advancing the fold ---------------------------------------------------------------------------

    def _decide(self, decision: StockDecision) -> Judgement:
        if decision.what == "fenced" and isinstance(self._begun, (ControllerChange, Reelect)):
            # The controller had not noticed yet that it was deposed.
            self._go_back()
        if (early := self.ahead.claim_early_write(decision)) is not None:
            return self.compared.judge(decision, early)
        while True:
            self.ahead.deliver_before_early_writes()
            if self.fold.batch is not None:
                differences = self.fold.batch.claim(decision, self._mark_zxid)
                if differences is not None:
                    return self._claim_write(decision, differences)
                if self.compared.are_written_later(self.fold.batch.paths()):
                    if self.ahead.write_up_to(decision, self._mark_zxid) or self._go_back():
                        continue
                    if self.ahead.claim_repeated(decision):
                        return self._claim_write(decision, ())
                    return self.compared.judge(decision, (), "missing")
                self.compared.skip_batch()
            elif self.fold.read is not None:
                self.fold.answer()
            elif not self._begin_next(decision):
                return self.compared.judge(decision, (), "missing")

    def _claim_write(self, decision: StockDecision, differences: Sequence[str]) -> Judgement:
        """The fold makes this write, too. It receives the outcome unless the reply was lost."""
        judgement = self.compared.judge(decision, differences)
        self._delivered = self.fold.batch
        self.ahead.claimed(decision)
        return judgement

    def _begin_next(self, decision: StockDecision) -> bool:
        """Begin the next controller event; False if there is none."""
        if decision.what in ("election", "controller_epoch") and not self.fold.is_active:
            return self._stand_for_election(decision)
        self._collect()
        if self._inferred:
            self._begin_inferred(self._inferred.pop(0), decision)
            self._index.consume_after_write(self.broker, self.session, decision)
            return True
        paths = [path for path, _ in decision.operations]
        held = self._pending.release(paths, self.compared.next_paths)
        if held is not None:
            self._begin(held)
            return True
        if self._begin_due(decision, is_about_ids) or self._begin_due(decision, is_before_write):
            return True
        trigger = self._pending.next_unlogged()
        if trigger is None and self._begin_due(decision, is_at_same_ms):
            return True
        if trigger is not None and not self._pending.has_debug:
            self._take_checkpoint(trigger)
        if not self._index.has_markers(self.broker, self.session, self.fold.seq):
            # A process that was killed had no time to log what it had begun.
            trigger = trigger or self._pending.first()
        trigger = trigger or self._pending.request_causing(decision, self.fold.now_ms)
        if trigger is not None:
            self._begin(trigger)
            return True
        trigger = self._triggers.next_trigger(decision)
        if trigger is not None:
            self._begin_inferred(trigger, decision)
        return trigger is not None

    def _stand_for_election(self, decision: StockDecision) -> bool:
        """Take part in an election, once for each decision about one."""
        if not self._is_connected:
            self._is_connected = True
            self.fold.connect()
            self._begin(Startup())
            return True
        if self._last_election_seq == decision.seq:
            return False
        self._last_election_seq = decision.seq
        self._has_failed = False
        self._pending.clear()
        self._begin(Reelect())
        return True

    def _begin_due(
        self, decision: StockDecision, is_due: Callable[[LocatedMarker, StockDecision], bool]
    ) -> bool:
        """Begin the event of the next line, if the line follows the write but the event does
        not."""
        following = self._index.next_marker(self.broker, self.session, self.fold.seq)
        if following is None or not is_due(following, decision):
            return False
        self._index.consume(following)
        self._begin_logged(following.marker)
        return True

    def _begin_inferred(self, trigger: Trigger, decision: StockDecision) -> None:
        """Begin an event that a decision shows. A reassignment request first writes
        /admin/reassign_partitions, once: other writes continue the request in progress."""
        is_for_more = self._is_in_request and trigger_name(trigger) == _REASSIGNMENT_REQUEST
        self._begin(trigger)
        if is_for_more and all(
            path != znodes.REASSIGN_PARTITIONS for path, _ in decision.operations
        ):
            self.fold.answer_without(znodes.REASSIGN_PARTITIONS)

    def _begin(self, trigger: Trigger) -> None:
        self.free_ms = self.fold.now_ms
        self._begun = trigger
        self.ahead.begin_event()
        step = self._pending.step_of(trigger)
        self._pending.record_choice(trigger, self.fold.now_ms)
        self.fold.begin(self._pending.take(trigger), step)

    def _collect(self) -> None:
        """Queue the events that the fold has queued itself with the others."""
        self._pending.extend(self.fold.take_queued(), self.fold.now_ms)

    def _finish(self) -> None:
        """Bring the event in progress to its end: the controller has begun another one."""
        while self.fold.batch is not None or self.fold.read is not None:
            if self.fold.batch is not None:
                self.compared.skip_batch()
            else:
                self.fold.answer()
        self.compared.adopt()

    # Checkpoint -----------------------------------------------------------------------------------

    def _take_checkpoint(self, event: Trigger) -> None:
        """An event is about to begin, and may have been processed later."""
        topics = self.fold.controller.context.topics.values()
        is_small = sum(len(one.partitions) for one in topics) <= _CHECKPOINT_PARTITIONS_MAX
        self.checkpoint = Checkpoint(event, self.save()) if is_small else None

    def _note(self, method: Callable[..., None], *arguments: object) -> None:
        """Note what the log reports after the checkpoint."""
        if self.checkpoint is not None and not self.checkpoint.note(partial(method, *arguments)):
            self.checkpoint = None

    def _go_back(self) -> bool:
        """Go back to the checkpoint and let its event wait: the session has written something else,
        and makes the event's writes later. False if that is impossible."""
        checkpoint = self.checkpoint
        if checkpoint is None or checkpoint.event != self._begun:
            return False
        if self._pending.is_held(checkpoint.event):
            # The event has waited before, and would again and again.
            return False
        paths, overlay = self.ahead.all_paths(), self.fold.overlay
        self.checkpoint = None
        self.restore(checkpoint.state)
        self._pending.hold_until_write(checkpoint.event, paths)
        for repeat in checkpoint.inputs:
            repeat()
        self.fold.overlay = overlay
        return True
