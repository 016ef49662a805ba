"""Lines of Kafka's threads that send requests to brokers (RequestSendThread), and errors in
responses.
"""

from controller.core.commands import (
    CloseChannel,
    CommandId,
    Issued,
    LeaderAndIsrRequest,
    OpenChannel,
    UpdateMetadataRequest,
)
from controller.core.events import BrokerResponded, ChannelFault, Event
from replay.kafka_text.kafka_log import SENDER, STATE_CHANGE_ANSWER, KafkaLog, LogObserver
from replay.kafka_text.scala_text import node


class ChannelLines(LogObserver):
    """Logs the state of the channel to each broker: opened, connected, failed, closed.

    A log does not have the time of a new connection, so the first answer counts as the time.
    """

    def __init__(self, log: KafkaLog) -> None:
        super().__init__(log)
        self._connected = set(log.context.channels)
        self._pending: dict[CommandId, tuple[int, str]] = {}

    def issues(self, issued: Issued) -> None:
        match issued.command:
            case OpenChannel():
                self.log.info(SENDER, "Starting")
            case CloseChannel(broker=broker):
                self._connected.discard(broker)
                self._pending = {id: one for id, one in self._pending.items() if one[0] != broker}
                for text in ("Shutting down", "Stopped", "Shutdown completed"):
                    self.log.info(SENDER, text)
            case LeaderAndIsrRequest(broker=broker):
                self._pending[issued.id] = (broker, "LeaderAndIsr")
            case UpdateMetadataRequest(broker=broker):
                self._pending[issued.id] = (broker, "UpdateMetadata")

    def on_event(self, event: Event) -> None:
        match event:
            case BrokerResponded():
                self._log_connected(event.broker)
                _, request = self._pending.pop(event.command, (0, ""))
                if request and event.error:
                    self._log_error(event, request)
            case ChannelFault(kind="recovered"):
                self._log_connected(event.broker)
            case ChannelFault():
                self._log_fault(event)

    def _log_connected(self, broker: int) -> None:
        where = self._node(broker)
        if broker in self._connected or not where:
            return
        self._connected.add(broker)
        text = f"connected to {where} for sending state change requests"
        self.log.info(SENDER, f"Controller {self.log.id} {text}")

    def _log_fault(self, fault: ChannelFault) -> None:
        where = self._node(fault.broker)
        if not where:
            return
        self._connected.discard(fault.broker)
        exception = f"java.io.IOException: {fault.text}"
        if fault.kind == "unreachable":
            text = f"Controller {self.log.id}'s connection to broker {where} was unsuccessful"
            self.log.warn(SENDER, text, exception)
        else:
            text = f"Controller {self.log.id} fails to send a request to broker {where}"
            self.log.error(SENDER, text, exception)

    def _log_error(self, response: BrokerResponded, request: str) -> None:
        # Takes a third of a second, and errors are rare.
        from kio.schema.errors import ErrorCode

        name = ErrorCode(response.error).name.upper()
        self.log.error(
            STATE_CHANGE_ANSWER,
            f"Received error {name} in {request} response {request}ResponseData"
            f"(errorCode={response.error}) from broker {response.broker}",
        )

    def _node(self, id: int) -> str:
        """The broker as Kafka names it; "" while it is not registered."""
        broker = self.log.context.brokers.get(id)
        listener = self.log.controller.configuration.controller_listener
        endpoint = broker.endpoint(listener) if broker is not None else None
        if broker is None or endpoint is None:
            return ""
        return node(id, endpoint, broker.rack)
