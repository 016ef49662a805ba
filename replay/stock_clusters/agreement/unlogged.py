"""What may have led to a decision where no log tells of it.

Timers leave nothing in ZooKeeper, nor do requests to shut down or to elect. That one of these was
there, and for whom, is taken from the decision; what else is decided then is the fold's to say.
docs/agreement.md states the rules.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any, Final

from controller.core import znodes
from controller.core.configuration import Configuration
from controller.core.errors import ZnodeError
from controller.core.events import (
    AllocateProducerIdsReceived,
    BrokerAnswered,
    ControlledShutdownReceived,
    ElectLeadersReceived,
)
from controller.core.procedures.elections.rebalance import by_preferred, to_be_led
from controller.core.state import ControllerContext, Partition
from controller.core.triggers import ApiCall, AutoPreferredReplicaLeaderElection, Trigger
from controller.core.values import UNKNOWN_BROKER_EPOCH, LeaderAndIsr
from replay.stock_clusters.agreement.asked_reassignments import reassignments_asked_for
from replay.stock_clusters.agreement.batches import Decision
from replay.stock_clusters.agreement.hash_order import in_hash_order
from replay.stock_clusters.agreement.index import Index
from replay.stock_clusters.agreement.pending_events import PendingEvents
from replay.stock_clusters.agreement.shadow_fold import ShadowFold
from replay.stock_clusters.zookeeper_log.transactions import SetData
from replay.subjects import OF_TOPICS, subject_of

_SHUTDOWN_MS: Final = 60_000
"""How long before its end a broker may have asked to shut down."""
_ANSWER_MS: Final = 100
"""How long after a request its answer comes."""
_FIRST_VERSION: Final = 0
_ELECT_BY_TYPE: Final = 1


class InferredTriggers:
    """What may have led to decisions of one session, though no log tells of it."""

    def __init__(
        self, session: int, broker: int, fold: ShadowFold, arrivals: PendingEvents, index: Index
    ) -> None:
        self._session = session
        self._broker = broker
        self._fold = fold
        self._arrivals = arrivals
        self._index = index
        self._decision = 0
        self._left: Iterator[Trigger] = iter(())

    def __deepcopy__(self, memo: dict[int, Any]) -> "InferredTriggers":
        """A copy supposes anew."""
        fold, arrivals = deepcopy(self._fold, memo), deepcopy(self._arrivals, memo)
        return InferredTriggers(self._session, self._broker, fold, arrivals, self._index)

    def next_one(self, decision: Decision) -> Trigger | None:
        """The next one that may have led to a decision, None without any more."""
        self._answer_deletions(decision)
        trigger = self._arrivals.unlogged()
        if trigger is not None:
            return trigger
        if decision.seq != self._decision:
            self._decision = decision.seq
            self._left = self._causes(decision)
        return next(self._left, None)

    def answer(self) -> None:
        """A broker whose answers are in no log has done soon what it was asked for."""
        while not self._are_answers_told:
            if not self._hear(self._fold.queues.answer_sent_by(self._is_done, self._logs)):
                return

    def _answer_deletions(self, decision: Decision) -> None:
        """When all replicas of a topic are deleted its znodes go; when all that live are, the
        others are tried again. A broker's line may stand a little behind that."""
        queued = self._fold.controller.context.queued_for_deletion
        queues = self._fold.queues
        for topic in _topics(decision) if not self._are_answers_told else ():
            while topic in queued and self._hear(queues.answer_deletion_of(topic, self._logs)):
                pass
            for broker in self._index.stopping_soon(self._fold.now_ms) if topic in queued else ():
                self._hear(queues.answer_deletion(broker, {topic}))

    @property
    def _logs(self) -> set[int]:
        return self._index.request_logs_of

    @property
    def _are_answers_told(self) -> bool:
        term = (self._broker, self._fold.epoch)
        is_reached = self._index.lines.tells_of(term, self._fold.seq)
        is_told = is_reached and term in self._index.answers_of
        return is_told or self._arrivals.has_debug

    def _is_done(self, broker: int, sent_ms: int) -> bool:
        done_ms = sent_ms + _ANSWER_MS
        return done_ms <= self._fold.now_ms and self._index.is_heard_of(broker, done_ms)

    def _hear(self, answer: BrokerAnswered | None) -> bool:
        if answer is not None:
            self._fold.hear(answer)
            self._arrivals.collect(self._fold.queued(), self._fold.now_ms)
        return answer is not None

    def _causes(self, decision: Decision) -> Iterator[Trigger]:
        if not self._index.coverage.covers(self._broker, self._fold.now_ms):
            yield from self._block_asked_for(decision)
            yield from reassignments_asked_for(decision, self._session, self._fold, self._index)
        if self._arrivals.has_log:
            return
        for path, operation in decision.operations:
            name = znodes.state_of(path)
            if name is None or not isinstance(operation, SetData):
                continue
            try:
                before = znodes.read_state(path, self._fold.content(path), operation.version - 1)
                written = znodes.read_state(path, operation.data, operation.version)
            except ZnodeError:
                continue
            until_ms = self._fold.now_ms + _SHUTDOWN_MS
            yield from unlogged_causes(
                self._fold.controller.context,
                self._fold.controller.configuration,
                self._index.written_with(self._session, decision.seq) or [name],
                written,
                self._index.closing(self._fold.seq, until_ms),
                before.isr,
                has_requests=self._broker in self._index.request_logs_of,
            )

    def _block_asked_for(self, decision: Decision) -> Iterator[Trigger]:
        """A block of producer ids is given to the broker that asked for it."""
        for path, operation in decision.operations:
            if path != znodes.PRODUCER_IDS or not isinstance(operation, SetData):
                continue
            try:
                asking = znodes.read_producer_ids(operation.data or b"").broker
            except ZnodeError:
                continue
            broker = self._fold.controller.context.brokers.get(asking)
            if broker is not None:
                asked = AllocateProducerIdsReceived(0, _FIRST_VERSION, asking, broker.epoch)
                yield ApiCall(asked)


