"""A simulated cluster whose connections are lost, and whose brokers answer late."""

from collections.abc import Callable
from enum import Enum, auto

from controller.core.commands import BrokerRequest, Issued, ZooKeeperCommand
from controller.core.configuration import Configuration
from controller.core.events import BrokerResponded, SessionDisconnected
from controller.core.operations import CONNECTION_LOSS, SESSION_EXPIRED
from replay.world.outcomes import ZooKeeperOutcome, carry_out, without_reply
from replay.world.simulation import Simulation
from replay.world.zookeeper import ZooKeeper


class Delivery(Enum):
    """Whether a command reaches ZooKeeper, and whether its reply reaches the daemon."""

    ANSWERED = auto()
    REQUEST_LOST = auto()
    """The connection is lost before the server has the request, and restored at once."""
    REPLY_LOST = auto()
    """The server carries out the request, then the connection is lost and restored at once."""
    SESSION_OVER = auto()
    """The session ends before the server has the request; the daemon begins a new session."""
    SESSION_OVER_AFTER = auto()
    """The server carries out the request, then the session ends; the daemon begins a new one."""


class UnreliableSimulation(Simulation):
    """A cluster of which a test can set:

    - `delivery`: whether a command for ZooKeeper and its reply arrive
    - `is_slow`: whether a broker carries out a request but answers later (`answer_slow`)
    """

    def __init__(self, configuration: Configuration, zookeeper: ZooKeeper | None = None) -> None:
        super().__init__(configuration, zookeeper)
        self.delivery: Callable[[Issued], Delivery] = lambda issued: Delivery.ANSWERED
        self.is_slow: Callable[[BrokerRequest], bool] = lambda request: False
        self._slow: list[tuple[BrokerResponded, int | None]] = []

    def lose_connection(self) -> None:
        """The connection of the session is lost and restored."""
        self._lose_connection()
        self.run()

    def answer_slow(self) -> None:
        """Deliver the responses of slow brokers, except those that were stopped meanwhile."""
        self.answer_slow_quietly()
        self.run()

    def answer_slow_quietly(self) -> None:
        """As `answer_slow`, but the controller does not react yet."""
        slow, self._slow = self._slow, []
        for answered, run in slow:
            if self.find_broker_epoch(answered.broker) == run:
                self.happen_next(answered, f"broker:{answered.broker}")

    def _lose_connection(self) -> None:
        """Lose and restore the connection. Changes in between are reported afterwards."""
        lost = SessionDisconnected(self.session, "connection reset")
        self.deliver(lost, "session")
        self.deliver(self.session_connected(renewed=True), "session")

    def ask_zookeeper(self, issued: Issued, command: ZooKeeperCommand) -> list[ZooKeeperOutcome]:
        delivery = self.delivery(issued)
        if delivery is Delivery.ANSWERED:
            return super().ask_zookeeper(issued, command)
        # A lost command is carried out on a copy, to get outcomes of the right shape.
        is_lost = delivery in (Delivery.REQUEST_LOST, Delivery.SESSION_OVER)
        server = self.zookeeper.copy() if is_lost else self.zookeeper
        outcomes = carry_out(server, self.session, issued.id, command, self.now_ms)
        is_over = delivery in (Delivery.SESSION_OVER, Delivery.SESSION_OVER_AFTER)
        error = SESSION_EXPIRED if is_over else CONNECTION_LOSS
        for outcome in outcomes:
            self.deliver(without_reply(outcome, error), "zookeeper")
        if is_over:
            self.end_session()
        else:
            self._lose_connection()
        return []

    def deliver_response(self, request: BrokerRequest, response: BrokerResponded) -> None:
        if self.is_slow(request):
            self._slow.append((response, self.find_broker_epoch(request.broker)))
        else:
            super().deliver_response(request, response)
