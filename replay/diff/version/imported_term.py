"""One term of a version as controller of an imported cluster.

The requests to the controller and the responses of brokers are those of the shadow fold.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from statistics import median
from typing import Final

from msgspec import structs

from controller.core.api_requests import ApiRequest
from controller.core.api_requests.alter_partition import (
    AlterPartitionReceived,
    AlterPartitionResponse,
)
from controller.core.canonical import digest, encode_command, kind_of
from controller.core.commands import BrokerRequest, Command, CommandId
from controller.core.events import (
    BrokerResponded,
    Recorded,
    SessionConnected,
    TimerFired,
    TopicIdsDrawn,
)
from controller.core.fold import Fold
from controller.core.procedures.elections.rebalance import rebalance_timer
from controller.core.triggers import ApiCall
from replay.agreement.logs.index import BrokerLogIndex
from replay.agreement.trace.fold_inputs import FoldInput
from replay.diff.version.adapted_requests import adapt_request
from replay.diff.version.command_responder import CommandResponder
from replay.diff.version.decisions import DecisionRecorder
from replay.diff.version.fold_recorder import FoldRecorder, TimelineRecorder
from replay.diff.version.imported_zookeeper import ImportedZooKeeper
from replay.diff.version.log_commands import LogCommands
from replay.diff.version.recorded_history import USUAL_NS, accepted_proposals
from replay.shadow_folds import ShadowObserver

_SESSION_TIMEOUT_MS: Final = 6000


class ImportedTerm:
    """The version as controller, in a session that becomes controller at record `seq`."""

    def __init__(
        self,
        zookeeper: ImportedZooKeeper,
        shadow: ShadowObserver,
        index: BrokerLogIndex,
        seq: int,
        time_ns: int,
        timelines: TimelineRecorder,
    ) -> None:
        """`shadow` has the inputs and the commands of the session's shadow fold."""
        self._fold = Fold(shadow.fold.controller.configuration)
        self._log = LogCommands()
        self._inputs = deque((at, one) for at, _, one in shadow.fold.inputs if at >= seq)
        self._accepted: dict[tuple[int, str, int], bool] = {}
        self._unnumbered = 0
        connected = SessionConnected(zookeeper.session, _SESSION_TIMEOUT_MS, "", renewed=False)
        last = Recorded(seq, time_ns, time_ns, 0, "session", connected)
        times = _usual_ns(shadow)
        recorder = FoldRecorder(DecisionRecorder(), timelines)
        self._fold.controller.observer = recorder.causes
        self.responder = CommandResponder(
            self._fold,
            zookeeper,
            self._log,
            lambda kind: times.get(kind, USUAL_NS),
            (),
            last,
            recorder,
        )
        self._follow_index(index)
        self._add_commands(shadow, seq)
        self.responder.receive(connected, "session")
        self.responder.work()

    @property
    def is_unresponsive(self) -> bool:
        """Whether the controller's process is unresponsive, because its session is about to
        expire."""
        return self.responder.is_unresponsive(self._fold.controller.configuration.broker_id)

    def advance(self, seq: int, time_ns: int) -> None:
        """Advance to a record: carry out due work, then pass on the controller's inputs."""
        self.responder.run_until(time_ns)
        self.responder.seq = seq
        while self._inputs and self._inputs[0][0] <= seq:
            self._pass_on(self._inputs.popleft()[1])
            self.responder.work()

    def _follow_index(self, index: BrokerLogIndex) -> None:
        """Rebalance leaders when the controller's log says so. A process whose session expires is
        unresponsive for the session timeout before."""
        controller = self._fold.controller
        has_log = bool(index.markers.get(controller.configuration.broker_id))
        responder = self.responder
        responder.is_timed_by_log = lambda timer: has_log and timer == rebalance_timer(controller)
        responder.is_unresponsive = lambda broker: not index.is_responsive(broker, responder.now_ms)

    def _add_commands(self, shadow: ShadowObserver, seq: int) -> None:
        """Add the requests to brokers, the accepted proposals and the draws of this term."""
        commands: dict[CommandId, Command] = {}
        for issued, at, time_ns, *_ in shadow.commands:
            command = commands[issued.id] = issued.command
            if at >= seq and isinstance(command, BrokerRequest):
                self._log.add_request(issued.id, command, time_ns)
            elif isinstance(command, AlterPartitionResponse):
                self._accepted.update(accepted_proposals(command))
        for _, one in self._inputs:
            if isinstance(one, TopicIdsDrawn):
                key = digest(encode_command(commands[one.command]))
                self.responder.drawn[key].append(one)

    def _pass_on(self, one: FoldInput) -> None:
        match one:
            case ApiCall():
                for request in one.requests:
                    self._request(request)
            case BrokerResponded():
                self._answer(one)
            case TopicIdsDrawn():
                pass
            case _:
                timer = rebalance_timer(self._fold.controller)
                if self.responder.timers.pop(timer, None) is not None:
                    self.responder.receive(TimerFired(timer), f"timer:{timer}")

    def _request(self, request: ApiRequest) -> None:
        requests: Sequence[ApiRequest] = [request]
        if isinstance(request, AlterPartitionReceived):
            context = self._fold.controller.context
            # A request without a number was inferred from a write, so it was accepted.
            accepted = self._accepted if request.request else {}
            requests, assumed = adapt_request(request, context, accepted)
            self.responder.assumed.update(assumed)
        for one in requests:
            self._unnumbered -= 1
            self.responder.receive(structs.replace(one, request=self._unnumbered), "api")

    def _answer(self, response: BrokerResponded) -> None:
        """Pass on a response to the same request of the version, which may be sent later."""
        one = self._log.of.get(response.command)
        if one is None:
            return
        counterpart = one.counterpart
        if counterpart is None:
            self.responder.answered[one.digest].append(response)
        else:
            response = structs.replace(response, command=counterpart.id)
            self.responder.receive(response, f"broker:{response.broker}")
        self._log.end(one.id)


def _usual_ns(shadow: ShadowObserver) -> dict[str, int]:
    """The median time until the response, by kind of request."""
    sent = {issued.id: (kind_of(issued.command), at_ns) for issued, _, at_ns, *_ in shadow.commands}
    times: dict[str, list[int]] = defaultdict(list)
    for _, received_ns, one in shadow.fold.inputs:
        if isinstance(one, BrokerResponded):
            kind, sent_ns = sent[one.command]
            times[kind].append(received_ns - sent_ns)
    return {kind: int(median(found)) for kind, found in times.items()}
