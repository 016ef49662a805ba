"""What every procedure works with: the state, and the commands that this turn issues."""

from collections import deque
from collections.abc import Iterable

from controller.core.batch import RequestBatch
from controller.core.commands import (
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
from controller.core.processing_order import ProcessingOrder
from controller.core.state import ControllerContext
from controller.core.triggers import Trigger


class Controller:
    """The controller of one daemon run.

    `session_id` is the living ZooKeeper session (0: none); `is_active` tells whether that session
    holds the role, `connections` counts the connections to ZooKeeper of this run, `is_stopping`
    tells that the daemon is to end, `is_backing_off` that a failover of ours has just failed.
    `stood_session` is the session that stood for election last (0: none has), `last_epoch` the
    highest controller epoch that it has held. `timed` holds the requests that are not answered yet
    and have a time-out, by the name of its timer, `unsent` the state machines that a fenced change
    has left unable to go on, `left_channels` the brokers to which a role that ended without
    resigning has left channels. `now_ms` is the wall clock of the event that is folded, `follower`
    observes every step, `turns` is the order of what is done one by one.
    """

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
        self.stood_session = 0
        self.last_epoch = 0
        self.timed: dict[str, int] = {}
        self.unsent: dict[str, None] = {}
        self.left_channels: frozenset[int] = frozenset()
        self.now_ms = 0
        self.follower = FoldObserver()
        self.turns = ProcessingOrder()
        self._cause = 0
        self._ordinal = 0
        self._issued: list[Issued] = []

    @property
    def term(self) -> int:
        """The controller epoch that this session holds; 0: none."""
        return self.context.epoch if self.is_active else 0

    def begin(self, seq: int, now_ms: int) -> None:
        """A new event is folded: its number is the cause of what is issued from now on."""
        self._cause, self._ordinal, self.now_ms = seq, 0, now_ms

    def issue(self, command: Command, reason: Reason) -> CommandId:
        """Put a command out; it is carried out when the slice ends."""
        id = CommandId(self._cause, self._ordinal)
        self._ordinal += 1
        issued = Issued(id, self.term, command, reason)
        self._issued.append(issued)
        self.follower.issues(issued)
        return id

    def new_context(self) -> ControllerContext:
        """The knowledge of nothing, with which a term begins and ends."""
        configuration = self.configuration
        context = ControllerContext(configuration.inter_broker_listener, configuration.own_broker)
        context.unclean_default = configuration.unclean_leader_election_enable
        return context

    def take_issued(self) -> list[Issued]:
        """What was issued since the last call."""
        issued, self._issued = self._issued, []
        return issued

    def notice(self, level: str, code: str, subject: str, text: str) -> None:
        """Tell the operator."""
        self.issue(Notice(level, code, subject, text), Reason(code))

    def enqueue(self, trigger: Trigger) -> None:
        """Queue a controller event, once: a procedure reads anew what its trigger is about."""
        if trigger not in self.triggers:
            self.triggers.append(trigger)

    def new_batch(self, rule: str) -> RequestBatch:
        """An empty batch of broker requests, issued under this rule."""
        return RequestBatch(self.context, self.protocol, self.configuration.broker_id, rule)

    def send(self, batch: RequestBatch) -> list[CommandId]:
        """Issue a batch's requests in KB 12.2.2's order; their ids."""
        reason = Reason(batch.rule)
        sent = []
        requests = list(batch.requests())
        self.follower.sends(requests, batch.rule)
        for request in requests:
            id = self.issue(request, reason)
            if request.broker in self.context.channels:
                if isinstance(request, UpdateMetadataRequest):
                    self.context.unheard[request.broker] = id
                elif _is_waited_for(request):
                    self.context.in_flight[id] = request
            sent.append(id)
        return sent

    def send_metadata(self, rule: str, brokers: Iterable[int]) -> list[CommandId]:
        """UpdateMetadata without partitions, to spread who is alive; the requests that went out."""
        batch = self.new_batch(rule)
        batch.add_update_metadata(brokers, ())
        return self.send(batch)

    def stop(self, reason: str, rule: str) -> None:
        """End the daemon; nothing is begun after that."""
        self.is_stopping = True
        self.issue(Stop(reason), Reason(rule))


def _is_waited_for(request: LeaderAndIsrRequest | StopReplicaRequest) -> bool:
    if isinstance(request, StopReplicaRequest):
        return any(one.delete for one in request.partitions)
    return True
