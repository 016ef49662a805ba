"""Connections between processes that end while messages are on their way."""

from typing import Any

from replay.world.network import Connection, Network
from replay.world.scheduler import MS, Scheduler


class RecordingEndpoint:
    """One side of a connection, which records what it learns."""

    def __init__(self) -> None:
        self.connections: list[Connection] = []
        self.learned: list[object] = []

    def connected(self, connection: Connection) -> None:
        self.connections.append(connection)

    def received(self, connection: Connection, message: Any) -> None:
        self.learned.append(message)

    def disconnected(self, connection: Connection | None) -> None:
        self.learned.append("ended")


class TwoProcesses:
    """ "a" has connected to "b"."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.network = Network(self.scheduler)
        self.a, self.b = RecordingEndpoint(), RecordingEndpoint()
        self.network.listen("b", lambda _: self.b)
        self.network.connect("a", "b", self.a)
        self.wait()
        [self.connection] = self.a.connections

    def wait(self) -> None:
        """Let everything arrive that is not held."""
        self.scheduler.run_until(self.scheduler.now_us + 100 * MS)


def test_message_arrives_before_the_end_of_its_connection() -> None:
    world = TwoProcesses()
    world.connection.send(1)
    world.connection.close()
    world.wait()
    assert world.b.learned == [1, "ended"]


def test_held_message_of_a_closed_connection_reaches_no_process_that_has_ended_since() -> None:
    """The sender has closed the connection, and the receiver does not know it yet."""
    world = TwoProcesses()
    world.network.hold_messages("a", "b")
    world.connection.send(1)
    world.connection.close()
    world.wait()
    world.network.end_process("b")
    world.network.listen("b", lambda _: world.b)
    world.network.release("a", "b")
    world.wait()
    assert world.b.learned == []


def test_held_message_of_a_process_that_has_ended_arrives() -> None:
    world = TwoProcesses()
    world.network.hold_messages("a", "b")
    world.connection.send(1)
    world.network.end_process("a")
    world.wait()
    world.network.release("a", "b")
    world.wait()
    assert world.b.learned == [1, "ended"]


def test_held_link_accepts_connections_only_if_the_network_works() -> None:
    world, third = TwoProcesses(), RecordingEndpoint()
    world.network.hold_messages("a", "b", accepts=True)
    world.network.connect("a", "b", third)
    world.wait()
    third.connections[0].send(1)
    world.wait()
    assert world.b.learned == []
    world.network.hold_messages("a", "b")
    world.network.connect("a", "b", third)
    world.wait()
    assert third.learned == ["ended"]
    world.network.release("a", "b")
    world.wait()
    assert world.b.learned == [1]


def test_reset_ends_a_connection_whose_other_side_has_closed_it() -> None:
    world = TwoProcesses()
    world.network.hold_messages("a", "b")
    world.connection.close()
    world.wait()
    world.network.reset("a", "b")
    assert world.b.learned == ["ended"]
    world.network.release("a", "b")
    world.wait()
    assert world.b.learned == ["ended"]
