"""One session of a stock controller, with the fold beside it.

Which event a stock controller takes when, and what it reads, is not recorded; what it writes and
what it logs is. So the fold is let on only as far as the log shows the controller to be: up to a
write of its session (`decide`), or to a line of its thread (`see`). A read is answered when the
next of these is come to, with what ZooKeeper holds then: as late as allowed.
"""

from collections.abc import Callable, Iterable, Sequence
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
    trigger_of,
)
from replay.stock_clusters.agreement.batches import Batch, Decision
from replay.stock_clusters.agreement.broker_answers import Answer
from replay.stock_clusters.agreement.broker_requests.told import Told
from replay.stock_clusters.agreement.children_read import read_by_event, read_by_failover
from replay.stock_clusters.agreement.compared_writes import ComparedWrites
from replay.stock_clusters.agreement.due_lines import are_ids, is_at_same_ms, is_its_write
from replay.stock_clusters.agreement.failover_lines import has_failed, read_behind
from replay.stock_clusters.agreement.index import Index, LoggedOpening
from replay.stock_clusters.agreement.inferring import calls_of
from replay.stock_clusters.agreement.last_taken import LastTaken
from replay.stock_clusters.agreement.lost_replies import LostReplies
from replay.stock_clusters.agreement.marks import LogMarker, trigger_for
from replay.stock_clusters.agreement.order import Chosen, Order
from replay.stock_clusters.agreement.pending_events import PendingEvents, name_of
from replay.stock_clusters.agreement.shadow_fold import ShadowFold
from replay.stock_clusters.agreement.unlogged import InferredTriggers
from replay.stock_clusters.agreement.verdicts import Judgement
from replay.stock_clusters.agreement.znode_view import Change, Overlay, ZnodeView
from replay.stock_clusters.imported_log.events import RequestInferred

_LAG_MS: Final = 3
"""How long after it came an event is taken, where no line tells."""
_READ_MS: Final = 1
"""How long a read takes."""
_NO_OVERLAY: Final[Overlay] = {}
_EVER: Final = 0
_BY_CONFIGURATION: Final = ("UncleanLeaderElectionEnable", "TopicUncleanLeaderElectionEnable")
_ELECTIONS: Final = ("Elected", "NotElected", "Started")
_NO_CHOICE: Final = (Startup, Reelect, ConfigChange, ControllerChange)
"""Events of which another time would change nothing, or that only refold has."""
_READ_BEFORE: Final = (
    "BrokerChange",
    "TopicChange",
    "TopicDeletion",
    "PartitionModifications",
    "BrokerModifications",
    "IsrChangeNotification",
    "LogDirEventNotification",
)
"""Events whose opening comes after what they read first."""


