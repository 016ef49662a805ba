"""How a broker asks its controller before it stops (KafkaServer.controlledShutdown, KB 9.5)."""

from collections.abc import Callable
from typing import Final

from controller.core import error_codes as codes
from controller.core.api_requests.controlled_shutdown import (
    ControlledShutdownReceived,
    ControlledShutdownResponse,
)
from replay.world.broker.context import BrokerContext
from replay.world.broker.controller_channel import ControllerConnection, ProcessOfController
from replay.world.messages import ControllerRequest, ControllerResponse
from replay.world.network import Message

_VERSION: Final = 3


class ControlledShutdown(ControllerConnection):
    """Some attempts, each on a new connection to the controller that is known then. The broker
    stops after the last one, whatever the controller answered."""

    def __init__(
        self,
        context: BrokerContext,
        process_of_controller: ProcessOfController,
        on_end: Callable[[], None],
    ) -> None:
        super().__init__(context, process_of_controller)
        self._on_end = on_end
        self._left = context.settings.shutdown_attempts
        self._attempt()

    def close(self) -> None:
        """The broker ends before the controller has answered."""
        self._left = 0
        self._disconnect()

    def _attempt(self) -> None:
        context = self._context
        self._left -= 1
        controller = context.metadata.known_controller()
        if controller is None:
            self._handle_failure()
            return
        request = ControlledShutdownReceived(0, _VERSION, context.id, context.epoch)
        self._connect(controller).send(lambda number: ControllerRequest(number, request))

    def _receive_response(self, message: Message) -> None:
        assert isinstance(message, ControllerResponse), message
        response = message.response
        assert isinstance(response, ControlledShutdownResponse), response
        self._disconnect()
        if response.error == codes.NONE and not response.remaining:
            self._on_end()
        else:
            self._handle_failure()

    def _handle_failure(self) -> None:
        self._peer = None
        if self._left > 0:
            self._context.clock.after(self._context.settings.shutdown_backoff_us, self._attempt)
        else:
            self._on_end()
