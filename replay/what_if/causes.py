"""The external causes of an incident, from which the simulation derives everything else again.

A log shows what was observed. A cause is the simplest act or fault that explains it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct, structs

from controller.core import znodes
from controller.core.configuration import Configuration
from controller.core.znodes import Name
from replay.description.phrases import first_few
from replay.explore.from_log.schedule import RunFromLog, Schedule
from replay.explore.verdict import input_line
from replay.names import partition_name
from replay.what_if.history import ClusterHistory
from replay.world.inputs import (
    CancelReassignment,
    ChangeTopicConfig,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    ExpireSession,
    Input,
    KillController,
    Reassign,
)

_NS_PER_MS: Final = 1_000_000


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
    """The session of the controller ended. Another one was elected `absent_ms` later."""

    process: str
    absent_ms: int = 0


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
        self._watched: dict[str, tuple[int, int]] = {}
        self._stopping: dict[int, tuple[int, int]] = {}
        self._registered: dict[int, None] = {}

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
        if isinstance(one, KillController):
            # An imported log shows the end of the session only.
            self.found.append(ExternalCause(self.seq, one.at_ms, ControllerGone(one.process)))
            return
        self.found.append(ExternalCause(self.seq, one.at_ms, one))

    def znode_reported(self, ns: int, path: str, change: str) -> None:
        """A watch event reported a znode: what is read because of it happened now."""
        # A broker writes the data of its registration again when its listeners are open.
        if change != "data":
            self._watched[path] = (self.seq, self.ms_of(ns))

    def stopping(self, ns: int, broker: int) -> None:
        """A broker asked for a controlled shutdown."""
        self._stopping.setdefault(broker, (self.seq, self.ms_of(ns)))

    def controller_elected(self, at_ms: int) -> None:
        """A controller was elected; the one before, if there was one, is gone."""
        for place, one in reversed([*enumerate(self.found)]):
            if isinstance(one.what, ControllerGone):
                if one.what.absent_ms == 0:
                    what = structs.replace(one.what, absent_ms=at_ms - one.at_ms)
                    self.found[place] = structs.replace(one, what=what)
                return

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
        own = self._watched.pop(znodes.broker_path(broker), None)
        listed = self._watched.get(znodes.BROKER_IDS)
        return own or listed or (self.seq, self.ms_of(ns))


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
        case ControllerGone():
            return "the session of the controller ended"
        case ReplicaLagged(broker=broker, topic=topic, partition=partition):
            return f"broker {broker} fell out of the ISR of {topic}-{partition}, while it ran"
        case one:
            return _act_in_words(one)


def _act_in_words(act: Input) -> str:
    match act:
        case ElectLeaders(partitions=partitions, election=election):
            article = "an" if election == "unclean" else "a"
            return f"a client requested {article} {election} election of {_names(partitions)}"
        case Reassign(targets=targets):
            moved = [(one.topic, one.partition) for one in targets]
            return f"a client requested the reassignment of {_names(moved)}"
        case CancelReassignment(partitions=partitions):
            return f"a client cancelled the reassignment of {_names(partitions)}"
        case CreateTopic(topic=topic):
            return f"topic {topic} was created"
        case DeleteTopic(topic=topic):
            return f"the deletion of topic {topic} was requested"
        case CreatePartitions(topic=topic, added=added):
            return f"{len(added)} partitions of topic {topic} were created"
        case ChangeTopicConfig(topic=topic):
            return f"the configuration of topic {topic} was changed"
        case ExpireSession(process=process):
            return f"the session of {process} expired"
        case _:
            return input_line(structs.replace(act, at_ms=0)).strip().removeprefix("0.000 s  ")


def _names(partitions: Sequence[Name]) -> str:
    names = [partition_name(topic, number) for topic, number in partitions]
    return first_few(names, ", ") if names else "all partitions"


def causes_shown_by(causes: Iterable[ExternalCause], seq: int) -> list[ExternalCause]:
    """The causes that an event of the log shows."""
    return [one for one in causes if one.shows(seq)]


def nearest(causes: Iterable[ExternalCause], seq: int) -> str:
    """The causes around an event, as a hint for what to name instead."""
    known = sorted(causes, key=lambda one: abs(one.seq - seq))[:3]
    return ", ".join(f"event {one.seq} ({in_words(one)})" for one in known)
