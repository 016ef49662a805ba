"""Checks the fields that a log stores next to an event's payload, against the payload and the fold:
kind, origin, cause, term, channel and clocks.

The daemon takes all waiting events at once, as a batch, and stores a batch before it folds it
(docs/design.md#the-path-of-an-event). The events of a batch have the term that the controller had
before the batch. The log does not have the limits of batches, but an event that answers a command
is in a later batch than the event that caused the command.
"""

from array import array
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple, cast

from msgspec import Struct

from controller.core.api_requests import API_REQUESTS, BROKER_API_REQUESTS, BrokerApiRequest
from controller.core.canonical import kind_of
from controller.core.commands import CommandId
from controller.core.events import (
    BrokerProbed,
    BrokerResponded,
    ChannelFault,
    Event,
    NumbersDrawn,
    SessionConnected,
    SessionDisconnected,
    SessionExpired,
    ShutdownRequested,
    TimerFired,
    TopicIdsDrawn,
    VersionsOffered,
)
from controller.kafka_0_8.events import BrokerEvent, RecordEvent
from controller.zookeeper.session_channel import session_channel
from eventstore.records import EventRecord
from replay.logs.folding import AnyRecorded
from replay.names import command_name

NOTES_MAX: Final = 20
"""The limit of notes; further ones are left out."""

_FIELDS: Final = ("kind", "cause", "origin", "term", "channel", "monotonic clock")
_OF_PAYLOAD: Final = 3
"""The first fields, this many, repeat what the payload says."""
_NS_PER_S: Final = 1_000_000_000
_SIMULATED: Final = ("zookeeper", "session", "watches")
"""The channels of a simulated ZooKeeper."""
_NO_SESSION: Final = session_channel(0)


class WrongField(Struct, frozen=True):
    """A field of an event with its stored value, and the value that it must have."""

    name: str
    recorded: str
    derived: str


class Clocks(NamedTuple):
    """The clocks of an event."""

    wall_ns: int
    mono_ns: int


class PartEdges(Struct, frozen=True):
    """The assumptions of the checks of a part of a log about the parts before it, and those that
    the parts after it may make. `commands` has the number of commands of each event, `first` and
    `last` the clocks of these events."""

    first_seq: int
    earlier_commands: list[CommandId]
    earlier_channels: set[str]
    commands: Sequence[int]
    sessions: set[str]
    brokers: dict[str, int]
    first: Clocks
    last: Clocks


def are_consistent(parts: Sequence[PartEdges]) -> bool:
    """Whether each part of a log may assume what it does; the first one may be that of a log whose
    segments before it were removed."""
    first_seq = parts[0].first_seq
    commands = array("L")
    sessions, brokers = set[str](), dict[str, int]()
    for part in parts:
        for cause, ordinal in part.earlier_commands:
            if cause >= first_seq and ordinal >= commands[cause - first_seq]:
                return False
        if first_seq == 1 and not part.earlier_channels <= sessions:
            return False
        if any(brokers.get(channel, broker) != broker for channel, broker in part.brokers.items()):
            return False
        commands.extend(part.commands)
        sessions |= part.sessions
        brokers |= part.brokers
    return not any(_goes_back(before, part) for before, part in pairwise(parts))


def _goes_back(before: PartEdges, part: PartEdges) -> bool:
    return part.first.wall_ns < before.last.wall_ns or part.first.mono_ns < before.last.mono_ns


