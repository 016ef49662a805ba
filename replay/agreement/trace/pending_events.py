"""Controller events that are queued at a stock controller, as far as the logs show them."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from itertools import starmap, takewhile
from typing import Final, NamedTuple, assert_never

from controller.core import znodes
from controller.core.api_requests.alter_partition import AlterPartitionReceived
from controller.core.api_requests.controlled_shutdown import ControlledShutdownReceived
from controller.core.api_requests.elections import ElectLeadersReceived
from controller.core.api_requests.features import UpdateFeaturesReceived
from controller.core.api_requests.producer_ids import AllocateProducerIdsReceived
from controller.core.api_requests.reassignments import AlterPartitionReassignmentsReceived
from controller.core.controller import Controller
from controller.core.procedures.elections.alter_partition import accepted_partitions
from controller.core.state import Partition
from controller.core.state_machines import ReplicaState
from controller.core.triggers import (
    ApiCall,
    BrokerChange,
    ConfigChange,
    ControllerChange,
    LeaderAndIsrResponseReceived,
    Reelect,
    Startup,
    TopicChange,
    TopicDeletionStopReplicaResponseReceived,
    Trigger,
    trigger_name,
)
from replay.agreement.assumptions import Choices, ControllerStep, OpenChoice
from replay.agreement.decisions.write_batch import StockDecision
from replay.agreement.logs.index import LINE_MS, BrokerLogIndex
from replay.agreement.logs.markers import (
    LOGGED,
    LOGGED_AT_DEBUG,
    LogMarker,
    matches,
)
from replay.agreement.logs.received_requests import LoggedApiRequest, RequestOrder
from replay.agreement.trace.shadow_fold import ShadowFold
from replay.checkpoint import Checkpointed
from replay.stock_clusters.imported_log.api_requests import OF_REQUEST, ControllerRequest

_ARRIVAL_MS: Final = 500
"""A request may have arrived this much earlier than its log says. The log writes the line when the
response is complete, and computes the arrival from the total time of the request."""
_ALWAYS_LOGGED: Final = (BrokerChange, TopicChange)
_OTHER_QUEUES: Final = (ConfigChange, ApiCall)
"""Events that do not wait for watches. Kafka handles configuration changes in another thread."""
_NOT_BY_WATCH: Final = (
    *_OTHER_QUEUES,
    LeaderAndIsrResponseReceived,
    TopicDeletionStopReplicaResponseReceived,
)
_NO_CHOICE: Final = (Startup, Reelect, ConfigChange, ControllerChange)
"""Events whose moment changes nothing, or that only refold has."""


class _Arrival(NamedTuple):
    """The time at which an event arrived, and the record that it came with."""

    ms: int
    seq: int


class PendingEvents(Checkpointed):
    """Events in the order of their arrival, and requests that have not arrived yet."""

    STATE = ("_seq", "_pending", "_arrivals", "_expected", "_answered", "_held")

    def __init__(
        self,
        session: int,
        broker: int,
        controller: Controller,
        index: BrokerLogIndex,
        choices: Choices,
    ) -> None:
        self._session = session
        self._broker = broker
        self._controller = controller
        self._index = index
        self._choices = choices
        self._seq = 0
        self._pending: list[Trigger] = []
        self._arrivals: list[_Arrival] = []
        self._expected = deque(index.received_requests.get(broker, ()))
        self._answered: deque[tuple[int, Trigger]] = deque()
        self._held: list[tuple[Trigger, Sequence[str]]] = []
        """Events that wait although they arrived before others, and the znodes they write later."""
        self.has_log = index.has_log(broker, session)
        """Whether controller.log covers the session's terms."""
        self.has_debug = index.has_debug(broker, session)
        """Whether every event leaves a line in controller.log."""

    @property
    def is_log_over(self) -> bool:
        """Whether no more lines follow in a log with a line for every event."""
        return self.has_debug and not self._index.has_markers(
            self._broker, self._session, self._seq
        )

    def __iter__(self) -> Iterator[Trigger]:
        return iter(list(self._pending))

    def advance_to(self, seq: int) -> None:
        """The log has reached a record."""
        self._seq = seq

    def add(self, trigger: Trigger, now_ms: int) -> None:
        """Queue an event, once."""
        if trigger not in self._pending:
            self._pending.append(trigger)
            self._arrivals.append(_Arrival(now_ms, self._seq))

    def extend(self, triggers: Iterable[Trigger], now_ms: int) -> None:
        """Queue the events that the fold has queued itself."""
        for one in triggers:
            self.add(one, now_ms)

    def take(self, trigger: Trigger) -> Trigger:
        """Remove an event from the queue and return it."""
        if trigger in self._pending:
            place = self._pending.index(trigger)
            del self._pending[place], self._arrivals[place]
        return trigger

    def step_of(self, trigger: Trigger) -> ControllerStep:
        """The step that begins an event. An event that was not queued arrives now."""
        arrival = self._arrival(trigger)
        seq = self._seq if arrival is None else arrival.seq
        request = trigger.request.request if isinstance(trigger, ApiCall) else 0
        return ControllerStep(self._session, trigger_name(trigger), seq, request=request)

    def hold_until_write(self, trigger: Trigger, paths: Sequence[str]) -> None:
        """Let an event wait until the session writes one of these znodes.

        Without paths, the event waits until `release_unnamed`.
        """
        self._held.append((trigger, paths))

    def release_unnamed(self) -> None:
        """Release the events that wait for no znode."""
        self._held[:] = [one for one in self._held if one[1]]

    def release(self, paths: Sequence[str], next_paths: Callable[[], Set[str]]) -> Trigger | None:
        """Release and return the event that waits for one of these znodes.

        Also releases events that wait for znodes that are not among the session's `next_paths`.
        """
        if not self._held:
            return None
        following = next_paths()
        self._held[:] = [
            one for one in self._held if not one[1] or any(path in following for path in one[1])
        ]
        for one in self._held:
            if any(path in one[1] for path in paths):
                self._held.remove(one)
                return one[0]
        return None

    def clear(self) -> None:
        """Drop all events: another controller was active when they arrived."""
        self._pending.clear()
        self._arrivals.clear()

    def admit_requests(self, now_ms: int, *, is_active: bool) -> None:
        """Queue the requests that have arrived; drop those that were answered long ago."""
        while self._answered and self._answered[0][0] < now_ms - LINE_MS:
            self.take(self._answered.popleft()[1])
        for one in self._requests_received_until(now_ms):
            self._expected.popleft()
            if is_active:
                self.add(ApiCall(one.request), now_ms)

    def is_logged(self, trigger: Trigger) -> bool:
        """Whether a line shows when an event is processed, if it has any effect."""
        if not self.has_log:
            return False
        if isinstance(trigger, ApiCall):
            api = OF_REQUEST.get(type(trigger.request))
            return api is not None and (
                api.line == "INFO" or (self.has_debug and api.line == "DEBUG")
            )
        return isinstance(trigger, LOGGED) or (
            self.has_debug and isinstance(trigger, LOGGED_AT_DEBUG)
        )

    def record_choice(self, trigger: Trigger, now_ms: int) -> None:
        """Record that an event begins now, unless a line shows it.

        The line of an AlterPartition names the partitions that are written, often none, so it does
        not show which of several such requests is processed.
        """
        is_logged = self.is_logged(trigger)
        if isinstance(trigger, _NO_CHOICE) or (is_logged and not self._is_alike(trigger, now_ms)):
            return
        step = self.step_of(trigger)
        self._choices.record(
            OpenChoice(step, self._broker, step.arrived, self._seq, is_logged=is_logged)
        )

    def _is_alike(self, trigger: Trigger, now_ms: int) -> bool:
        """Whether the line of an AlterPartition can also be that of another one."""
        if not _is_alter_partition(trigger):
            return False
        alike = self._alter_partitions_writing(self._writes(trigger), now_ms)
        return any(one != trigger for one in alike)

    def next_unlogged(self, until_ms: int | None = None) -> Trigger | None:
        """The first event without a line, if it arrived by `until_ms`.

        The queue is first in, first out, so events that always leave a line keep later ones
        waiting. An event that ends a topic's deletion is recognised by its writes instead.
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
                has_arrived = self._has_arrived(one, until_ms)
                return self._first_in_request_order(one, until_ms) if has_arrived else None
            if isinstance(one, _ALWAYS_LOGGED):
                break
        return next(
            (
                one
                for one in self._pending
                if isinstance(one, _OTHER_QUEUES)
                and not self.is_logged(one)
                and not self.is_held(one)
            ),
            None,
        )

    def _is_early(self, trigger: Trigger) -> bool:
        """Whether an assumption delays the event. Most assumptions name no moment."""
        choices = self._choices
        return choices.has_moments and choices.is_early(self.step_of(trigger), self._seq)

    def is_due(self, trigger: Trigger) -> bool:
        """Whether an assumption requires the event now."""
        choices = self._choices
        return choices.has_moments and choices.is_due(self.step_of(trigger), self._seq)

    def _has_arrived(self, trigger: Trigger, until_ms: int | None) -> bool:
        if until_ms is None or self.is_due(trigger):
            return True
        return self.arrived_ms(trigger) <= until_ms

    def first(self) -> Trigger | None:
        """The first event that is not held, logged or not."""
        return next((one for one in self._pending if not self.is_held(one)), None)

    def arrived_ms(self, trigger: Trigger) -> int:
        """When a queued event arrived."""
        arrival = self._arrival(trigger)
        return 0 if arrival is None else arrival.ms

    def _arrival(self, trigger: Trigger) -> _Arrival | None:
        if trigger not in self._pending:
            return None
        return self._arrivals[self._pending.index(trigger)]

    def unlogged_before(self, trigger: Trigger, *, is_deposed: bool) -> list[Trigger]:
        """Events without a line that arrived before this one and do not show by their writes.

        Watches fire in the order of zxids. A controller that has not noticed yet that it was
        deposed has not received later watches either.
        """
        place = self._pending.index(trigger) if trigger in self._pending else 0
        before: list[Trigger] = []
        is_after_deposition = False
        for one in self._pending[:place]:
            is_after_deposition |= is_deposed and isinstance(one, ControllerChange)
            is_received = isinstance(one, _NOT_BY_WATCH) or not is_after_deposition
            shows = self.is_logged(one) or self.is_held(one) or self._ends_deletion(one)
            if is_received and not shows and not self._is_early(one):
                before.append(one)
        return before

    def is_held(self, trigger: Trigger) -> bool:
        """Whether an event waits for its writes."""
        return any(trigger == held for held, _ in self._held)

    def event_of(self, marker: LogMarker, now_ms: int) -> Trigger | None:
        """The event that a line is about: a queued one, or a request that arrives a little
        later."""
        if marker.event != "AlterPartitionReceived":
            return next(self._matching_triggers(marker), None) or self._take_arriving(
                now_ms, lambda one: matches(marker, ApiCall(one))
            )
        exact = self._alter_partitions_writing(set(marker.partitions), now_ms)
        found = min(exact, key=self._is_early, default=None)
        if found is None:
            return min(self._matching_triggers(marker), key=self._request_order, default=None)
        self._expected = deque(one for one in self._expected if one.request != found.request)
        return found

    def _alter_partitions_writing(
        self, partitions: Set[tuple[str, int]], now_ms: int
    ) -> list[ApiCall]:
        """The AlterPartitions that would write exactly these partitions now, the first one first:
        queued ones, then those that arrive a little later."""
        queued = sorted(filter(_is_alter_partition, self._pending), key=self._request_order)
        arriving = (
            ApiCall(one.request) for one in self._requests_received_until(now_ms + _ARRIVAL_MS)
        )
        return [
            one
            for one in (*queued, *arriving)
            if isinstance(one, ApiCall)
            and _is_alter_partition(one)
            and self._writes(one) == partitions
        ]

    def request_causing(self, decision: StockDecision, now_ms: int) -> Trigger | None:
        """A request without a line that is answered later and concerns the same znodes."""
        return self._take_arriving(
            now_ms,
            lambda one: not self.is_logged(ApiCall(one)) and self._concerns(one, decision),
        )

    def served(self, number: int, now_ms: int) -> Trigger | None:
        """A request was answered; returns it if it must have been processed by now."""
        for one in self._pending:
            if isinstance(one, ApiCall) and one.request.request == number:
                if not self.is_logged(one):
                    return one
                self._answered.append((now_ms, one))
        return None

    def accept_within_event(self, marker: LogMarker, fold: ShadowFold, *, has_failed: bool) -> bool:
        """Take a line that can come from the middle of the event in progress, and does not begin
        another one. Returns whether it does. `has_failed`: the last failover failed."""
        if marker.event == "ReplicaLeaderElection":
            is_of_failover = fold.is_failing_over and marker.text.endswith("ZkTriggered")
            return is_of_failover or marker.text.endswith("AutoTriggered")
        if marker.event == "Resignation" and has_failed and fold.is_failing_over:
            # The controller resigns first, and deletes /controller later.
            return True
        if marker.event == "AlterPartitionReceived" and "Ignoring" in marker.text:
            self._drop_ignored()
            return True
        if self.has_debug and not marker.is_first:
            return True
        if marker.event == "TopicDeletion":
            return fold.is_running and fold.event == marker.event
        if marker.event not in ("PartitionReassignment", "PartitionReassignmentIsrChange"):
            return False
        fold.answer_all()
        return fold.is_running

    def _drop_ignored(self) -> None:
        """Drop an AlterPartition of a broker that is not alive, or of an earlier run of it."""
        for one in self._pending:
            if isinstance(one, ApiCall) and isinstance(one.request, AlterPartitionReceived):
                broker = self._controller.context.brokers.get(one.request.broker)
                if broker is None or broker.epoch != one.request.broker_epoch:
                    self.take(one)
                    return

    def _ends_deletion(self, trigger: Trigger) -> bool:
        """Whether this response is from the last broker to delete its replicas of a topic."""
        if not isinstance(trigger, TopicDeletionStopReplicaResponseReceived):
            return False
        context = self._controller.context
        asked = {(trigger.response.broker, topic, number) for topic, number in trigger.asked}

        def is_deleted(broker: int, partition: Partition) -> bool:
            state = partition.replica_states.get(broker)
            return state is ReplicaState.DELETION_SUCCESSFUL or (broker, *partition.key) in asked

        return any(
            all(starmap(is_deleted, context.replicas_of(topic)))
            for topic in {topic for topic, _ in trigger.asked if topic in context.topics}
        )

    def _first_in_request_order(self, first: Trigger, until_ms: int | None) -> Trigger:
        """The AlterPartition that was processed first, which need not be the first to arrive."""
        if not _is_alter_partition(first):
            return first
        calls = [
            one
            for one in self._pending
            if _is_alter_partition(one) and not self.is_held(one) and not self._is_early(one)
        ]
        if until_ms is not None:
            calls = [one for one in calls if self.arrived_ms(one) <= until_ms]
        return min((first, *calls), key=self._request_order)

    def _request_order(self, trigger: Trigger) -> RequestOrder:
        number = trigger.request.request if isinstance(trigger, ApiCall) else 0
        return self._index.request_order(number)

    def _matching_triggers(self, marker: LogMarker) -> Iterator[Trigger]:
        return (one for one in self._pending if matches(marker, one))

    def _take_arriving(
        self, now_ms: int, is_wanted: Callable[[ControllerRequest], bool]
    ) -> Trigger | None:
        for one in self._requests_received_until(now_ms + _ARRIVAL_MS):
            if is_wanted(one.request):
                self._expected.remove(one)
                return ApiCall(one.request)
        return None

    def _requests_received_until(self, time_ms: int) -> list[LoggedApiRequest]:
        return list(takewhile(lambda one: one.received_ms <= time_ms, self._expected))

    def _concerns(self, request: ControllerRequest, decision: StockDecision) -> bool:
        """Whether a request may have led to a decision, by the znodes of both."""
        paths = [path for path, _ in decision.operations]
        states = {found for path in paths if (found := znodes.partition_of_state(path)) is not None}
        match request:
            case AlterPartitionReassignmentsReceived(partitions=targets):
                topics = {znodes.topic_path(one.topic) for one in targets}
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
            case ElectLeadersReceived(partitions=named):
                return bool(states) and (named is None or not states.isdisjoint(named))
            case ControlledShutdownReceived(broker=broker):
                partitions = starmap(self._controller.context.find, states)
                return any(one is not None and broker in one.replicas for one in partitions)
            case _:
                assert_never(request)

    def _writes(self, trigger: Trigger) -> set[tuple[str, int]]:
        """The partitions whose states an AlterPartition would write now."""
        if isinstance(trigger, ApiCall) and isinstance(trigger.request, AlterPartitionReceived):
            return accepted_partitions(self._controller, trigger.request)
        return set()


def _is_alter_partition(trigger: Trigger) -> bool:
    return isinstance(trigger, ApiCall) and isinstance(trigger.request, AlterPartitionReceived)
