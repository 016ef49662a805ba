"""Collects what happened in an incident: the cluster at its start, and inputs with times.

A log shows what was observed, not what happened: a broker that is no longer registered has crashed
before, and so on. The inputs are the simplest cause of each observation. Long pauses are shortened.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, assert_never

from msgspec import Struct, structs

from controller.core.api_requests import ApiRequest
from controller.core.api_requests.alter_partition import AlterPartitionReceived
from controller.core.api_requests.controlled_shutdown import ControlledShutdownReceived
from controller.core.api_requests.elections import ElectLeadersReceived
from controller.core.api_requests.features import UpdateFeaturesReceived
from controller.core.api_requests.producer_ids import AllocateProducerIdsReceived
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    ListPartitionReassignmentsReceived,
    ReassignmentTarget,
)
from controller.core.api_requests.scram_credentials import AlterUserScramCredentialsReceived
from controller.core.api_requests.topics import (
    CreatePartitionsReceived,
    CreateTopicsReceived,
    DeleteTopicsReceived,
)
from controller.core.configuration import Configuration
from controller.core.znodes import Name
from replay.errors import ReplayError
from replay.explore.from_log.start import START_MS, ClusterAtStart, Controllers
from replay.names import broker_name
from replay.world.inputs import (
    MECHANISMS,
    UPGRADE_KINDS,
    AllocateProducerIds,
    AlterUserScramCredentials,
    CancelReassignment,
    CrashBroker,
    CredentialChange,
    FeatureChange,
    Input,
    KillController,
    PauseProcess,
    Reassign,
    ShutDownController,
    StopBroker,
    Target,
    UpdateFeatures,
)
from replay.world.processes import refold_name
from replay.world.scenario import Scenario

_PAUSE_MS_MAX: Final = 8_000
_ACTIVE_MS_MAX: Final = 180_000
_SESSION_MS: Final = 6_000
_NS_PER_MS: Final = 1_000_000

Replicas = tuple[int, ...]


class RunFromLog(Struct, frozen=True):
    """The result: what a log begins with and what happens in it. `notes`: what was left out."""

    scenario: Scenario
    inputs: tuple[Input, ...]
    notes: tuple[str, ...]


class Schedule:
    """The incident so far. Times are wall clocks in nanoseconds."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.controllers = Controllers(configuration)
        self.inputs: list[Input] = []
        self.notes: list[str] = []
        self._left_out: Counter[str] = Counter()
        self._brokers: dict[int, None] = {}
        self._down: dict[int, int] = {}
        """Brokers that are down, with the place of the input that ended them."""
        self._znodes: dict[str, bytes] = {}
        self._now_ms = START_MS
        self._last_ns = 0
        self._has_begun = False
        self.is_full = False

    @property
    def brokers(self) -> list[int]:
        """The brokers that were registered so far."""
        return list(self._brokers)

    @property
    def process(self) -> str:
        """The controller of the scenario that has the incident's role."""
        return refold_name(self.configuration.broker_id)

    def begin(self, ns: int, content: Mapping[str, bytes], brokers: Sequence[int]) -> None:
        """The incident begins, with these znodes and registered brokers. It begins only once."""
        if self._has_begun:
            return
        self._has_begun = True
        self._last_ns = ns
        self._znodes = dict(content)
        self._brokers = dict.fromkeys(brokers)

    def ms_of(self, ns: int) -> int:
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
        """Add an input, unless the schedule is full."""
        if not self.is_full:
            self.inputs.append(one)

    def replace(self, before: Input, after: Input | None) -> None:
        """Replace an input by one that a later event says more about; None: remove it."""
        if before in self.inputs:
            place = self.inputs.index(before)
            self.inputs[place : place + 1] = [] if after is None else [after]

    def leave_out(self, kind: str) -> None:
        """Count what happened and cannot be made an input. `kind` is in the plural."""
        if not self.is_full:
            self._left_out[kind] += 1

    def add_request(self, at_ms: int, request: ApiRequest) -> None:
        """A request about no topic arrived."""
        made = _input_of(at_ms, request)
        if isinstance(made, AllocateProducerIds) and made.broker not in self._brokers:
            return
        if made is not None:
            self.add(made)

    def add_reassignments(self, at_ms: int, requested: Iterable[ReassignmentTarget]) -> None:
        """A client requested and cancelled reassignments by the API."""
        entries: dict[Name, Replicas] = {}
        cancelled: list[Name] = []
        for one in requested:
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
        at_ms = self.ms_of(ns)
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
        at_ms = self.ms_of(ns)
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
        self.add(CrashBroker(self.ms_of(ns), broker, False, 0))

    def broker_resumed(self, ns: int, broker: int) -> None:
        """A broker is registered again, whose process has not ended: it was paused."""
        place = self._down.get(broker)
        one = self.inputs[place] if place is not None else None
        if place is None or not isinstance(one, CrashBroker):
            self.broker_back(ns, broker)
            return
        del self._down[broker]
        pause_ms = max(0, self.ms_of(ns) - one.at_ms)
        self.inputs[place] = PauseProcess(one.at_ms, broker_name(broker), pause_ms)

    # Controllers

    def controller_gone(self, ns: int, *, is_expired: bool) -> None:
        """The session of the controller was closed, or expired."""
        self.add(KillController(self.ms_of(ns), self.process))

    # The result

    def result(self) -> RunFromLog:
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
        last_ms = max((one.at_ms for one in inputs), default=START_MS)
        start = ClusterAtStart(self._znodes, list(self._brokers))
        scenario = start.scenario(self.controllers, last_ms, _SESSION_MS)
        notes = [*self.notes, *start.notes, *self.controllers.notes]
        if self._left_out:
            counted = ", ".join(f"{kind} ({count})" for kind, count in self._left_out.items())
            notes.append(f"left out: {counted}")
        if not inputs:
            notes.append(
                "the log shows nothing from outside after its start: the cluster of its start is"
                " explored with a random mix of faults and acts"
            )
        return RunFromLog(scenario, tuple(inputs), tuple(notes))