class EventFieldChecker:
    """The checks, called with the events of a log in order, or with those of a part of it: then
    `edges` has what they assume of the events before."""

    def __init__(self, first_seq: int, term: int) -> None:
        """`term` is that of the fold before event `first_seq`, the first one."""
        self._first_seq = first_seq
        self._commands = array("L")
        self._term = term
        self._terms = deque([(first_seq - 1, term)])
        self._wall_ns = self._mono_ns = 0
        self._sessions = {_NO_SESSION}
        self._brokers: dict[str, int] = {}
        self.answered = 0
        """The last event whose commands an event of the log answers."""
        self.notes: list[str] = []
        self._first: Clocks | None = None
        self._earlier_commands: list[CommandId] = []
        self._earlier_channels: set[str] = set()

    def edges(self) -> PartEdges:
        """The assumptions of this part about the parts before it, and those that the parts after it
        may make. Call it after the last event."""
        assert self._first is not None, "a part has events"
        return PartEdges(
            self._first_seq,
            self._earlier_commands,
            self._earlier_channels,
            self._commands,
            self._sessions,
            self._brokers,
            self._first,
            Clocks(self._wall_ns, self._mono_ns),
        )

    def check(self, record: EventRecord, event: AnyRecorded) -> list[WrongField]:
        """Check the next event before it is folded; returns its wrong fields."""
        content = event.event
        command: CommandId | None = getattr(content, "command", None)
        cause = None if command is None else command.cause
        if cause is not None and cause > self.answered:
            self.answered = cause
        seq, wall_ns, mono_ns, term, kind, _, channel, origin, stored_cause, _ = record
        stored = (kind, stored_cause, origin, term, channel, mono_ns)
        expected = (
            kind_of(content),
            cause,
            "exogenous" if cause is None else "reply",
            term if term == self._term else self._expected_term(term),
            self._expected_channel(channel, content),
            mono_ns if mono_ns > self._mono_ns else self._mono_ns,
        )
        is_issued = command is None or self._check_command(command)
        if self._first is None:
            self._first = Clocks(wall_ns, mono_ns)
        if wall_ns < self._wall_ns:
            self._note_clock_set_back(seq, self._wall_ns - wall_ns)
        self._wall_ns, self._mono_ns = wall_ns, expected[-1]
        if type(content) in BROKER_API_REQUESTS:
            self._note_connection(record, cast(BrokerApiRequest, content))
        if stored == expected and is_issued:
            return []
        pairs = [*zip(_FIELDS, stored, expected, strict=True)]
        if command is not None and not is_issued:
            name = command_name(command)
            pairs.insert(_OF_PAYLOAD, ("command", name, "a command of an earlier event"))
        return [
            WrongField(name, str(was), str(should_be))
            for name, was, should_be in pairs
            if was != should_be
        ]

    def note_fold(self, seq: int, term: int, commands: int) -> None:
        """The event was folded: the term after it, and the number of its commands."""
        self._commands.append(commands)
        if term != self._term:
            self._term = term
            self._terms.append((seq, term))

    def _check_command(self, command: CommandId) -> bool:
        cause, ordinal = command
        place = cause - self._first_seq
        if place < 0:
            # The cause is in a segment that was removed, or in an earlier part.
            self._earlier_commands.append(command)
            return cause > 0 and ordinal >= 0
        return place < len(self._commands) and 0 <= ordinal < self._commands[place]

    def _expected_term(self, term: int) -> int:
        """The term itself if the controller had it between the last answered event and now;
        otherwise its term now."""
        while len(self._terms) > 1 and self._terms[1][0] <= self.answered:
            self._terms.popleft()
        return term if any(one == term for _, one in self._terms) else self._term

    def _expected_channel(self, channel: str, event: Event | BrokerEvent) -> str:
        if isinstance(event, (BrokerResponded, ChannelFault, VersionsOffered)):
            whole = f"broker:{event.broker}:{event.broker_epoch}"
            # A simulated broker has one channel.
            is_right = channel == whole or channel == f"broker:{event.broker}"
            return channel if is_right else whole
        if type(event) in API_REQUESTS:
            return channel if channel.startswith("api:") else "api:CONNECTION"
        match event:
            case TimerFired(timer=timer):
                return f"timer:{timer}"
            case TopicIdsDrawn() | NumbersDrawn():
                return "draw"
            case ShutdownRequested():
                return "operator"
            case BrokerProbed(broker=broker, broker_epoch=epoch):
                return f"probe:{broker}:{epoch}"
            case _ if isinstance(event, RecordEvent):
                # Of the 0.8 design: records come from clients, other brokers and the log.
                return channel
            case _:
                return self._zookeeper_channel(channel, event)

    def _zookeeper_channel(self, channel: str, event: Event | BrokerEvent) -> str:
        if channel in _SIMULATED:
            return channel
        if isinstance(event, SessionConnected | SessionDisconnected | SessionExpired):
            expected = session_channel(event.session_id)
            self._sessions.add(expected)
            return expected
        if channel in self._sessions:
            return channel
        if self._first_seq > 1 and channel.startswith("zookeeper:"):
            # The session may have begun in a segment that was removed, or in an earlier part.
            self._earlier_channels.add(channel)
            return channel
        return "the channel of a session in the log"

    def _note_connection(self, record: EventRecord, event: BrokerApiRequest) -> None:
        """Each broker opens its own connections, but a request may name any broker."""
        broker = self._brokers.setdefault(record.channel, event.broker)
        if event.broker != broker:
            self._note(
                f"event {record.seq} is a request of broker {event.broker} on the connection "
                f"{record.channel}, which had requests of broker {broker}"
            )

    def _note_clock_set_back(self, seq: int, back_ns: int) -> None:
        """A wall clock may be set back while a daemon runs, so that is no fault."""
        self._note(
            f"the wall clock goes back by {back_ns / _NS_PER_S:.3f} s at event {seq}: the clock "
            "was set, or the record was changed"
        )

    def _note(self, text: str) -> None:
        if len(self.notes) < NOTES_MAX:
            self.notes.append(text)
