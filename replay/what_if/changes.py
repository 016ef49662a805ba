"""The changes that a user asks for, and the causes and settings that they result in."""

import re
from typing import Final, NamedTuple

from msgspec import Struct, structs

from controller.core.znodes import Name
from controller.suggestions import there_are
from replay.cluster_view.selecting import require_broker_among
from replay.errors import ReplayError
from replay.names import partition_name, partition_named
from replay.what_if.causes import (
    BrokerBounced,
    BrokerRegistered,
    ExternalCause,
    causes_shown_by,
    in_words,
    moved,
    nearest,
)
from replay.what_if.history import cluster_state_at
from replay.what_if.incident import Incident
from replay.what_if.settings import first_settings, with_setting
from replay.what_if.starting import (
    BOUNCED_AFTER_MS,
    REGISTERS_AFTER_MS,
    SESSION_MS,
    SettingOverrides,
    rebalance_inputs,
)
from replay.world.inputs import CancelReassignment, CrashBroker, KillController

CONTROLLER: Final = "controller"

_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000}
_DURATION: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)(ms|s|min|m)")
_REBALANCE: Final = "auto.leader.rebalance.enable"
_RESTARTS_MS: Final = 2_000
"""When a supervisor starts a controller that was killed again."""


class WhatIfChanges(Struct, frozen=True, kw_only=True):
    """The changes that a user asks for, each as given on the command line.

    - `set`: KEY=VALUE or TOPIC:KEY=VALUE
    - `drop`: SEQ; `delay`: SEQ=2s
    - `crash`, `restart`: broker=3@SEQ or controller@SEQ
    - `cancel_reassignment`: @SEQ or TOPIC-PARTITION@SEQ
    - `begin`: the event after which the incident is continued; None: before the first change
    """

    set: tuple[str, ...] = ()
    drop: tuple[int, ...] = ()
    delay: tuple[str, ...] = ()
    crash: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()
    cancel_reassignment: tuple[str, ...] = ()
    begin: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is changed."""
        given = (self.set, self.drop, self.delay, self.crash, self.restart)
        return not any((*given, self.cancel_reassignment))


class ChangedIncident(NamedTuple):
    """The result: where the continuation begins and ends, the causes without and with the changes,
    the settings without and with them, and the changes in words, one for each."""

    begin: int
    end_ms: int
    control: list[ExternalCause]
    causes: list[ExternalCause]
    control_settings: SettingOverrides
    settings: SettingOverrides
    texts: list[str]

    @property
    def is_unchanged(self) -> bool:
        """Whether no change was given."""
        return not self.texts


def apply_changes(incident: Incident, changes: WhatIfChanges) -> ChangedIncident:
    """Apply changes to an incident. Raises ReplayError if one of them is not possible."""
    return _ChangeApplier(incident).apply(changes)


class _ChangeApplier:
    def __init__(self, incident: Incident) -> None:
        self._incident = incident
        self._causes = list(incident.causes)
        self._changed: list[ExternalCause] = []
        self._places: list[int] = []
        self._last_ms = 0
        self._texts: list[str] = []

    def apply(self, changes: WhatIfChanges) -> ChangedIncident:
        """Apply all changes."""
        incident = self._incident
        delays = [_delay(one) for one in changes.delay]
        for seq in changes.drop:
            self._drop(seq)
        for seq, ms in delays:
            self._delay(seq, ms)
        for text in changes.crash:
            self._crash(text)
        for text in changes.restart:
            self._restart(text)
        for text in changes.cancel_reassignment:
            self._cancel(text)
        begin = self._begin(changes)
        is_simulated = incident.scenario is not None
        rebalances = [] if is_simulated else rebalance_inputs(incident, begin)
        control = first_settings(incident.configuration, rebalances=is_simulated)
        settings = self._settings(control, changes)
        end_ms = max(incident.end_ms, self._last_ms)
        if not is_simulated:
            end_ms += _ENDS_AFTER_MS
        if not any(one.partition("=")[0] == _REBALANCE for one in changes.set):
            self._causes += rebalances
        return ChangedIncident(
            begin,
            end_ms,
            [*incident.causes, *rebalances],
            self._causes,
            control,
            settings,
            self._texts,
        )

    def _begin(self, changes: WhatIfChanges) -> int:
        """The event before the first change: it shows what is changed, or is named by it."""
        incident = self._incident
        if changes.begin is not None:
            incident.at_ms(changes.begin)
            late = [one for one in self._places if one < changes.begin]
            if late:
                raise ReplayError(
                    f"--from {changes.begin} is after a change, which begins at event {late[0]}: "
                    "leave --from out, or give an earlier event"
                )
            return changes.begin
        first = min(self._places, default=incident.first_seq)
        return max(seq for seq in incident.times if seq <= max(first, incident.first_seq))

    def _settings(self, control: SettingOverrides, changes: WhatIfChanges) -> SettingOverrides:
        settings = control
        topics = {one[0] for one in self._incident.history.names()}
        for text in changes.set:
            key, equals, value = text.partition("=")
            topic, colon, of_topic = key.rpartition(":")
            if not equals or not of_topic or (colon and not topic):
                raise ReplayError(f"--set {text} is not KEY=VALUE or TOPIC:KEY=VALUE")
            if topic and topic not in topics:
                known = there_are("topics", topic, topics)
                raise ReplayError(f"--set {text}: the log has no topic {topic}; {known}")
            settings = with_setting(settings, topic, of_topic, value)
            self._texts.append(f"set {text}")
        return settings

    def _drop(self, seq: int) -> None:
        for one in self._claim_causes(seq, "drop"):
            self._causes.remove(one)
            self._note(one.seq - 1, one.at_ms, f"event {one.seq} did not happen: {in_words(one)}")

    def _delay(self, seq: int, ms: int) -> None:
        for one in self._claim_causes(seq, "delay"):
            later = moved(one, ms)
            self._causes[self._causes.index(one)] = later
            text = f"event {one.seq} happened {ms / 1000:g} s later: {in_words(one)}"
            self._note(one.seq - 1, later.at_ms, text)

    def _claim_causes(self, seq: int, option: str) -> list[ExternalCause]:
        """Claim the causes that an event shows, each for one change, and return them. Raises
        ReplayError if the event shows none, or if another change has claimed one."""
        self._incident.at_ms(seq)
        found = causes_shown_by(self._incident.causes, seq)
        if not found:
            hint = nearest(self._incident.causes, seq)
            near = f"; the nearest ones are {hint}" if hint else ""
            raise ReplayError(
                f"--{option} {seq}: this event did not come from outside: the simulation makes "
                f"such events itself. Name one that came from outside{near}"
            )
        for one in found:
            if one in self._changed:
                raise ReplayError(
                    f"--{option} {seq}: event {one.seq} is changed twice ({in_words(one)}): give "
                    "--drop or --delay once for it"
                )
        self._changed += found
        return found

    def _crash(self, text: str) -> None:
        broker, seq = _process(text, "--crash")
        at_ms = self._incident.at_ms(seq)
        if broker is None:
            kill = KillController(at_ms, self._incident.process, "same", _RESTARTS_MS)
            self._add(seq, ExternalCause(seq, at_ms, kill), "the controller crashed")
            return
        self._require(broker, f"--crash {text}")
        if not self._is_registered(broker, seq):
            raise ReplayError(
                f"--crash {text}: broker {broker} is not registered after event {seq}"
            )
        crash = CrashBroker(at_ms, broker, False, None)
        self._add(seq, ExternalCause(seq, at_ms, crash), f"broker {broker} crashed")

    def _restart(self, text: str) -> None:
        broker, seq = _process(text, "--restart")
        at_ms = self._incident.at_ms(seq)
        if broker is None:
            kill = KillController(at_ms, self._incident.process, "same", 0)
            self._add(seq, ExternalCause(seq, at_ms, kill), "the controller restarted")
            return
        self._require(broker, f"--restart {text}")
        # The process ends or starts at the event; the cause is what a controller sees later.
        if self._is_registered(broker, seq):
            cause = ExternalCause(seq, at_ms + BOUNCED_AFTER_MS, BrokerBounced(broker))
        else:
            cause = ExternalCause(seq, at_ms + REGISTERS_AFTER_MS, BrokerRegistered(broker))
        self._add(seq, cause, f"broker {broker} restarted")

    def _cancel(self, text: str) -> None:
        name, at, place = text.rpartition("@")
        if not at or not place.isdecimal():
            raise ReplayError(f"--cancel-reassignment {text} is not @SEQ or TOPIC-PARTITION@SEQ")
        seq = int(place)
        at_ms = self._incident.at_ms(seq)
        cluster = cluster_state_at(self._incident.history.changes, seq, at_ms)
        under_way = [
            one for one, now in cluster.partitions.items() if now.assignment.is_being_reassigned
        ]
        wanted = [_partition(name, text)] if name else under_way
        missing = [one for one in wanted if one not in under_way]
        if missing or not wanted:
            names = (
                ", ".join(partition_name(topic, number) for topic, number in under_way) or "none"
            )
            raise ReplayError(
                f"--cancel-reassignment {text}: after event {seq} the reassignments under way are: "
                f"{names}"
            )
        cancel = CancelReassignment(at_ms, tuple(wanted))
        names = ", ".join(partition_name(topic, number) for topic, number in wanted)
        self._add(
            seq, ExternalCause(seq, at_ms, cancel), f"the reassignment of {names} was cancelled"
        )

    def _is_registered(self, broker: int, seq: int) -> bool:
        """Whether a broker is registered at event `seq`."""
        return broker in cluster_state_at(self._incident.history.changes, seq, 0).brokers

    def _require(self, broker: int, option: str) -> None:
        """Check that the cluster has a broker. Raises ReplayError."""
        require_broker_among(self._incident.brokers, broker, f"{option}: the log has no {{}}")

    def _add(self, seq: int, cause: ExternalCause, text: str) -> None:
        # The continuation begins after this event, and its causes are those of later events.
        added = structs.replace(cause, seq=seq + 1, is_certain=True)
        self._causes.append(added)
        self._note(seq, cause.at_ms + SESSION_MS, f"after event {seq} {text}")

    def _note(self, seq: int, at_ms: int, text: str) -> None:
        self._places.append(seq)
        self._last_ms = max(self._last_ms, at_ms + _SETTLES_MS)
        self._texts.append(text)


_ENDS_AFTER_MS: Final = 3_000
"""How much later a continuation ends than the log: pending operations end, too."""

_SETTLES_MS: Final = 5_000
"""How long a continuation lasts after the last change, if the log ends before."""


def _delay(text: str) -> tuple[int, int]:
    seq, equals, duration = text.partition("=")
    match = _DURATION.fullmatch(duration)
    if not equals or not seq.isdecimal() or match is None:
        raise ReplayError(
            f"--delay {text} is not SEQ=TIME with a unit, such as 120=2s or 120=500ms"
        )
    return int(seq), round(float(match[1]) * _UNITS_MS[match[2]])


def _process(text: str, option: str) -> tuple[int | None, int]:
    """The broker (None: the controller) and the event of an option."""
    process, at, seq = text.rpartition("@")
    kind, _, number = process.partition("=")
    if at and seq.isdecimal():
        if process == CONTROLLER:
            return None, int(seq)
        if kind == "broker" and number.isdecimal():
            return int(number), int(seq)
    raise ReplayError(f"{option} {text} is not broker=ID@SEQ or {CONTROLLER}@SEQ")


def _partition(name: str, text: str) -> Name:
    try:
        return partition_named(name)
    except ValueError as error:
        raise ReplayError(f"--cancel-reassignment {text}: {error}") from None
