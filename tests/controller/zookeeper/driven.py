"""A session without I/O: the test is the server, the network and the clock."""

from controller.core.commands import CommandId, ZooKeeperCommand
from controller.core.events import Event
from controller.core.operations import UNIMPLEMENTED
from controller.zookeeper.session import Phase, SessionSettings, ZooKeeperSession
from controller.zookeeper.session_channel import ChannelEvent
from tests.controller.zookeeper import peer
from tests.controller.zookeeper.peer import Greeting, Sent

TIMEOUT_MS = 6000
SESSION = 0xABC


class SessionHarness:
    """Wraps a session. Every call collects the bytes to send and the reported events."""

    def __init__(self, **settings: object) -> None:
        self.now_ms = 1_000_000
        base = {"timeout_ms": TIMEOUT_MS, "connect_timeout_ms": 2000}
        self.session = ZooKeeperSession(SessionSettings(**{**base, **settings}))  # type: ignore[arg-type]
        self.reported: list[ChannelEvent] = []
        self._commands = 0

    def connect(self, server: str = "zk1:2181") -> Greeting:
        """Make a connection and return the greeting that is sent."""
        self.session.connected(server, self.now_ms)
        return peer.greeting(self.session.output(self.now_ms))

    def ready(
        self, server: str = "zk1:2181", *, session: int = SESSION, bulk: bool = True, zxid: int = 1
    ) -> list[Sent]:
        """Connect, greet, and answer the request for bulk reads. Returns the requests that
        follow."""
        self.connect(server)
        sent = self.receive(peer.handshake(session, TIMEOUT_MS))
        if bulk:
            (probe,) = sent
            assert probe.opcode == peer.MULTI_READ
            return self.receive(peer.reply(probe.xid, zxid=zxid))
        if [one.opcode for one in sent] == [peer.MULTI_READ]:
            self.receive(peer.reply(sent[0].xid, error=UNIMPLEMENTED))
            assert self.session.phase is Phase.DISCONNECTED
            return self.ready(server, session=session, bulk=False)
        return sent

    def receive(self, data: bytes) -> list[Sent]:
        """Receive bytes from the server. Returns the requests that follow."""
        self.session.received(data, self.now_ms)
        return self._sent()

    def submit(self, *commands: ZooKeeperCommand) -> list[Sent]:
        """Submit commands of the core, numbered from 1 on. Returns the requests that follow."""
        for command in commands:
            self._commands += 1
            self.session.submit(CommandId(1, self._commands), command)
        return self._sent()

    def wait(self, milliseconds: int) -> list[Sent]:
        """Let time pass. Returns the requests that follow."""
        self.now_ms += milliseconds
        self.session.tick(self.now_ms)
        return self._sent()

    def lose(self) -> None:
        """The connection is lost."""
        self.session.disconnected("broken")
        self._sent()

    def events(self) -> list[Event]:
        """The events reported since the last call."""
        reported, self.reported = self.reported, []
        return [one.event for one in reported]

    def _sent(self) -> list[Sent]:
        sent = peer.requests(self.session.output(self.now_ms))
        self.reported += self.session.take_events()
        return sent
