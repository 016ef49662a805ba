"""The external causes of an incident, from which the simulation derives everything else again.

A log shows what was observed. A cause is the simplest act or fault that explains it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct, structs

from controller.core.configuration import Configuration
from replay.explore.from_log.schedule import RunFromLog, Schedule
from replay.explore.inputs_in_words import input_in_words
from replay.what_if.history import ClusterHistory
from replay.what_if.registration_reports import RegistrationReports
from replay.world.inputs import DeleteControllerZnode, Input

_NS_PER_MS: Final = 1_000_000
JOINS_MS: Final = 600
"""How long a follower takes at most to join the ISR once it has little to copy: a fetch waits for
replica.fetch.wait.max.ms."""
ENDED_BEFORE_MS: Final = 4_000
"""How long before the end of its session a process has failed."""
_SESSION_MS: Final = 6_000
"""zookeeper.session.timeout.ms: a controller that failed has not acted for so long, at most."""
_ENDS_LATER_MS: Final = 10_000
"""When a broker ends that is shutting down at the end of a log."""
_LATER_MS: Final = 1_000
"""How much later than in the log the same may happen in the simulated cluster, such as a broker
that accepts connections."""
_TAKE_OVER_MS: Final = 15_000
"""How long a take-over lasts at most: a controller that is elected acts within this time."""


class BrokerUnregistered(Struct, frozen=True, tag_field="input", tag="broker_gone"):
    """The registration of a broker ended at `gone_ms`, by event `gone_seq`. `is_controlled`: after
    it had asked for a controlled shutdown, which is when the cause happened."""

    broker: int
    gone_seq: int
    gone_ms: int
    is_controlled: bool = False


class BrokerRegistered(Struct, frozen=True, tag_field="input", tag="broker_back"):
    """A broker registered."""

    broker: int


class BrokerBounced(Struct, frozen=True, tag_field="input", tag="broker_bounced"):
    """A broker ended and registered again, so fast that no controller saw it unregistered."""

    broker: int


class ReplicaLagged(Struct, frozen=True, tag_field="input", tag="replica_lagged"):
    """A follower whose broker ran fell out of the ISR. It was in it again at `until_ms`; None:
    never."""

    broker: int
    topic: str
    partition: int
    until_ms: int | None


class ControllerGone(Struct, frozen=True, tag_field="input", tag="controller_gone"):
    """The session of the controller ended; `is_deletion`: an administrator deleted its znode. A
    controller has taken the role, and acts, `absent_ms` later. The process ended `failed_ms`
    before, if its session expired."""

    process: str
    absent_ms: int = 0
    is_deletion: bool = False
    failed_ms: int = 0


What = (
    BrokerUnregistered | BrokerRegistered | BrokerBounced | ControllerGone | ReplicaLagged | Input
)


class ExternalCause(Struct, frozen=True):
    """An act or fault from outside that the simulation repeats. `seq` is the first event that shows
    it, `last_seq` the last one. `is_certain`: it happens in every future, such as what a timer of
    the controller does."""

    seq: int
    at_ms: int
    what: What
    last_seq: int = 0
    is_certain: bool = False

    def shows(self, seq: int) -> bool:
        """Whether an event of the log shows this cause."""
        return self.seq <= seq <= max(self.seq, self.last_seq)


def moved(cause: ExternalCause, ms: int) -> ExternalCause:
    """The cause at another time, `ms` later. The registration of a broker ends later, too."""
    what = cause.what
    if isinstance(what, BrokerUnregistered):
        what = structs.replace(what, gone_ms=what.gone_ms + ms)
    return structs.replace(cause, at_ms=cause.at_ms + ms, what=what)


class CopyingReplica(Struct, frozen=True):
    """A follower was not in the ISR from `from_ms` to `until_ms` (None: for ever), because it had
    much to copy. `after`: the event of its broker's registration; 0: a reassignment."""

    broker: int
    topic: str
    partition: int
    from_ms: int
    until_ms: int | None
    after: int = 0


