"""Collects what happened in an incident: the cluster at its start, and inputs with times.

A log shows what was observed, not what happened: a broker that is no longer registered has crashed
before, and so on. The inputs are the simplest cause of each observation. Long pauses are shortened.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct, structs

from controller.core import znodes
from controller.core.api_requests.reassignments import ReassignmentTarget
from controller.core.configuration import Configuration
from controller.core.errors import ZnodeError
from controller.core.protocol_versions import LATEST
from controller.core.znodes import Name
from replay.errors import ReplayError
from replay.subjects import subject_of
from replay.world.inputs import (
    CancelReassignment,
    CrashBroker,
    Input,
    Reassign,
    ShutDownController,
    StopBroker,
    Target,
)
from replay.world.scenario import BrokerSpec, ControllerSpec, Load, Scenario, TopicSpec

START_MS: Final = 4_000
"""When the incident begins: the simulated cluster needs some seconds to start."""

_PAUSE_MS_MAX: Final = 8_000
_ACTIVE_MS_MAX: Final = 180_000
_QUIET_MS: Final = 90_000
_TOPICS_MAX: Final = 12
_PARTITIONS_MAX: Final = 60
_SESSION_MS: Final = 6_000
_NS_PER_MS: Final = 1_000_000
_KEPT: Final = (
    f"{znodes.TOPICS}/",
    f"{znodes.TOPIC_CONFIGS}/",
    f"{znodes.REASSIGNMENTS}/",
    znodes.REASSIGN_PARTITIONS,
)

Replicas = tuple[int, ...]


class BegunFromLog(Struct, frozen=True):
    """The result: what a log begins with and what happens in it. `notes`: what was left out."""

    scenario: Scenario
    inputs: tuple[Input, ...]
    notes: tuple[str, ...]


class Schedule:
    """The incident so far. Times are wall clocks in nanoseconds."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.inputs: list[Input] = []
        self.notes: list[str] = []
        self._brokers: dict[int, None] = {}
        self._down: dict[int, int] = {}
        """Brokers that are down, with the place of the input that ended them."""
        self._znodes: dict[str, bytes] = {}
        self._now_ms = START_MS
        self._last_ns = 0
        self.is_full = False

    @property
    def process(self) -> str:
        """The controller of the scenario that has the incident's role."""
        return f"refold {self.configuration.broker_id}"

    def begin(self, ns: int, content: Mapping[str, bytes], brokers: Sequence[int]) -> None:
        """The incident begins, with these znodes and registered brokers."""
        self._last_ns = ns
        self._znodes = {path: data for path, data in content.items() if path.startswith(_KEPT)}
        self._brokers = dict.fromkeys(brokers)

    def at(self, ns: int) -> int:
        """The time in the run of a time in the log, in milliseconds."""
        passed_ms = max(0, ns - self._last_ns) // _NS_PER_MS
        self._last_ns = max(ns, self._last_ns)
        self._now_ms += min(passed_ms, _PAUSE_MS_MAX)
        if self._now_ms > _ACTIVE_MS_MAX and not self.is_full:
            self.is_full = True
            self.notes.append(
                f"the part after {_ACTIVE_MS_MAX // 1000} s was left out: cut the log with"
                " `refold new-incident --from`"
            )
        return self._now_ms

    def add(self, one: Input) -> None:
        """Something happened."""
        if not self.is_full:
            self.inputs.append(one)

    def add_reassignments(self, at_ms: int, asked: Iterable[ReassignmentTarget]) -> None:
        """A client requested and cancelled reassignments by the API."""
        entries: dict[Name, Replicas] = {}
        cancelled: list[Name] = []
        for one in asked:
            name = one.topic, one.partition
            if one.replicas is None:
                cancelled.append(name)
            else:
                entries[name] = one.replicas
        if entries:
            self.add(Reassign(at_ms, targets_of(entries)))
        if cancelled:
            self.add(CancelReassignment(at_ms, tuple(cancelled)))

    # Brokers

    def broker_gone(self, ns: int, broker: int, *, is_controlled: bool) -> None:
        """A broker is no longer registered."""
        at_ms = self.at(ns)
        if broker not in self._brokers or broker in self._down or self.is_full:
            return
        self._down[broker] = len(self.inputs)
        if is_controlled:
            self.add(StopBroker(at_ms, broker, None))
        else:
            # Its session has expired by then.
            self.add(CrashBroker(max(START_MS, at_ms - _SESSION_MS), broker, False, None))

    def broker_back(self, ns: int, broker: int) -> None:
        """A broker is registered, again or for the first time."""
        at_ms = self.at(ns)
        place = self._down.pop(broker, None)
        if place is not None:
            one = self.inputs[place]
            assert isinstance(one, CrashBroker | StopBroker)
            restart_ms = max(0, at_ms - one.at_ms)
            self.inputs[place] = structs.replace(one, restart_after_ms=restart_ms)
        elif broker not in self._brokers:
            self._brokers[broker] = None
            self.add(CrashBroker(START_MS - 1, broker, False, at_ms - START_MS + 1))

    def broker_bounced(self, ns: int, broker: int) -> None:
        """A broker is registered in another session than before."""
        self.add(CrashBroker(self.at(ns), broker, False, 0))

    # The result

    def result(self) -> BegunFromLog:
        """The scenario and the inputs. Raises ReplayError if the log shows no cluster."""
        if not self._brokers:
            raise ReplayError("no broker is registered in the log: there is no cluster to explore")
        inputs = sorted(self.inputs, key=lambda one: one.at_ms)
        end = len(inputs)
        while end and _is_shutdown(inputs[end - 1]):
            end -= 1
        stopped = [one.broker for one in inputs[end:] if isinstance(one, StopBroker)]
        if len(stopped) < len(inputs[end:]) or len(stopped) == len(self._brokers):
            del inputs[end:]
            self.notes.append("the shutdown at the end of the log was left out")
        scenario = self._scenario(inputs)
        return BegunFromLog(scenario, tuple(inputs), tuple(self.notes))

    def _scenario(self, inputs: list[Input]) -> Scenario:
        topics = self._topics()
        kept = {topic.name: None for topic in topics}
        content = {
            path: data.decode()
            for path, data in self._znodes.items()
            if subject_of(path).topic in kept and _is_text(data)
        }
        epoch = max((_epoch_of(path, self._znodes[path]) for path in content), default=0)
        if epoch:
            # Otherwise the controllers would begin below the epochs in these states, and refuse
            # to change them (KB 5.2).
            content[znodes.CONTROLLER_EPOCH] = str(epoch)
        configuration = structs.replace(
            self.configuration,
            is_broker=False,
            rules="refold",
            take_over=False,
            checks_topic_versions=True,
        )
        last_ms = max((one.at_ms for one in inputs), default=START_MS)
        return Scenario(
            name="from a log",
            protocol=_protocol(configuration),
            brokers=tuple(BrokerSpec(one) for one in sorted(self._brokers)),
            broker_settings={
                "replica.lag.time.max.ms": "10000",
                "zookeeper.session.timeout.ms": str(_SESSION_MS),
            },
            topics=topics,
            znodes=content,
            controllers=(ControllerSpec(configuration),),
            load=Load(),
            active_ms=last_ms + 1_000,
            quiet_ms=_QUIET_MS,
        )

    def _topics(self) -> tuple[TopicSpec, ...]:
        found: list[TopicSpec] = []
        partitions = left_out = 0
        for path, data in self._znodes.items():
            name = znodes.topic_of(path)
            if name is None:
                continue
            try:
                assignments = znodes.read_topic(name, data).assignments
            except ZnodeError:
                continue
            replicas = tuple(one.replicas for one in assignments.values())
            is_usable = list(assignments) == list(range(len(replicas))) and all(replicas)
            partitions += len(replicas)
            if not is_usable or len(found) >= _TOPICS_MAX or partitions > _PARTITIONS_MAX:
                left_out += 1
                continue
            for one in replicas:
                self._brokers.update(dict.fromkeys(one))
            found.append(TopicSpec(name, replicas))
        if left_out:
            self.notes.append(f"{left_out} topics were left out; {len(found)} are explored")
        return tuple(found)


def _epoch_of(path: str, data: bytes) -> int:
    """The controller epoch in a partition's state; 0: the znode is none, or cannot be read."""
    if znodes.state_of(path) is None:
        return 0
    try:
        return znodes.read_state(path, data, 0).controller_epoch
    except ZnodeError:
        return 0


def _is_shutdown(one: Input) -> bool:
    """Whether an input shuts a process down permanently. If this is the last that happens to the
    controller or to all brokers, it is the end of the recording, not part of the incident."""
    return isinstance(one, ShutDownController) or (
        isinstance(one, StopBroker) and one.restart_after_ms is None
    )


def targets_of(entries: Mapping[Name, Replicas]) -> tuple[Target, ...]:
    """The targets of a reassignment."""
    return tuple(Target(*name, replicas) for name, replicas in entries.items())


def _protocol(configuration: Configuration) -> str:
    version = configuration.inter_broker_protocol_version
    return version if "-IV" in version else LATEST if version.startswith("3.9") else version


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