def _topics(decision: Decision) -> set[str]:
    """The topics whose znodes a decision is about."""
    subjects = [subject_of(path) for path, _ in decision.operations]
    return {one.topic for one in subjects if one.topic and one.kind in OF_TOPICS}


def unlogged_causes(
    context: ControllerContext,
    configuration: Configuration,
    names: Sequence[tuple[str, int]],
    written: LeaderAndIsr,
    closing: Iterator[int],
    isr: Sequence[int],
    *,
    has_requests: bool,
) -> Iterator[Trigger]:
    """The controller events that may change the states of these partitions together, the first of
    which to `written`; the likeliest first.

    `closing` are the brokers that end by themselves soon, the first of them first, `isr` is what
    stood in ZooKeeper: below 2.7 leaders write it, and the controller hears of it later.
    `has_requests`: what the controller is asked for is in a log.
    """
    partition = context.find(*names[0])
    state = partition.leadership if partition is not None else None
    if partition is None or state is None:
        return
    left = {*state.isr, *isr} - {*written.isr}
    for broker in closing if left and not has_requests else ():
        # One that still leads something asks again.
        if broker in left and broker in context.brokers:
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
    """Leaders are rebalanced broker by broker, all of a broker: what leaves one out, comes before
    another broker's turn, or is of one that leads nearly all that it should, was a request."""
    found = [context.find(*name) for name in names]
    brokers = {one.replicas[0] for one in found if one is not None and one.replicas}
    groups = by_preferred(context)
    for broker in in_hash_order(groups):
        moved = to_be_led(context, configuration, broker, groups[broker])
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
    preferred = partition.replicas[0] if partition.replicas else -1
    return (
        written.leader == preferred != state.leader
        and preferred in written.isr
        and context.is_online(preferred, partition)
    )
