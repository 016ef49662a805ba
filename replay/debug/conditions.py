"""Conditions on events: for searches, breakpoints and the filter."""

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from replay.debug.event_view import EventView
from replay.errors import ReplayError
from replay.inspect.projections import Projection
from replay.names import partition_named

Value = Callable[[Projection, str], Any]
Holds = Callable[[EventView, str], bool]


class EventCondition(Struct, frozen=True):
    """A condition on an event. `what` is a key of FORMS, `name` what its form asks for."""

    what: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.what} {self.name}".rstrip()

    @property
    def is_of_state(self) -> bool:
        """Whether it asks for a change of the state, which needs no description of the event."""
        return self.what in _VALUES

    def value(self, state: Projection) -> Any:
        """The part of the state that it asks for; None if it asks for none."""
        of_state = _VALUES.get(self.what)
        if of_state is None:
            return None
        found = of_state(state, self.name)
        if self.what not in _OF_CLUSTER:
            return found
        role = state.controller().role
        is_unread = role == "failing over" and found is None
        return UNKNOWN if role == "standby" or is_unread else found

    def holds(self, event: EventView) -> bool:
        """Whether an event meets a condition that is not of the state."""
        return _OF_EVENT[self.what](event, self.name)

    def is_change(self, before: Any, after: Any) -> bool:
        """Whether two values of the state meet it. A daemon that loses the role forgets the
        cluster, which is no change; its knowledge after a later election is one."""
        if before == after or after is UNKNOWN or (before is UNKNOWN and after is None):
            return False
        return self.what != OFFLINE or bool(after == "offline")


UNKNOWN: Final = "unknown"
"""The value while the daemon is not the controller, or has not read this yet."""
EVENT: Final = EventCondition("event")
DECISION: Final = EventCondition("decision")
PROCEDURE: Final = EventCondition("procedure")
FAILOVER: Final = EventCondition("failover")
OFFLINE: Final = "offline"
ABOUT: Final = "about"

FORMS: Final = {
    "leader": "T-0: the leader of a partition changes",
    "isr": "T-0: the ISR of a partition changes",
    "partition": "T-0: any part of the state of a partition changes",
    OFFLINE: "T-0: a partition goes offline",
    "broker": "ID: a broker registers, is gone, or begins to shut down",
    "controller": ": the controller or its role changes",
    "failover": ": the controller epoch begins or ends",
    "znode": "/PATH: a znode is written",
    "rule": "TEXT: a decision by a rule whose name contains the text",
    "decision": "[SUBJECT]: a decision, or one about a topic, partition or broker",
    "procedure": "[NAME]: a procedure begins",
    ABOUT: "SUBJECT: an event about a topic T, a partition T-0 or `broker 3`",
    "kind": "KIND: an event of this kind",
    "text": "TEXT: the line of the event or of a decision contains the text",
    "event": ": any event",
}
"""The conditions that can be written, each with what follows its name."""


def _partition(state: Projection, name: str) -> Any:
    return state.partition(*partition_named(name))


def _field(field: str) -> Value:
    return lambda state, name: getattr(_partition(state, name), field, None)


_VALUES: Final[dict[str, Value]] = {
    "partition": _partition,
    "leader": _field("leader"),
    "isr": _field("isr"),
    OFFLINE: _field("status"),
    "broker": lambda state, name: state.broker(int(name)),
    "controller": lambda state, _: state.controller(),
    "failover": lambda state, _: state.controller().epoch,
}


def _is_about(event: EventView, name: str) -> bool:
    return name in event.listed.subjects or any(name in one.subjects for one in event.decided)


def _has_text(event: EventView, text: str) -> bool:
    lines = [event.listed.text, *(one.text for one in event.decided)]
    return any(text.lower() in one.lower() for one in lines)


_OF_EVENT: Final[dict[str, Holds]] = {
    "event": lambda event, _: True,
    "decision": lambda event, name: any(not name or name in one.subjects for one in event.decided),
    "procedure": lambda event, name: any(
        name.lower() in one.procedure.lower() for one in event.begun
    ),
    "rule": lambda event, name: any(
        name.lower() in one.rule.lower() for one in event.decisions if one.rule
    ),
    "znode": lambda event, name: name in event.written,
    ABOUT: _is_about,
    "kind": lambda event, name: event.listed.kind == name,
    "text": _has_text,
}
_OF_PARTITIONS: Final = ("partition", "leader", "isr", OFFLINE)
_OF_CLUSTER: Final = (*_OF_PARTITIONS, "broker")
_WITHOUT_NAME: Final = ("event", "controller", "failover")
_WITH_OR_WITHOUT: Final = ("decision", "procedure")


def condition_named(text: str) -> EventCondition:
    """The condition that a user wrote. Text that does not begin with the name of a condition is
    searched for. Raises ReplayError if a name is missing or wrong."""
    what, _, name = text.strip().partition(" ")
    name = name.strip()
    if what not in FORMS:
        if not text.strip():
            raise ReplayError(f"no condition is given; conditions are {', '.join(FORMS)}")
        return EventCondition("text", text.strip())
    if what in _WITHOUT_NAME:
        return EventCondition(what)
    if not name and what not in _WITH_OR_WITHOUT:
        raise ReplayError(f"{what} {FORMS[what].replace(':', ' is missing:', 1)}")
    if what in _OF_PARTITIONS:
        try:
            partition_named(name)
        except ValueError as error:
            raise ReplayError(f"{what} T-0: {error}; give topic and number") from None
    if what == "broker" and not name.isdecimal():
        raise ReplayError(f"broker ID: {name} is not the id of a broker")
    if what == "znode" and not name.startswith("/"):
        raise ReplayError(f"znode /PATH: {name} does not begin with /")
    return EventCondition(what, name)
