"""The part of the fold that every procedure uses: the context, and the commands that it issues."""

from collections import deque
from collections.abc import Iterable
from typing import Final, cast

from controller.core.api_requests import API_RESPONSES, ApiResponse
from controller.core.batch import RequestBatch
from controller.core.commands import (
    BrokerRequest,
    Choice,
    Command,
    CommandId,
    Issued,
    LeaderAndIsrRequest,
    Notice,
    Reason,
    Stop,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from controller.core.configuration import Configuration
from controller.core.fold_observer import FoldObserver
from controller.core.prepared_topics import PreparedTopic
from controller.core.processing_order import ProcessingOrder
from controller.core.standby import StandbyState
from controller.core.state import ControllerContext
from controller.core.triggers import Trigger


class Controller:
    """The controller of one daemon run.

    - `session_id`: the current ZooKeeper session; 0: none.
    - `is_active`: that session holds the controller role.
    - `connections`: the number of connections to ZooKeeper in this run.
    - `is_stopping`: the daemon is about to exit.
    - `is_backing_off`: a failover of this daemon has just failed.
    - `candidate_session`: the last session that stood for election, 0: none; `last_epoch`: the
      highest controller epoch that it has held.
    - `is_waiting_for_own_znode`: /controller still belongs to that session, which is over.
    - `timed`: the unanswered requests that have a time-out, by the name of their timer.
    - `unsent`: the state machines that a fenced change has left with requests in their batch.
    - `leftover_channels`: the brokers with channels from a role that ended without a resignation.
    - `standby`: what a standby knows of ZooKeeper.
    - `prepared`: by name the topics that are prepared for the start of brokers; some may have
      changed since. This affects no decision.
    - `now_ms`: the wall clock of the event that is folded.
    - `answered`: the requests that the running procedure has answered.
    - `observer`: observes every step.
    - `order`: the processing order for items that are handled sequentially.
    """

    lost_reply_rule: Final = "settle writes whose reply was lost"

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.protocol = configuration.protocol
        self.context = self.new_context()
        self.triggers: deque[Trigger] = deque()
        self.session_id = 0
        self.is_active = False
        self.is_connected = False
        self.connections = 0
        self.is_stopping = False
        self.is_backing_off = False
        self.candidate_session = 0
        self.last_epoch = 0
        self.is_waiting_for_own_znode = False
        self.timed: dict[str, int] = {}
        self.unsent: dict[str, None] = {}
        self.leftover_channels: frozenset[int] = frozenset()
        self.standby = StandbyState()
        self.prepared: dict[str, PreparedTopic] = {}
        self.now_ms = 0
        self.answered: dict[int, None] = {}
        self.observer = FoldObserver()
        self.order = ProcessingOrder()
        self._cause = 0
        self._ordinal = 0
        self._issued: list[Issued] = []

    @property
    def term(self) -> int:
        """The controller epoch that this session holds; 0: none."""
        return self.context.epoch if self.is_active else 0

    @property
    def epoch_version(self) -> int | None:
        """The version of /controller_epoch that guards this term's writes."""
        return self.context.epoch_version

    def begin(self, seq: int, now_ms: int) -> None:
        """Begin to fold an event: its number is the cause of the commands that follow."""
        self._cause, self._ordinal, self.now_ms = seq, 0, now_ms

    def issue(self, command: Command, reason: Reason) -> CommandId:
        """Issue a command; it is carried out when the slice ends."""
        id = CommandId(self._cause, self._ordinal)
        self._ordinal += 1
        issued = Issued(id, self.term, command, reason)
        self._issued.append(issued)
        if type(command) in API_RESPONSES:
            self.answered[cast(ApiResponse, command).request] = None
        self.observer.issues(issued)
        return id

    def new_context(self) -> ControllerContext:
        """An empty context, with which a term begins and ends."""
        configuration = self.configuration
        context = ControllerContext(
            configuration.inter_broker_listener, configuration.daemon_broker
        )
        context.unclean_default = configuration.unclean_leader_election_enable
        return context

    def forget_standby(self) -> None:
        """Know nothing of ZooKeeper as a standby any more. During a failover, the topics belong to
        the context already."""
        if not self.is_active:
            topics = self.standby.topics.values()
            self.observer.drops_topics([one for one in topics if one is not None])
        self.standby = StandbyState()

    def take_issued(self) -> list[Issued]:
        """The commands issued since the last call."""
        issued, self._issued = self._issued, []
        return issued

    def notice(
        self, level: str, code: str, subject: str, text: str, choices: tuple[Choice, ...] = ()
    ) -> None:
        """Log one line for the operator. `choices`: the failed elections that it reports."""
        self.issue(Notice(level, code, subject, text), Reason(code, choices))

    def enqueue(self, trigger: Trigger) -> None:
        """Queue a controller event, unless it is queued: a procedure reads the current state
        anyway."""
        if trigger not in self.triggers:
            self.triggers.append(trigger)
            self.observer.queues(trigger)

    def enqueue_first(self, trigger: Trigger) -> None:
        """Queue a controller event before all others, even if it is queued."""
        self.triggers.appendleft(trigger)
        self.observer.queues(trigger)

    def new_batch(self, rule: str) -> RequestBatch:
        """An empty batch of broker requests, whose commands get this rule."""
        return RequestBatch(self.context, self.protocol, self.configuration.broker_id, rule)

    def send(self, batch: RequestBatch) -> list[CommandId]:
        """Issue a batch's requests in the order of KB 12.2.2. Returns their ids."""
        return self.send_requests(list(batch.requests()), batch.rule)

    def send_requests(self, requests: list[BrokerRequest], rule: str) -> list[CommandId]:
        """Issue these requests of a batch. Returns their ids."""
        reason = Reason(rule)
        sent = []
        self.observer.sends(requests, rule)
        for request in requests:
            id = self.issue(request, reason)
            if request.broker in self.context.channels:
                if isinstance(request, UpdateMetadataRequest):
                    self.context.unacked_metadata[request.broker] = id
                elif _is_waited_for(request):
                    self.context.in_flight[id] = request
            sent.append(id)
        return sent

    def send_metadata(self, rule: str, brokers: Iterable[int]) -> list[CommandId]:
        """Send UpdateMetadata without partitions, which informs brokers of the live brokers.
        Returns the ids of the requests."""
        batch = self.new_batch(rule)
        batch.add_update_metadata(brokers, ())
        return self.send(batch)

    def stop(self, reason: str, rule: str) -> None:
        """Stop the daemon; no other procedure begins."""
        self.is_stopping = True
        self.issue(Stop(reason), Reason(rule))


def _is_waited_for(request: LeaderAndIsrRequest | StopReplicaRequest) -> bool:
    if isinstance(request, StopReplicaRequest):
        return any(one.delete for one in request.partitions)
    return True
