"""The brokers of a log, followed in plain Python."""

from collections import Counter
from typing import Any, NamedTuple

from controller.core.canonical import decode_command, decode_reason
from eventstore.records import CommandRecord, EventRecord


class Change(NamedTuple):
    """A broker registered ("registered"), departed ("gone"), or did both before it was noticed
    ("bounced")."""

    seq: int
    micros: int
    channel: str
    broker: int
    what: str
    is_found: bool


class PlainBrokers:
    """Follows registrations of brokers, and the channels that commands open and close."""

    def __init__(self) -> None:
        self.there: set[int] = set()
        self.known: set[int] = set()
        self.changes: list[Change] = []
        self._epochs: dict[int, int] = {}
        self._session_of: dict[int, str] = {}

    @property
    def away(self) -> set[int]:
        """The brokers that were registered before."""
        return self.known - self.there

    @property
    def departures(self) -> Counter[int]:
        """How often each broker departed."""
        return Counter(one.broker for one in self.changes if one.what == "gone")

    def flapping(self, window_s: float, times: int) -> dict[int, tuple[int, int]]:
        """For brokers that departed at least `times` times within the window: the number of
        departures in total, and the maximum within a window."""
        found = {}
        for broker in self.known:
            left = [
                one.micros
                for one in self.changes
                if one.broker == broker and one.what in ("gone", "bounced")
            ]
            most = max(
                (sum(at - window_s * 1e6 <= one <= at for one in left) for at in left), default=0
            )
            if most >= times:
                found[broker] = len(left), most
        return found

    def register(self, seq: int, micros: int, session: str, broker: int, *, is_found: bool) -> None:
        """The broker's znode exists from this event on."""
        self.there.add(broker)
        self.known.add(broker)
        self._session_of[broker] = session
        self.changes.append(Change(seq, micros, session, broker, "registered", is_found))

    def leave(self, record: EventRecord, broker: int) -> None:
        """The broker's znode is deleted."""
        if broker in self._session_of:
            del self._session_of[broker]
            self.there.discard(broker)
            self._change(record, broker, "gone", is_found=False)

    def end_session(self, record: EventRecord) -> None:
        """All znodes of the event's session are deleted."""
        gone = [one for one, held in self._session_of.items() if held == record.channel]
        for broker in gone:
            self.leave(record, broker)

    def follow(self, record: EventRecord, issued: list[CommandRecord]) -> None:
        """A daemon opens and closes channels."""
        opened = {}
        found = False
        was_there = set(self.there)
        for one in issued:
            rule = decode_reason(one.reason).rule
            if one.kind == "close_channel" and rule != "resignation":
                self.there.discard(int(one.target.removeprefix("broker ")))
            if one.kind == "open_channel":
                found = found or rule == "failover"
                assert one.body is not None
                body: Any = decode_command(one.body)
                opened[body.broker] = body.broker_epoch
        if found:
            self.there = set()
        self.there |= opened.keys()
        self.known |= opened.keys()
        for broker in sorted(was_there | self.there):
            if broker in was_there and broker in self.there:
                if broker in opened and opened[broker] != self._epochs[broker]:
                    self._change(record, broker, "bounced", is_found=found)
            elif broker in was_there:
                self._change(record, broker, "gone", is_found=found)
            else:
                self._change(record, broker, "registered", is_found=found)
        self._epochs |= opened

    def _change(self, record: EventRecord, broker: int, what: str, *, is_found: bool) -> None:
        micros = record.wall_ns // 1000
        self.changes.append(Change(record.seq, micros, record.channel, broker, what, is_found))
