"""The endpoint of a controller: requests of brokers and administrators, and their responses."""

from collections.abc import Callable

import msgspec

from controller.core.api_requests import ApiResponse
from controller.core.events import Event
from replay.world.messages import ControllerRequest, ControllerResponse
from replay.world.network import Connection, Message

Put = Callable[[Event, str], None]
"""Takes an event and its channel."""


class ControllerEndpoint:
    """Numbers the requests of one run as they arrive, and sends each response back on the
    connection of its request. A response is lost if that connection has ended."""

    def __init__(self, put: Put) -> None:
        self._put = put
        self._requests = 0
        self._connections = 0
        self._waiting: dict[int, tuple[Connection, int]] = {}

    def accept(self) -> "_ControllerConnection":
        """A process connects."""
        self._connections += 1
        return _ControllerConnection(self, f"api:{self._connections}")

    def answer(self, response: ApiResponse) -> None:
        """Send a response."""
        waiting = self._waiting.pop(response.request, None)
        if waiting is not None:
            connection, number = waiting
            connection.send(ControllerResponse(number, response))

    def arrived(self, connection: Connection, channel: str, message: ControllerRequest) -> None:
        """A request arrived."""
        self._requests += 1
        self._waiting[self._requests] = (connection, message.number)
        self._put(msgspec.structs.replace(message.request, request=self._requests), channel)

    def ended(self, connection: Connection) -> None:
        """A connection ended, and with it its requests."""
        waiting = self._waiting.items()
        self._waiting = {number: one for number, one in waiting if one[0] is not connection}


class _ControllerConnection:
    """One connection."""

    def __init__(self, endpoint: ControllerEndpoint, channel: str) -> None:
        self._endpoint = endpoint
        self._channel = channel

    def connected(self, connection: Connection) -> None:
        """Not called: the other side connects."""

    def received(self, connection: Connection, message: Message) -> None:
        """A request arrived."""
        assert isinstance(message, ControllerRequest), message
        self._endpoint.arrived(connection, self._channel, message)

    def disconnected(self, connection: Connection | None) -> None:
        """The other side is gone."""
        assert connection is not None
        self._endpoint.ended(connection)