class Causes(Schedule):
    """Collects the causes of an incident. Unlike those of an exploration, times are exact, and
    nothing is left out.

    The caller sets `seq` to the event that it reads, and calls `znode_reported` for each watch
    event.
    """

    def __init__(self, configuration: Configuration, history: ClusterHistory) -> None:
        super().__init__(configuration)
        self.found: list[ExternalCause] = []
        self.seq = 0
        self.begin_seq = 0
        self.begin_ns = 0
        self._history = history
        self._reports = RegistrationReports()
        self._stopping: dict[int, tuple[int, int]] = {}
        self._registered: dict[int, None] = {}
        self.acted_ms = 0
        """When the controller acted last, as far as an imported log shows it."""
        self._vacant: ExternalCause | None = None
        self._elected_ms = 0
        self._has_acted = False

    def ms_of(self, ns: int) -> int:
        """The milliseconds since the incident began."""
        return max(0, ns - self.begin_ns) // _NS_PER_MS

    def begin(self, ns: int, content: Mapping[str, bytes], brokers: Sequence[int]) -> None:
        """The incident begins."""
        self.begin_ns, self.begin_seq = ns, self.seq
        for broker in brokers:
            self._register(broker, self.seq, 0)

    def add(self, one: Input) -> None:
        """Note an act or a fault."""
        self._add(one.at_ms, one)

    def _add(self, at_ms: int, what: What) -> None:
        cause = ExternalCause(self.seq, at_ms, what)
        self.found.append(cause)
        if isinstance(what, ControllerGone | DeleteControllerZnode):
            self._vacant, self._elected_ms = cause, 0

    def replace(self, before: Input, after: Input | None) -> None:
        """Replace an act or a fault by one that a later event says more about; None: remove it."""
        place = next(place for place, one in enumerate(self.found) if one.what == before)
        cause = self.found.pop(place)
        if after is not None:
            self.found.insert(place, structs.replace(cause, what=after))

    def znode_reported(self, ns: int, path: str, change: str) -> None:
        """A watch event reported a znode: what is read because of it happened now."""
        self._reports.note(self.seq, ns, path, change)

    def stopping(self, ns: int, broker: int) -> None:
        """A broker asked for a controlled shutdown."""
        self._stopping.setdefault(broker, (self.seq, self.ms_of(ns)))

    def controller_gone(self, ns: int, *, is_expired: bool) -> None:
        """The session of the controller was closed, or expired: then its process had failed."""
        at_ms = self.ms_of(ns)
        idle_ms = max(0, at_ms - self.acted_ms - _LATER_MS)
        failed_ms = min(_SESSION_MS, idle_ms) if is_expired else 0
        self._add(at_ms, ControllerGone(self.process, failed_ms=failed_ms))

    def controller_elected(self, at_ms: int) -> None:
        """A controller was elected; the one before, if there was one, is gone."""
        self._elected_ms, self._has_acted = at_ms, False
        self._absent_until(at_ms)

    def controller_acts(self, at_ms: int, *, has_taken_over: bool) -> None:
        """The controller decides, or has taken over: with its last decision before, or without one.

        Simulated controllers take over at once.
        """
        if self._vacant is None or not self._elected_ms:
            return
        if not (has_taken_over and self._has_acted) and at_ms - self._elected_ms <= _TAKE_OVER_MS:
            self._absent_until(at_ms)
        self._has_acted = True
        if has_taken_over:
            self._vacant = None

    def _absent_until(self, at_ms: int) -> None:
        cause = self._vacant
        if cause is None:
            return
        gone = cause.what
        if not isinstance(gone, ControllerGone):
            gone = ControllerGone(self.process, is_deletion=True)
        gone = structs.replace(gone, absent_ms=at_ms - cause.at_ms)
        self._vacant = structs.replace(cause, what=gone)
        self.found[self.found.index(cause)] = self._vacant

    def broker_gone(self, ns: int, broker: int, *, is_controlled: bool) -> None:
        """A broker is no longer registered."""
        seq, at_ms = self._first_seen(ns, broker)
        stopping = self._stopping.pop(broker, None)
        what = BrokerUnregistered(broker, seq, at_ms, is_controlled)
        if is_controlled and stopping is not None:
            self.found.append(ExternalCause(*stopping, what, self.seq))
        else:
            self.found.append(ExternalCause(seq, at_ms, what, self.seq))
        self._registered.pop(broker, None)
        self._history.note_broker(seq, at_ms, broker, is_registered=False)

    def end(self, at_ms: int) -> None:
        """The log ends. A broker that is shutting down then ends after the continuation."""
        for broker, (seq, begin_ms) in self._stopping.items():
            if broker in self._registered:
                gone = BrokerUnregistered(broker, self.seq, at_ms + _ENDS_LATER_MS, True)
                self.found.append(ExternalCause(seq, begin_ms, gone))

    def broker_back(self, ns: int, broker: int) -> None:
        """A broker registered."""
        seq, at_ms = self._first_seen(ns, broker)
        self.found.append(ExternalCause(seq, at_ms, BrokerRegistered(broker), self.seq))
        self._register(broker, seq, at_ms)

    def broker_bounced(self, ns: int, broker: int) -> None:
        """A broker is registered in another session than before."""
        seq, at_ms = self._first_seen(ns, broker)
        self.found.append(ExternalCause(seq, at_ms, BrokerBounced(broker), self.seq))

    def result(self) -> RunFromLog:
        """Not for this schedule: a log has one result for each moment."""
        raise NotImplementedError

    def _register(self, broker: int, seq: int, at_ms: int) -> None:
        self._registered[broker] = None
        self._stopping.pop(broker, None)
        self._history.note_broker(seq, at_ms, broker, is_registered=True)

    def _first_seen(self, ns: int, broker: int) -> tuple[int, int]:
        """The event and time of the watch event about a registration; those of the event that is
        read now, if there is none."""
        seq, reported_ns = self._reports.first_of(broker) or (self.seq, ns)
        return seq, self.ms_of(reported_ns)


def in_words(cause: ExternalCause) -> str:
    """A cause in a few words."""
    match cause.what:
        case BrokerUnregistered(broker=broker, is_controlled=True):
            return f"broker {broker} shut down"
        case BrokerUnregistered(broker=broker):
            return f"the registration of broker {broker} ended"
        case BrokerRegistered(broker=broker):
            return f"broker {broker} registered"
        case BrokerBounced(broker=broker):
            return f"broker {broker} ended and registered again"
        case ControllerGone(is_deletion=True):
            return "the znode of the controller was deleted"
        case ControllerGone():
            return "the session of the controller ended"
        case ReplicaLagged(broker=broker, topic=topic, partition=partition):
            return f"broker {broker} fell out of the ISR of {topic}-{partition}, while it ran"
        case one:
            return input_in_words(one)


def causes_shown_by(causes: Iterable[ExternalCause], seq: int) -> list[ExternalCause]:
    """The causes that an event of the log shows."""
    return [one for one in causes if one.shows(seq)]


def nearest(causes: Iterable[ExternalCause], seq: int) -> str:
    """The causes around an event, as a hint for what to name instead."""
    known = sorted(causes, key=lambda one: abs(one.seq - seq))[:3]
    return ", ".join(f"event {one.seq} ({in_words(one)})" for one in known)
