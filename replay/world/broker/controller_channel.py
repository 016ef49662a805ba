"""Requests of a broker to its controller (NodeToControllerChannelManager of Kafka)."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, Protocol

from controller.core import error_codes as codes
from controller.core.api_requests import ApiRequest, ApiResponse, BrokerApiResponse
from replay.world.broker.context import BrokerContext
from replay.world.broker.peer import Peer
from replay.world.messages import ControllerRequest, ControllerResponse
from replay.world.network import Message
from replay.world.scheduler import MS

ProcessOfController = Callable[[int], str]
"""Takes the broker id of a controller; returns its process."""

RETRY_US: Final = 50 * MS
"""Measured: a broker looks the controller up about 18 times a second."""


class OnResponse(Protocol):
    """Takes the response to a request."""

    def __call__(self, response: ApiResponse) -> None: ...


class ControllerConnection(ABC):
    """A connection of a broker to the process of a controller, if there is one."""

    def __init__(self, context: BrokerContext, process_of_controller: ProcessOfController) -> None:
        self._context = context
        self._process_of_controller = process_of_controller
        self._peer: Peer | None = None

    def _connect(self, controller: int) -> Peer:
        """Connect to this controller, unless there is a connection to it."""
        process = self._process_of_controller(controller)
        if self._peer is not None and self._peer.remote != process:
            self._disconnect()
        if self._peer is None:
            self._peer = Peer(
                self._context.clock,
                self._context.network,
                self._context.process,
                process,
                self._receive_response,
                self._handle_failure,
                self._context.settings.socket_timeout_us,
            )
        return self._peer

    def _disconnect(self) -> None:
        peer, self._peer = self._peer, None
        if peer is not None:
            peer.close()

    @abstractmethod
    def _receive_response(self, message: Message) -> None:
        """A response of the controller."""

    @abstractmethod
    def _handle_failure(self) -> None:
        """Continue after a connection that was refused or lost, or an overdue response."""


class ControllerChannel(ControllerConnection):
    """Sends one request at a time, again and again until the controller has answered it. The
    controller is the one that the last UpdateMetadata request named."""

    def __init__(self, context: BrokerContext, process_of_controller: ProcessOfController) -> None:
        super().__init__(context, process_of_controller)
        self._queued: tuple[ApiRequest, OnResponse] | None = None

    def send(self, request: ApiRequest, on_response: OnResponse) -> None:
        """Send a request; there must be no other one."""
        assert self._queued is None
        self._queued = (request, on_response)
        self._try()

    def close(self) -> None:
        """Drop the request."""
        self._queued = None
        self._disconnect()

    def _try(self) -> None:
        if self._queued is None:
            return
        controller = self._context.metadata.known_controller()
        if controller is None:
            self._retry()
            return
        request, _ = self._queued
        self._connect(controller).send(lambda number: ControllerRequest(number, request))

    def _receive_response(self, message: Message) -> None:
        assert isinstance(message, ControllerResponse), message
        if self._queued is None:
            return
        response = message.response
        if isinstance(response, BrokerApiResponse) and response.error == codes.NOT_CONTROLLER:
            self._disconnect()
            self._retry()
            return
        _, on_response = self._queued
        self._queued = None
        on_response(response)

    def _handle_failure(self) -> None:
        self._peer = None
        # Without a request, the next one is sent at once, and must not be sent again later.
        if self._queued is not None:
            self._retry()

    def _retry(self) -> None:
        self._context.clock.after(RETRY_US, self._try)
