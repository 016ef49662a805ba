"""A version as controller of an imported cluster, in one term.

Who asks it for what, and what is answered, is as it was beside the log's own controller.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from statistics import median
from typing import Final

from msgspec import structs

from controller.core.api_requests import ApiRequest
from controller.core.api_requests.alter_partition import (
    AlterPartitionReceived,
    AnswerAlterPartition,
)
from controller.core.canonical import digest, encode_command, kind_of
from controller.core.commands import (
    Command,
    CommandId,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from controller.core.events import (
    BrokerAnswered,
    Recorded,
    SessionConnected,
    TimerFired,
    TopicIdsDrawn,
)
from controller.core.fold import Fold
from controller.core.procedures.elections.rebalance import rebalance_timer
from controller.core.triggers import ApiCall
from replay.diff.version import assumptions
from replay.diff.version.command_responder import CommandResponder
from replay.diff.version.decided import Deciding
from replay.diff.version.fold_options import Wanted
from replay.diff.version.imported_world import ImportedWorld
from replay.diff.version.log_commands import LogCommands
from replay.diff.version.own_requests import as_it_would_be
from replay.diff.version.partition_timelines import Courses
from replay.diff.version.recorded_history import USUAL_NS
from replay.shadow_folds import ShadowObserver
from replay.stock_clusters.agreement.logs.index import Index
from replay.stock_clusters.agreement.trace.fold_inputs import FoldInput

_REQUESTS: Final = (LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest)
_SESSION_TIMEOUT_MS: Final = 6000


class ImportedTerm:
    """The version as controller, in a session that was controller in the log from `seq` on."""

    def __init__(
        self,
        world: ImportedWorld,
        beside: ShadowObserver,
        index: Index,
        seq: int,
        time_ns: int,
        courses: Courses,
    ) -> None:
        """`beside` has heard what the log's controller was told."""
        self._fold = Fold(beside.fold.controller.configuration)
        self._log = LogCommands()
        self._inputs = deque((at, one) for at, _, one in beside.fold.inputs if at >= seq)
        self._accepted: dict[tuple[int, str, int], bool] = {}
        self._unnumbered = 0
        connected = SessionConnected(world.session, _SESSION_TIMEOUT_MS, "", renewed=False)
        last = Recorded(seq, time_ns, time_ns, 0, "session", connected)
        times = _usual_ns(beside)
        wanted = Wanted(Deciding(), courses)
        self._fold.controller.observer = wanted.causes
        self.own = CommandResponder(
            self._fold, world, self._log, lambda kind: times.get(kind, USUAL_NS), (), last, wanted
        )
        self._obey(index)
        self._know(beside, seq)
        self.own.happen(connected, "session")
        self.own.work()

    @property
    def is_silent(self) -> bool:
        """Whether its process hears nothing any more: its session is about to expire."""
        return self.own.is_silent(self._fold.controller.configuration.broker_id)

    def come(self, seq: int, time_ns: int) -> None:
        """The log has come to a record: what is due, and what the controller was told by then."""
        self.own.run_until(time_ns)
        self.own.seq = seq
        while self._inputs and self._inputs[0][0] <= seq:
            self._hear(self._inputs.popleft()[1])
            self.own.work()

    def _obey(self, index: Index) -> None:
        """A log of the controller tells each time that leaders are rebalanced; a process whose
        session expires was not heard of for the time-out before."""
        controller = self._fold.controller
        has_log = bool(index.markers.get(controller.configuration.broker_id))
        self.own.is_timed_by_log = lambda timer: has_log and timer == rebalance_timer(controller)
        self.own.is_silent = lambda broker: not index.is_responsive(broker, self.own.now_ms)

    def _know(self, beside: ShadowObserver, seq: int) -> None:
        """What the log's controller asked of brokers, and what it answered, in this term."""
        commands: dict[CommandId, Command] = {}
        for issued, at, time_ns, _ in beside.noted:
            command = commands[issued.id] = issued.command
            if at >= seq and isinstance(command, _REQUESTS):
                self._log.add_request(issued.id, command, time_ns)
            elif isinstance(command, AnswerAlterPartition):
                for one in command.partitions:
                    topic = one.topic_id.hex() if one.topic_id else one.topic
                    granted = not command.error and not one.error
                    self._accepted[command.request, topic, one.partition] = granted
        for _, told in self._inputs:
            if isinstance(told, TopicIdsDrawn):
                key = digest(encode_command(commands[told.command]))
                self.own.drawn[key].append(told)

    def _hear(self, told: FoldInput) -> None:
        match told:
            case ApiCall():
                for request in told.requests:
                    self._ask(request)
            case BrokerAnswered():
                self._answer(told)
            case TopicIdsDrawn():
                pass
            case _:
                timer = rebalance_timer(self._fold.controller)
                if self.own.timers.pop(timer, None) is not None:
                    self.own.happen(TimerFired(timer), f"timer:{timer}")

    def _ask(self, request: ApiRequest) -> None:
        requests: Sequence[ApiRequest] = [request]
        if isinstance(request, AlterPartitionReceived):
            context = self._fold.controller.context
            # Where writes show what was asked for, it was granted, and has no number.
            accepted = self._accepted if request.request else {}
            requests, adapted, moved = as_it_would_be(request, context, accepted)
            self.own.assumed[assumptions.ALTER_PARTITION] += adapted
            self.own.assumed[assumptions.OTHER_LEADER] += moved
        for one in requests:
            self._unnumbered -= 1
            self.own.happen(structs.replace(one, request=self._unnumbered), "api")

    def _answer(self, answer: BrokerAnswered) -> None:
        """To the request that is the same here, now or later."""
        one = self._log.of.get(answer.command)
        if one is None:
            return
        taken = one.taken_by
        if taken is None:
            self.own.answered[one.digest].append(answer)
        else:
            answer = structs.replace(answer, command=taken.id)
            self.own.happen(answer, f"broker:{answer.broker}")
        self._log.end(one.id)


def _usual_ns(beside: ShadowObserver) -> dict[str, int]:
    """How long the answer to each kind of request took."""
    sent = {issued.id: (kind_of(issued.command), at_ns) for issued, _, at_ns, _ in beside.noted}
    times: dict[str, list[int]] = defaultdict(list)
    for _, told_ns, told in beside.fold.inputs:
        if isinstance(told, BrokerAnswered):
            kind, sent_ns = sent[told.command]
            times[kind].append(told_ns - sent_ns)
    return {kind: int(median(found)) for kind, found in times.items()}
