"""Controller events that no log shows, inferred from the decisions that they led to.

Timers leave nothing in ZooKeeper, and neither do requests for a controlled shutdown or an election.
The decision shows that there was a controller event, and which brokers or partitions it concerned.
The fold makes the other decisions of the event. docs/agreement-rules.md has the rules.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from controller.core import znodes
from controller.core.api_requests.controlled_shutdown import ControlledShutdownReceived
from controller.core.api_requests.elections import ElectLeadersReceived
from controller.core.api_requests.producer_ids import AllocateProducerIdsReceived
from controller.core.configuration import Configuration
from controller.core.election import (
    by_preferred_replica,
    imbalanced,
    online_test,
    preferred_leader,
)
from controller.core.errors import ProcedureError, ZnodeError
from controller.core.events import BrokerResponded
from controller.core.state import ControllerContext, Partition
from controller.core.triggers import ApiCall, AutoPreferredReplicaLeaderElection, Trigger
from controller.core.values import NO_LEADER, UNKNOWN_BROKER_EPOCH, LeaderAndIsr
from replay.agreement.decisions.write_batch import StockDecision
from replay.agreement.logs.index import BrokerLogIndex
from replay.agreement.processing_order import immutable_map_order
from replay.agreement.trace.inferred_reassignments import possible_reassignments
from replay.agreement.trace.pending_events import PendingEvents
from replay.agreement.trace.shadow_fold import ShadowFold
from replay.checkpoint import Checkpointed, State
from replay.stock_clusters.zookeeper_log.transactions import SetData
from replay.subjects import OF_TOPICS, subject_of

_SHUTDOWN_MS: Final = 60_000
"""A broker asks for a controlled shutdown at most this long before it ends its session."""
_ANSWER_MS: Final = 100
"""A broker without logs answers a request after this time."""
_FIRST_VERSION: Final = 0
_ELECT_BY_TYPE: Final = 1


class InferredTriggers(Checkpointed):
    """The events that may have led to the decisions of one session."""

    def __init__(
        self,
        session: int,
        broker: int,
        fold: ShadowFold,
        pending: PendingEvents,
        index: BrokerLogIndex,
    ) -> None:
        self._session = session
        self._broker = broker
        self._fold = fold
        self._pending = pending
        self._index = index
        self._decision = 0
        self._remaining: Iterator[Trigger] = iter(())

    def restore(self, state: State) -> None:
        """Begin again with the next decision."""
        self._decision = 0
        self._remaining = iter(())

    def next_trigger(self, decision: StockDecision) -> Trigger | None:
        """The next event that may have led to a decision, None if there are no more."""
        self._answer_deletions(decision)
        trigger = self._pending.next_unlogged()
        if trigger is not None:
            return trigger
        if decision.seq != self._decision:
            self._decision = decision.seq
            self._remaining = self._possible(decision)
        return next(self._remaining, None)

    def answer(self) -> None:
        """Answer requests for brokers whose responses are in no log."""
        while not self._are_answers_logged:
            if not self._receive(self._fold.queues.answer_sent_by(self._is_done, self._with_logs)):
                return

    def _answer_deletions(self, decision: StockDecision) -> None:
        """Answer the deletions that a decision depends on.

        When all replicas of a topic are deleted, its znodes are deleted. When all replicas on live
        brokers are, the others are tried again. A broker's line may come a little later.
        """
        queued = self._fold.controller.context.queued_for_deletion
        queues = self._fold.queues
        for topic in _topics(decision) if not self._are_answers_logged else ():
            while topic in queued and self._receive(
                queues.answer_deletion_of(topic, self._with_logs)
            ):
                pass
            for broker in self._index.stopping_soon(self._fold.now_ms) if topic in queued else ():
                self._receive(queues.answer_deletion(broker, {topic}))

    @property
    def _with_logs(self) -> set[int]:
        return self._index.request_logs_of

    @property
    def _are_answers_logged(self) -> bool:
        term = (self._broker, self._fold.epoch)
        is_covered = self._index.coverage.covers(term, self._fold.seq)
        return (is_covered and term in self._index.answers_of) or self._pending.has_debug

    def _is_done(self, broker: int, sent_ms: int) -> bool:
        done_ms = sent_ms + _ANSWER_MS
        return done_ms <= self._fold.now_ms and self._index.is_responsive(broker, done_ms)

    def _receive(self, response: BrokerResponded | None) -> bool:
        if response is not None:
            self._fold.receive_response(response)
            self._pending.extend(self._fold.take_queued(), self._fold.now_ms)
        return response is not None

    def _possible(self, decision: StockDecision) -> Iterator[Trigger]:
        if not self._index.request_coverage.covers(self._broker, self._fold.now_ms):
            yield from self._producer_id_requests(decision)
            yield from possible_reassignments(decision, self._session, self._fold, self._index)
        if self._pending.has_log:
            return
        for path, operation in decision.operations:
            name = znodes.partition_of_state(path)
            if name is None or not isinstance(operation, SetData):
                continue
            try:
                before = znodes.read_state(path, self._fold.content(path), operation.version - 1)
                written = znodes.read_state(path, operation.data, operation.version)
            except ZnodeError:
                continue
            until_ms = self._fold.now_ms + _SHUTDOWN_MS
            yield from possible_triggers(
                self._fold.controller.context,
                self._fold.controller.configuration,
                self._index.written_with(self._session, decision.seq) or [name],
                written,
                self._index.closing(self._fold.seq, until_ms),
                before.isr,
                has_requests=self._broker in self._index.request_logs_of,
            )

    def _producer_id_requests(self, decision: StockDecision) -> Iterator[Trigger]:
        """A block of producer ids is for the broker that asked for it."""
        for path, operation in decision.operations:
            if path != znodes.PRODUCER_IDS or not isinstance(operation, SetData):
                continue
            try:
                sender = znodes.read_producer_ids(operation.data or b"").broker
            except ZnodeError:
                continue
            broker = self._fold.controller.context.brokers.get(sender)
            if broker is not None:
                yield ApiCall(AllocateProducerIdsReceived(0, _FIRST_VERSION, sender, broker.epoch))


def _topics(decision: StockDecision) -> set[str]:
    """The topics whose znodes a decision writes."""
    subjects = [subject_of(path) for path, _ in decision.operations]
    return {one.topic for one in subjects if one.topic and one.kind in OF_TOPICS}


def possible_triggers(
    context: ControllerContext,
    configuration: Configuration,
    names: Sequence[tuple[str, int]],
    written: LeaderAndIsr,
    closing: Iterator[int],
    isr: Sequence[int],
    *,
    has_requests: bool,
) -> Iterator[Trigger]:
    """The events that may change the states of these partitions together, the most likely first.

    `written` is the new state of the first partition. `closing` are the brokers that soon end their
    sessions themselves, in order. `isr` is the ISR in ZooKeeper: below 2.7 leaders write it, and
    the controller reads it later. `has_requests`: a log has the requests to the controller.
    """
    partition = context.find(*names[0])
    state = partition.leadership if partition is not None else None
    if partition is None or state is None:
        return
    removed = {*state.isr, *isr} - {*written.isr}
    for broker in closing if removed and not has_requests else ():
        # A broker that still leads partitions asks again.
        if broker in removed and broker in context.brokers:
            yield ApiCall(
                ControlledShutdownReceived(0, _FIRST_VERSION, broker, UNKNOWN_BROKER_EPOCH)
            )
    is_preferred = _may_be_led_by_preferred(context, partition, written)
    is_enabled = configuration.auto_leader_rebalance_enable
    may_be_rebalance = has_requests or _is_rebalance(context, configuration, names)
    if is_preferred and is_enabled and may_be_rebalance:
        yield AutoPreferredReplicaLeaderElection()
    if has_requests:
        return
    if context.has_offline_leader(partition):
        yield ApiCall(ElectLeadersReceived(0, _ELECT_BY_TYPE, "unclean", list(names)))
    elif is_preferred:
        yield ApiCall(ElectLeadersReceived(0, _ELECT_BY_TYPE, "preferred", list(names)))


def _is_rebalance(
    context: ControllerContext, configuration: Configuration, names: Sequence[tuple[str, int]]
) -> bool:
    """Whether an automatic rebalance can be the reason.

    A rebalance goes broker by broker and moves all leaders of a broker. An election was requested
    if it leaves one out, comes before another broker's turn, or concerns a broker that leads nearly
    all its partitions.
    """
    found = [context.find(*name) for name in names]
    brokers = {one.replicas[0] for one in found if one is not None and one.replicas}
    try:
        groups = by_preferred_replica(context)
    except ProcedureError:
        # A partition has no replicas: each rebalance of the stock controller fails.
        return False
    for broker in immutable_map_order(groups):
        moved = imbalanced(context, configuration, broker, groups[broker])
        if broker in brokers:
            is_all = moved is not None and {one.key for one in moved}.issubset(names)
            return is_all and len(brokers) == 1
        if moved:
            return False
    return False


def _may_be_led_by_preferred(
    context: ControllerContext, partition: Partition, written: LeaderAndIsr
) -> bool:
    state = partition.leadership
    assert state is not None, f"{partition} has no leadership"
    is_online = online_test(context, partition)
    preferred = preferred_leader(partition.replicas, written.isr, is_online).leader
    return NO_LEADER != written.leader == preferred != state.leader