def _is_shutdown(one: Input) -> bool:
    """Whether an input shuts a process down permanently. If this is the last that happens to the
    controller or to all brokers, it is the end of the recording, not part of the incident."""
    return isinstance(one, ShutDownController) or (
        isinstance(one, StopBroker) and one.restart_after_ms is None
    )


def targets_of(entries: Mapping[Name, Replicas]) -> tuple[Target, ...]:
    """The targets of a reassignment."""
    return tuple(Target(*name, replicas) for name, replicas in entries.items())


def _input_of(at_ms: int, request: ApiRequest) -> Input | None:
    """The input that makes a request; None if the request is about topics or brokers. Values that
    an input cannot have, such as an unknown mechanism, are left out."""
    match request:
        case AllocateProducerIdsReceived(broker=broker):
            return AllocateProducerIds(at_ms, broker)
        case AlterUserScramCredentialsReceived(deletions=deletions, upsertions=upsertions):
            changes = [
                CredentialChange(one.user, MECHANISMS[one.mechanism], None)
                for one in deletions
                if one.mechanism in MECHANISMS
            ]
            changes += [
                CredentialChange(
                    one.user, MECHANISMS[one.mechanism], one.credential, one.iterations
                )
                for one in upsertions
                if one.mechanism in MECHANISMS
            ]
            return AlterUserScramCredentials(at_ms, tuple(changes))
        case UpdateFeaturesReceived(updates=updates, validate_only=validate_only):
            levels = tuple(
                FeatureChange(one.feature, one.level, UPGRADE_KINDS[one.upgrade_type])
                for one in updates
                if one.upgrade_type in UPGRADE_KINDS
            )
            return UpdateFeatures(at_ms, levels, validate_only)
        case (
            AlterPartitionReceived()
            | ControlledShutdownReceived()
            | AlterPartitionReassignmentsReceived()
            | ListPartitionReassignmentsReceived()
            | ElectLeadersReceived()
            | CreateTopicsReceived()
            | CreatePartitionsReceived()
            | DeleteTopicsReceived()
        ):
            return None
        case _:
            assert_never(request)
