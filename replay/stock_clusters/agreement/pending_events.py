"""Controller events that are there and have not been taken yet, as far as a log tells of them."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from itertools import starmap, takewhile
from typing import Final, NamedTuple

from controller.core import znodes
from controller.core.controller import Controller
from controller.core.events import (
    AllocateProducerIdsReceived,
    AlterPartitionReassignmentsReceived,
    AlterPartitionReceived,
    ApiRequest,
    ControlledShutdownReceived,
    ElectLeadersReceived,
)
from controller.core.procedures.elections.alter_partition import accepted
from controller.core.state import Partition
from controller.core.state_machines import ReplicaState
from controller.core.topic_requests import UpdateFeaturesReceived
from controller.core.triggers import (
    ApiCall,
    BrokerChange,
    ConfigChange,
    ControllerChange,
    LeaderAndIsrResponseReceived,
    TopicChange,
    TopicDeletionStopReplicaResponseReceived,
    Trigger,
)
from replay.stock_clusters.agreement.batches import Decision
from replay.stock_clusters.agreement.handled_order import HandledOrder
from replay.stock_clusters.agreement.index import LINE_MS, Asked, Index
from replay.stock_clusters.agreement.marks import LOGGED, LOGGED_AT_DEBUG, LogMarker, fits
from replay.stock_clusters.agreement.order import Order, Turn

_ARRIVAL_MS: Final = 500
"""How much earlier a request may have come than its log says: that stamps a line when all of it
is put together, and takes the whole time of the request off."""
_ALWAYS_LOGGED: Final = (BrokerChange, TopicChange)
_ELSEWHERE: Final = (ConfigChange, ApiCall)
"""What does not wait in line with watches: of configurations Kafka hears in another thread."""
_NOT_BY_WATCH: Final = (
    *_ELSEWHERE,
    LeaderAndIsrResponseReceived,
    TopicDeletionStopReplicaResponseReceived,
)
_LEAVE_NO_LINE: Final = (
    AlterPartitionReassignmentsReceived,
    AllocateProducerIdsReceived,
    UpdateFeaturesReceived,
)


class _Came(NamedTuple):
    """When an event came, and by which record."""

    ms: int
    seq: int


class PendingEvents:
    """Events in the order in which they came, and requests that are yet to come."""

    def __init__(
        self, session: int, broker: int, controller: Controller, index: Index, order: Order
    ) -> None:
        self._session = session
        self._broker = broker
        self._controller = controller
        self._index = index
        self._order = order
        self._seq = 0
        self._pending: list[Trigger] = []
        self._came: list[_Came] = []
        self._coming = deque(index.asked.get(broker, ()))
        self._done: deque[tuple[int, Trigger]] = deque()
        self._held: list[tuple[Trigger, Sequence[str]]] = []
        """What waits though it came before others, and the znodes that it writes later."""
        self.has_log = index.has_log(broker, session)
        """Whether the controller's log tells of its terms."""
        self.has_debug = index.has_debug(broker, session)
        """Whether each event leaves a line in the controller's log."""

    @property
    def is_log_over(self) -> bool:
        """Whether no line is to come in a log in which each event leaves one."""
        return self.has_debug and not self._index.has_openings(
            self._broker, self._session, self._seq
        )

    def __iter__(self) -> Iterator[Trigger]:
        return iter(list(self._pending))

    def at(self, seq: int) -> None:
        """The log has come to a record."""
        self._seq = seq

    def add(self, trigger: Trigger, now_ms: int) -> None:
        """An event is there, once."""
        if trigger not in self._pending:
            self._pending.append(trigger)
            self._came.append(_Came(now_ms, self._seq))

    def collect(self, triggers: Iterable[Trigger], now_ms: int) -> None:
        """What the fold has queued itself waits with the rest."""
        for one in triggers:
            self.add(one, now_ms)

    def take(self, trigger: Trigger) -> Trigger:
        """An event is taken."""
        if trigger in self._pending:
            place = self._pending.index(trigger)
            del self._pending[place], self._came[place]
        return trigger

    def turn(self, trigger: Trigger) -> Turn:
        """The taking of an event: one that did not wait comes just now."""
        came = self._when(trigger)
        seq = self._seq if came is None else came.seq
        return Turn(self._session, name_of(trigger), seq)

    def hold(self, trigger: Trigger, paths: Sequence[str]) -> None:
        """Let an event wait until one of these znodes is written; without any, until
        `let_go_of_unnamed`."""
        self._held.append((trigger, paths))

    def let_go_of_unnamed(self) -> None:
        """What waits for no znode waits no more."""
        self._held[:] = [one for one in self._held if one[1]]

    def let_go(self, paths: Sequence[str], coming: Callable[[], Set[str]]) -> Trigger | None:
        """What waits for one of these znodes to be written. What waits for writes that are not
        `coming` waits no more."""
        if not self._held:
            return None
        following = coming()
        self._held[:] = [
            one for one in self._held if not one[1] or any(path in following for path in one[1])
        ]
        for one in self._held:
            if any(path in one[1] for path in paths):
                self._held.remove(one)
                return one[0]
        return None

    def clear(self) -> None:
        """What came for another controller is over."""
        self._pending.clear()
        self._came.clear()

    def come(self, now_ms: int, *, is_wanted: bool) -> None:
        """Requests that have come by now; those that were answered long ago are over."""
        while self._done and self._done[0][0] < now_ms - LINE_MS:
            self.take(self._done.popleft()[1])
        for one in self._asked_until(now_ms):
            self._coming.popleft()
            if is_wanted:
                self.add(ApiCall(one.request), now_ms)

    def is_logged(self, trigger: Trigger) -> bool:
        """Whether a line shows when an event is taken, if it does anything."""
        if not self.has_log:
            return False
        if isinstance(trigger, ApiCall):
            if isinstance(trigger.request, _LEAVE_NO_LINE):
                return False
            return self.has_debug or not isinstance(trigger.request, AlterPartitionReceived)
        return isinstance(trigger, LOGGED) or (
            self.has_debug and isinstance(trigger, LOGGED_AT_DEBUG)
        )

    def unlogged(self, until_ms: int | None = None) -> Trigger | None:
        """The first one that leaves no line, if it came by then.

        The queue is first in, first out: what leaves a line in any case is waited for. What ends
        a topic's deletion shows by its writes.
        """
        is_watch_early = False
        for one in self._pending:
            if self.is_held(one):
                continue
            is_watch = not isinstance(one, _NOT_BY_WATCH)
            if self._is_early(one) or (is_watch and is_watch_early):
                is_watch_early = is_watch_early or is_watch
                continue
            if until_ms is not None and self._ends_deletion(one):
                continue
            if not self.is_logged(one):
                is_there = self._is_there(one, until_ms)
                return self._first_answered(one, until_ms) if is_there else None
            if isinstance(one, _ALWAYS_LOGGED):
                break
        return next(
            (
                one
                for one in self._pending
                if isinstance(one, _ELSEWHERE) and not self.is_logged(one) and not self.is_held(one)
            ),
            None,
        )

    def _is_early(self, trigger: Trigger) -> bool:
        """Whether another order has it wait. Most orders say nothing of any event."""
        return bool(self._order.instead) and self._order.is_early(self.turn(trigger), self._seq)

    def is_due(self, trigger: Trigger) -> bool:
        """Whether another order has it taken now, whatever else holds."""
        return bool(self._order.instead) and self._order.is_due(self.turn(trigger), self._seq)

    def _is_there(self, trigger: Trigger, until_ms: int | None) -> bool:
        if until_ms is None or self.is_due(trigger):
            return True
        return self.arrived_ms(trigger) <= until_ms

    def first(self) -> Trigger | None:
        """The first one that need not wait, whether it leaves a line or not."""
        return next((one for one in self._pending if not self.is_held(one)), None)

    def arrived_ms(self, trigger: Trigger) -> int:
        """When an event came that waits."""
        came = self._when(trigger)
        return 0 if came is None else came.ms

    def _when(self, trigger: Trigger) -> _Came | None:
        return self._came[self._pending.index(trigger)] if trigger in self._pending else None

    def unlogged_before(self, trigger: Trigger, *, is_deposed: bool) -> list[Trigger]:
        """Those that leave no line, came before this one and do not show by their writes.

        Watches come in the order of zxids: who has not heard yet that it is deposed has not heard
        of what came behind.
        """
        place = self._pending.index(trigger) if trigger in self._pending else 0
        before: list[Trigger] = []
        is_deaf = False
        for one in self._pending[:place]:
            is_deaf = is_deaf or (is_deposed and isinstance(one, ControllerChange))
            has_response = isinstance(one, _NOT_BY_WATCH) or not is_deaf
            shows = self.is_logged(one) or self.is_held(one) or self._ends_deletion(one)
            if has_response and not shows and not self._is_early(one):
                before.append(one)
        return before

    def is_held(self, trigger: Trigger) -> bool:
        """Whether an event waits for its writes."""
        return any(trigger == held for held, _ in self._held)

    def opened(self, opening: LogMarker, now_ms: int) -> Trigger | None:
        """The event that a line is about; it may be a request that was to come a little later."""
        if opening.event != "AlterPartitionReceived":
            return next(self._fitting(opening), None) or self._come_soon(
                now_ms, lambda one: fits(opening, ApiCall(one))
            )
        named = set(opening.partitions)
        fitting = list(self._fitting(opening))
        exact = [one for one in fitting if self._writes(one) == named]
        found = min(exact, key=self._handled_order, default=None)
        if found is None:
            found = self._come_soon(
                now_ms,
                lambda one: fits(opening, ApiCall(one)) and self._writes(ApiCall(one)) == named,
            )
        return found or min(fitting, key=self._handled_order, default=None)

    def causing(self, decision: Decision, now_ms: int) -> Trigger | None:
        """A request that leaves no line, is answered later, and is about the same znodes."""
        return self._come_soon(
            now_ms,
            lambda one: not self.is_logged(ApiCall(one)) and self._is_about(one, decision),
        )

    def served(self, number: int, now_ms: int) -> Trigger | None:
        """A request was answered; it is given if it must have been handled by now."""
        for one in self._pending:
            if isinstance(one, ApiCall) and one.request.request == number:
                if not self.is_logged(one):
                    return one
                self._done.append((now_ms, one))
        return None

    def drop_ignored(self) -> None:
        """An AlterPartition of a broker that is not known, or of an earlier run of it."""
        for one in self._pending:
            if isinstance(one, ApiCall) and isinstance(one.request, AlterPartitionReceived):
                broker = self._controller.context.brokers.get(one.request.broker)
                if broker is None or broker.epoch != one.request.broker_epoch:
                    self.take(one)
                    return

    def _ends_deletion(self, trigger: Trigger) -> bool:
        """Whether a broker was the last one to delete its replicas of a topic."""
        if not isinstance(trigger, TopicDeletionStopReplicaResponseReceived):
            return False
        context = self._controller.context
        asked = {(trigger.answer.broker, topic, number) for topic, number in trigger.asked}

        def is_deleted(broker: int, partition: Partition) -> bool:
            state = partition.replica_states.get(broker)
            return state is ReplicaState.DELETION_SUCCESSFUL or (broker, *partition.key) in asked

        return any(
            all(starmap(is_deleted, context.replicas_of(topic)))
            for topic in {topic for topic, _ in trigger.asked if topic in context.topics}
        )

    def _first_answered(self, first: Trigger, until_ms: int | None) -> Trigger:
        """Requests may be handled in another order than they seem to have come in."""
        if not _is_alter_partition(first):
            return first
        calls = [one for one in self._pending if _is_alter_partition(one) and not self.is_held(one)]
        if until_ms is not None:
            calls = [one for one in calls if self.arrived_ms(one) <= until_ms]
        return min((first, *calls), key=self._handled_order)

    def _handled_order(self, trigger: Trigger) -> HandledOrder:
        number = trigger.request.request if isinstance(trigger, ApiCall) else 0
        return self._index.handled_order(number)

    def _fitting(self, opening: LogMarker) -> Iterator[Trigger]:
        return (one for one in self._pending if fits(opening, one))

    def _come_soon(self, now_ms: int, is_it: Callable[[ApiRequest], bool]) -> Trigger | None:
        for one in self._asked_until(now_ms + _ARRIVAL_MS):
            if is_it(one.request):
                self._coming.remove(one)
                return ApiCall(one.request)
        return None

    def _asked_until(self, time_ms: int) -> list[Asked]:
        return list(takewhile(lambda one: one.received_ms <= time_ms, self._coming))

    def _is_about(self, request: ApiRequest, decision: Decision) -> bool:
        """Whether a request may have led to a decision, by the znodes of both."""
        paths = [path for path, _ in decision.operations]
        states = {found for path in paths if (found := znodes.state_of(path)) is not None}
        match request:
            case AlterPartitionReassignmentsReceived(partitions=asked):
                topics = {znodes.topic_path(one.topic) for one in asked}
                return znodes.REASSIGN_PARTITIONS in paths or any(
                    path == topic or path.startswith(f"{topic}/")
                    for path in paths
                    for topic in topics
                )
            case AllocateProducerIdsReceived():
                return znodes.PRODUCER_IDS in paths
            case UpdateFeaturesReceived():
                return znodes.FEATURE in paths
            case AlterPartitionReceived():
                return not states.isdisjoint(self._writes(ApiCall(request)))
            case ElectLeadersReceived(partitions=asked_for):
                return bool(states) and (asked_for is None or not states.isdisjoint(asked_for))
            case ControlledShutdownReceived(broker=broker):
                partitions = starmap(self._controller.context.find, states)
                return any(one is not None and broker in one.replicas for one in partitions)
        return False

    def _writes(self, trigger: Trigger) -> set[tuple[str, int]]:
        """The partitions whose state an AlterPartition would write now."""
        if isinstance(trigger, ApiCall) and isinstance(trigger.request, AlterPartitionReceived):
            return accepted(self._controller, trigger.request)
        return set()


def name_of(trigger: Trigger) -> str:
    """Kafka's name of a controller event."""
    if isinstance(trigger, ApiCall):
        return type(trigger.request).__name__.removesuffix("Received")
    return type(trigger).__name__


def _is_alter_partition(trigger: Trigger) -> bool:
    return isinstance(trigger, ApiCall) and isinstance(trigger.request, AlterPartitionReceived)
