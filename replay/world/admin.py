"""The administrators of the simulation: one process, "admin", that carries out one act after
another.

Acts that are due at the same time run side by side. A request that gets no reply, or whose receiver
is not the controller, is sent again, as an administrator would.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from controller.core import znodes
from controller.core.api_requests import AdminRequest, ApiResponse
from controller.core.error_codes import NOT_CONTROLLER
from controller.core.events import WatchFired
from replay.world.admin_acts import TIMEOUT_MS, Step, Steps, steps_of
from replay.world.draws import Draws
from replay.world.inputs import AdminAct
from replay.world.messages import ControllerRequest, ControllerResponse
from replay.world.network import Connection, Message, Network
from replay.world.processes import ADMIN
from replay.world.requests import GetData, Reply
from replay.world.scheduler import MS, Clock, ScheduledAction
from replay.world.zookeeper_client import ProcessSession

RETRY_US: Final = 500 * MS
ATTEMPTS_MAX: Final = 40
"""How often a request is sent before the administrator gives up."""


class AdminOutcome(NamedTuple):
    """The outcome of a request of an act: the reply or response, None if the administrator gave
    up."""

    at_us: int
    act: AdminAct
    reply: Reply | ApiResponse | None


class Admin:
    """`outcomes`: of all requests so far. `process_of` names the process of a controller's id."""

    def __init__(
        self, clock: Clock, network: Network, process_of: Callable[[int], str], seed: int
    ) -> None:
        self.outcomes: list[AdminOutcome] = []
        self.clock = clock
        self.network = network
        self.process_of = process_of
        self.zookeeper = ProcessSession(clock, network, ADMIN, self)
        self._draws = Draws(seed, ADMIN)

    def start(self) -> None:
        """Connect to ZooKeeper."""
        self.zookeeper.start()

    def carry_out(self, act: AdminAct) -> None:
        """Begin an act."""
        _Running(self, act, steps_of(act, self._draws)).begin()

    # The session has no watches and no ephemeral znodes.

    def session_started(self, session: int) -> None:
        """A new session is established: nothing to do."""

    def session_resumed(self) -> None:
        """The session is resumed: nothing to do."""

    def connection_lost(self) -> None:
        """The connection is lost: nothing to do."""

    def session_expired(self) -> None:
        """The session has expired: nothing to do."""

    def watch_fired(self, event: WatchFired) -> None:
        """Never called: no watch is set."""


class _Running:
    """An act that is being carried out."""

    def __init__(self, admin: Admin, act: AdminAct, steps: Steps) -> None:
        self._admin = admin
        self._act = act
        self._steps = steps
        self._attempts = 0

    def begin(self) -> None:
        """Take the first step."""
        self._next(next(self._steps, None))

    def _next(self, request: Step | None) -> None:
        self._attempts = 0
        if request is not None:
            self._attempt(request)

    def _attempt(self, request: Step) -> None:
        self._attempts += 1
        admin = self._admin
        if isinstance(request, AdminRequest):
            asked = request
            find = GetData(znodes.CONTROLLER)
            admin.zookeeper.submit(find, lambda reply: self._call(asked, reply))
        else:
            admin.zookeeper.submit(request, lambda reply: self._receive_reply(request, reply))

    def _call(self, request: AdminRequest, found: Reply | None) -> None:
        data = found.result.data if found is not None else None
        controller = znodes.read_controller(data) if data is not None else None
        if controller is None:
            self._retry(request)
            return
        process = self._admin.process_of(controller.brokerid)
        _Call(
            self._admin,
            process,
            request,
            lambda response: self._receive_response(request, response),
        )

    def _receive_response(self, request: AdminRequest, response: ApiResponse | None) -> None:
        if response is None or _is_refused(response):
            self._retry(request)
        else:
            self._done(response)

    def _receive_reply(self, request: Step, reply: Reply | None) -> None:
        if reply is None:
            self._retry(request)
        else:
            self._done(reply)

    def _retry(self, request: Step) -> None:
        if self._attempts < ATTEMPTS_MAX:
            self._admin.clock.after(RETRY_US, lambda: self._attempt(request))
        else:
            self._note(None)

    def _done(self, reply: Reply | ApiResponse) -> None:
        self._note(reply)
        try:
            request = self._steps.send(reply)
        except StopIteration:
            return
        self._next(request)

    def _note(self, reply: Reply | ApiResponse | None) -> None:
        self._admin.outcomes.append(AdminOutcome(self._admin.clock.now_us, self._act, reply))


class _Call:
    """One request to a controller, on a connection for it."""

    def __init__(
        self,
        admin: Admin,
        process: str,
        request: AdminRequest,
        on_response: Callable[[ApiResponse | None], None],
    ) -> None:
        self._request = request
        self._on_response = on_response
        self._connection: Connection | None = None
        self._time_out: ScheduledAction = admin.clock.after(2 * TIMEOUT_MS * MS, self._timed_out)
        self._is_over = False
        admin.network.connect(ADMIN, process, self)

    def connected(self, connection: Connection) -> None:
        """Send the request."""
        if self._is_over:
            connection.close()
            return
        self._connection = connection
        connection.send(ControllerRequest(1, self._request))

    def received(self, connection: Connection, message: Message) -> None:
        """The response."""
        assert isinstance(message, ControllerResponse), message
        self._end(message.response)

    def disconnected(self, connection: Connection | None) -> None:
        """No response follows."""
        self._end(None)

    def _timed_out(self) -> None:
        self._end(None)

    def _end(self, response: ApiResponse | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._time_out.cancel()
        if self._connection is not None:
            self._connection.close()
        self._on_response(response)


def _is_refused(response: ApiResponse) -> bool:
    """Whether the receiver is not the controller: an administrator looks for the new one."""
    fields = (getattr(response, name) for name in response.__struct_fields__)
    items = (one for each in fields if isinstance(each, tuple) for one in each)
    return any(getattr(one, "error", 0) == NOT_CONTROLLER for one in (response, *items))