class ControllerTrace:
    """A session that is, was or wants to be controller, and the fold that decides beside it."""

    def __init__(
        self,
        session: int,
        broker: int,
        configuration: Configuration,
        view: ZnodeView,
        index: Index,
        order: Order,
        replies: LostReplies,
    ) -> None:
        self.session = session
        self.broker = broker
        self.fold = ShadowFold(session, configuration, view, index, order)
        self.compared = ComparedWrites(session, broker, self.fold, index)
        self.unknown_calls: dict[int, int] = {}
        """By epoch, the first record that tells of a request that no log has."""
        self._view = view
        self._index = index
        self._order = order
        self._replies = replies
        self._arrivals = PendingEvents(session, broker, self.fold.controller, index, order)
        self._suppositions = InferredTriggers(session, broker, self.fold, self._arrivals, index)
        self._inferred: list[Trigger] = []
        self._mark_zxid = 0
        self._stood_for = 0
        self._has_failed = False
        self._free_ms = 0
        self._is_connected = False
        self._last = LastTaken()
        self._delivered: Batch | None = None
        self._begun: Trigger | None = None

    @property
    def world(self) -> tuple[object, ...]:
        """What a copy of it shares with it."""
        return (*self.fold.world, self._replies)

    @property
    def judgements(self) -> list[Judgement]:
        """What each decision came to so far."""
        return self.compared.judgements

    @property
    def epoch(self) -> int:
        """The controller epoch that the fold holds, 0: none."""
        return self.fold.epoch

    # What the world tells

    def at(self, seq: int, time_ms: int, zxid: int) -> None:
        """The log has come to a record, behind a transaction."""
        self._last.note(lambda one: one.at(seq, time_ms, zxid))
        self.compared.zxid = zxid
        self.fold.at(seq, time_ms)
        self._arrivals.at(seq)
        while self.fold.read is not None and self._order.is_due(self.fold.turn, seq):
            self.fold.answer()
        self._arrivals.come(time_ms, is_wanted=self.fold.is_active)
        if self.fold.is_active:
            self._look_again()
            if not self._arrivals.has_debug:
                self._arrivals.let_go((), self.compared.coming)
                self._suppositions.answer()
                self._keep_up(time_ms)

    def change(self, changes: Sequence[Change]) -> None:
        """A transaction has changed znodes: the controller is told of what it watches."""
        self._last.note(lambda one: one.change(changes))
        for path, what in self.fold.watches.fire(changes):
            trigger = trigger_of(path, what)
            if trigger is not None:
                self._arrivals.add(trigger, self.fold.now_ms)

    def answered(self, answer: Answer) -> None:
        """A broker has answered the first request of a kind that it was sent."""
        self._last.note(lambda one: one.answered(answer))
        queues = self.fold.queues
        broker, api, error, failed, broker_epoch = answer
        if queues.is_for_other_run(broker, broker_epoch) or queues.is_known(broker, api):
            return
        while not queues.has(broker, api) and self.fold.read is not None:
            # What is answered was sent before.
            self.fold.answer()
        if (heard := queues.answer(broker, api, error, failed)) is not None:
            self.fold.hear(heard)
            self._collect()

    def kafka_sent(self, told: Told) -> None:
        """The controller has sent a request: so has the fold, as far as no write has to come first.
        Failed log directories it tells of before it writes; what it took last may have no line."""
        self.fold.catch_up(told)
        if not self.fold.is_behind(told) or self.fold.is_running:
            return
        live = self._index.brokers_read.told(self.broker, self.epoch, told.seq)
        if live is not None and not self._arrivals.is_logged(BrokerChange()):
            # Who was not read then made the watch that the reading had set go off.
            self._arrivals.add(BrokerChange(), self.fold.now_ms)
        for one in self._arrivals:
            if self._arrivals.is_log_over or self._is_told(one, LogDirEventNotification):
                self.fold.listed = live if isinstance(one, BrokerChange) else None
                self._begin(one)
                self.fold.read_up(told)
        self.fold.listed = None

    def served(self, number: int) -> None:
        """A request of somebody was answered: the controller is done with it."""
        self._last.note(lambda one: one.served(number))
        call = self._arrivals.served(number, self.fold.now_ms)
        if call is not None:
            # One thread handles all: it has read all that it and what came before asks for.
            self.fold.answer_all()
            if not self.fold.is_running:
                self._begin(call)
                self.fold.answer_all()

    def infer(self, found: RequestInferred) -> None:
        """What writes show that was asked for came just before the first of them."""
        self._last.note(lambda one: one.infer(found))
        self._inferred += calls_of(found, self.fold.controller.context)

    # How far the controller is

    def decide(self, decision: Decision, overlay: Overlay = _NO_OVERLAY) -> None:
        """Let the fold on until it has decided this, too, or cannot have."""
        is_gone = decision.what == "refused" and decision.error == NO_NODE
        self.fold.overlay = self._view.deleted_since(self._mark_zxid) if is_gone else overlay
        if decision.what == "fenced" and self.fold.is_failing_over:
            self.fold.overlay = self._view.role_of(self.session)
        judgement = self._decide(decision)
        if judgement.verdict == "missing" and self._may_be_repeated(decision):
            self._replies.suppose(self._mark_zxid)
        self._last.forget()
        self._arrivals.let_go_of_unnamed()
        self.fold.overlay = _NO_OVERLAY
        self._mark_zxid = decision.zxid
        self._free_ms = decision.time_ms
        self.compared.add(judgement, decision)

    def see(self, opening: LogMarker) -> None:
        """A line shows that a controller event was taken."""
        if opening.event in _ELECTIONS:
            return
        if self._is_within(opening):
            return
        if self.fold.batch is not None:
            self._take_back()
        self._finish()
        if opening.event != "Resignation" or self.fold.is_active:
            self._open(opening)

    def reach(self, text: str) -> None:
        """A line of a failover: what it comes behind was read."""
        self._has_failed = self._has_failed or has_failed(text)
        self.fold.listed = read_by_failover(text)
        self._read_up_to(read_behind(text))
        self.fold.listed = None

    def _read_up_to(self, paths: Sequence[str]) -> None:
        while paths and self.fold.read is not None and self.fold.is_failing_over:
            command = str(self.fold.read[1])
            if any(path in command for path in paths):
                return
            self.fold.answer()

    def _is_told(self, trigger: Trigger, *more: type[Trigger]) -> bool:
        """Whether a log of what the controller sends shows when an event is taken."""
        if not isinstance(trigger, (BrokerChange, *more)) or self._arrivals.is_logged(trigger):
            return False
        return (self.broker, self.epoch) in self._index.state_changes_of

    def _keep_up(self, now_ms: int) -> None:
        """What leaves no line is taken as soon as it is there, one after the other."""
        until_ms = now_ms - _LAG_MS
        while self.fold.batch is None:
            self._collect()
            if self.fold.read is not None:
                if self._order.is_early(self.fold.turn, self.fold.seq):
                    return
                if self.fold.is_failing_over or self._free_ms + _READ_MS > now_ms:
                    return
                self.fold.answer()
                self._free_ms += _READ_MS
                continue
            following = self._arrivals.unlogged(until_ms)
            if following is None or self._free_ms > now_ms:
                return
            if self._is_told(following) and not self._arrivals.is_due(following):
                return
            self._last.take(self, following)
            began_ms = max(self._free_ms, self._arrivals.arrived_ms(following) + _LAG_MS)
            self._begin(following)
            self._free_ms = began_ms

    def hold(self, trigger: Trigger, paths: Sequence[str]) -> None:
        """Let an event wait until the session writes one of these znodes, or its next decision."""
        self._arrivals.hold(trigger, paths)

    def _take_back(self) -> bool:
        """The event that was begun was not taken yet: the session has written something else, and
        comes to its writes later."""
        if self._begun is None or self._begun != self._last.taken:
            return False
        if self._arrivals.is_held(self._begun):
            # It was taken back before, and would be again and again.
            return False
        other = self._last.without(self.fold.batch.paths() if self.fold.batch else ())
        if other is None:
            return False
        other.fold.overlay = self.fold.overlay
        self.__dict__.update(other.__dict__)
        return True

    def _look_again(self) -> None:
        """What only sets a watch anew is done at once: else the next change would not be told."""
        if self.fold.is_running:
            return
        for one in self._arrivals:
            if isinstance(one, ZkPartitionReassignment) and not one.created:
                self._take_now([one])

    def _is_within(self, opening: LogMarker) -> bool:
        """Whether the line can come from the middle of what is under way."""
        if opening.event == "ReplicaLeaderElection":
            is_of_failover = self.fold.is_failing_over and opening.text.endswith("ZkTriggered")
            return is_of_failover or opening.text.endswith("AutoTriggered")
        if opening.event == "Resignation" and self._has_failed and self.fold.is_failing_over:
            # It resigns, then gives the role up: that is still to come.
            return True
        if opening.event == "AlterPartitionReceived" and "Ignoring" in opening.text:
            self._arrivals.drop_ignored()
            return True
        if self._arrivals.has_debug and not opening.is_first:
            return True
        if opening.event == "TopicDeletion":
            return self.fold.is_running and self.fold.cause == opening.event
        if opening.event not in ("PartitionReassignment", "PartitionReassignmentIsrChange"):
            return False
        self.fold.answer_all()
        return self.fold.is_running

    def _open(self, opening: LogMarker) -> None:
        self._collect()
        if opening.event in _BY_CONFIGURATION:
            # The broker has looked at the change by then.
            self._take_now([one for one in self._arrivals if isinstance(one, ConfigChange)])
        trigger = self._arrivals.opened(opening, self.fold.now_ms)
        if trigger is None and opening.event == "TopicDeletionStopReplicaResponseReceived":
            self._hear_of_deletion(opening)
            trigger = self._arrivals.opened(opening, self.fold.now_ms)
        if trigger is not None:
            is_deposed = self.fold.owner_of(znodes.CONTROLLER) != self.session
            for one in self._arrivals.unlogged_before(trigger, is_deposed=is_deposed):
                self._take_unless_early(one)
        trigger = trigger or trigger_for(opening)
        if trigger is None:
            if opening.event == "AlterPartitionReceived":
                self.unknown_calls.setdefault(self.epoch, self.fold.seq)
            return
        self.fold.listed = read_by_event(opening, self.fold.controller.context.known_topics())
        is_by_znode = isinstance(trigger, ZkPartitionReassignment)
        if is_by_znode and self._view.find(znodes.REASSIGN_PARTITIONS) is None:
            # The line is about what it held: it was read before it was deleted.
            self.fold.overlay = self._view.deleted_since(_EVER)
        self._begin(trigger)
        if opening.event in _READ_BEFORE or is_by_znode:
            self.fold.answer_all()
        self.fold.listed = None
        self.fold.overlay = _NO_OVERLAY

    def _take_now(self, triggers: Iterable[Trigger]) -> None:
        for one in triggers:
            self._begin(one)
            self._finish()
        self._collect()

    def _take_unless_early(self, trigger: Trigger) -> None:
        """A request that leaves no line may have come later than it seems: then its writes are
        still to come."""
        if name_of(trigger) != "AlterPartitionReassignments":
            self._take_now([trigger])
            return
        self._last.take(self, trigger)
        self._begin(trigger)
        self.fold.answer_all()
        paths = self.fold.batch.paths() if self.fold.batch else ()
        if paths and self.compared.is_still_to_come(paths) and self._take_back():
            return
        self._last.forget()
        self._finish()
        self._collect()

    def _hear_of_deletion(self, opening: LogMarker) -> None:
        """The line tells of an answer that no other log has told of yet."""
        self._finish()
        for broker in opening.brokers:
            topics, error, failed = {*opening.topics}, opening.error, opening.failed
            answer = self.fold.queues.answer_deletion(broker, topics, error, failed)
            if answer is not None:
                self.fold.hear(answer)
        self._collect()

    # Going on

    def _decide(self, decision: Decision) -> Judgement:
        if decision.what == "fenced" and isinstance(self._begun, (ControllerChange, Reelect)):
            # It thought that it is controller.
            self._take_back()
        ahead = self.compared.claim_ahead(decision)
        if ahead is not None:
            return self.compared.judge(decision, ahead)
        while True:
            if self.fold.batch is not None:
                differences = self.fold.batch.claim(decision, self._mark_zxid)
                if differences is not None:
                    return self._claimed(decision, differences)
                if self.compared.is_still_to_come(self.fold.batch.paths()):
                    if self._take_back():
                        continue
                    if self.fold.batch.claim_repeated(decision):
                        return self._claimed(decision, ())
                    return self.compared.judge(decision, (), "missing")
                self.compared.leave_batch()
            elif self.fold.read is not None:
                self.fold.answer()
            elif not self._go_on(decision):
                return self.compared.judge(decision, (), "missing")

    def _claimed(self, decision: Decision, differences: Sequence[str]) -> Judgement:
        """The fold writes this, too; unless the reply was lost, it is told so."""
        judgement = self.compared.judge(decision, differences)
        self._delivered = self.fold.batch
        if decision.zxid not in self._replies.lost:
            self.fold.deliver()
        return judgement

    def _may_be_repeated(self, decision: Decision) -> bool:
        """Whether it can be what was written last, once more: without a reply Kafka repeats it."""
        return self._delivered is not None and self._delivered.can_repeat(decision)

    def _go_on(self, decision: Decision) -> bool:
        """Begin the controller event that is next; False: there is none."""
        if decision.what in ("election", "controller_epoch") and not self.fold.is_active:
            return self._stand(decision)
        self._collect()
        if self._inferred:
            self._begin(self._inferred.pop(0))
            self._index.consume_behind_write(self.broker, self.session, decision)
            return True
        held = self._arrivals.let_go(
            [path for path, _ in decision.operations], self.compared.coming
        )
        if held is not None:
            self._begin(held)
            return True
        if self._open_due(decision, are_ids) or self._open_due(decision, is_its_write):
            return True
        trigger = self._arrivals.unlogged()
        if trigger is None and self._open_due(decision, is_at_same_ms):
            return True
        if trigger is not None and not self._arrivals.has_debug:
            self._last.take(self, trigger)
        if not self._index.has_openings(self.broker, self.session, self.fold.seq):
            # A process that was killed had no time to log what it had begun.
            trigger = trigger or self._arrivals.first()
        trigger = trigger or self._arrivals.causing(decision, self.fold.now_ms)
        trigger = trigger or self._suppositions.next_one(decision)
        if trigger is not None:
            self._begin(trigger)
        return trigger is not None

    def _stand(self, decision: Decision) -> bool:
        """Stand for election, once for each decision about one."""
        if not self._is_connected:
            self._is_connected = True
            self.fold.connect()
            self._begin(Startup())
            return True
        if self._stood_for == decision.seq:
            return False
        self._stood_for = decision.seq
        self._has_failed = False
        # What came while another one was controller is over.
        self._arrivals.clear()
        self._begin(Reelect())
        return True

    def _open_due(
        self, decision: Decision, is_due: Callable[[LoggedOpening, Decision], bool]
    ) -> bool:
        """Open what the next line opens, if that stands behind the write and came before it."""
        following = self._index.next_opening(self.broker, self.session, self.fold.seq)
        if following is None or not is_due(following, decision):
            return False
        self._index.consume(following)
        self._open(following.opening)
        return True

    def _begin(self, trigger: Trigger) -> None:
        self._free_ms = self.fold.now_ms
        self._begun = trigger
        turn = self._arrivals.turn(trigger)
        if not isinstance(trigger, _NO_CHOICE) and not self._arrivals.is_logged(trigger):
            self._order.choose(Chosen(turn, self.broker, turn.arrived, self.fold.seq))
        self.fold.begin(self._arrivals.take(trigger), turn)

    def _collect(self) -> None:
        """What the fold itself has queued waits with the rest."""
        self._arrivals.collect(self.fold.queued(), self.fold.now_ms)

    def _finish(self) -> None:
        """Bring what is under way to its end: the controller has gone on to something else."""
        while self.fold.batch is not None or self.fold.read is not None:
            if self.fold.batch is not None:
                self.compared.leave_batch()
            else:
                self.fold.answer()
        self.compared.adopt()
