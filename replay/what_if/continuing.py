"""Answers one what-if question: the incident without and with the changes, and what happened."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from replay.errors import ReplayError
from replay.progress import Progress, unreported
from replay.what_if.assumptions import Assumption, assumptions
from replay.what_if.causes import Cause
from replay.what_if.changes import Changed, Changes, apply
from replay.what_if.incident import Incident
from replay.what_if.outcome import Difference, Outcome, differences, outcome_of
from replay.what_if.running import Watching, lost_records, run
from replay.what_if.starting import (
    Continuation,
    Settings,
    continuation,
    inputs_of,
    scenario_with,
)
from replay.world.cluster import Cluster
from replay.world.inputs import Input
from replay.world.scenario import Scenario


class Fidelity(Struct, frozen=True):
    """How far the world can be trusted for this log: the unchanged continuation compared with what
    the log says happened. `differences` have the log as base."""

    partitions: int
    agreeing: int
    differences: list[Difference]


class WhatIf(Struct, frozen=True):
    """The answer.

    - `begin_seq`: the event after which the incident is continued
    - `end_ms`: when the continuations end, since the incident began; `begin_ms`: when they begin
    - `happened`: by the log; `control`: the continuation without the changes; `changed`: with them
    - `effect`: what differs with the changes, compared with the control
    - `from_log`: what differs with the changes, compared with what happened
    """

    changes: list[str]
    begin_seq: int
    begin_ms: int
    end_ms: int
    happened: Outcome
    control: Outcome
    changed: Outcome
    effect: list[Difference]
    from_log: list[Difference]
    fidelity: Fidelity
    assumptions: list[Assumption]


class Continued(NamedTuple):
    """A run that continues an incident."""

    begun: Continuation
    scenario: Scenario
    inputs: tuple[Input, ...]
    cluster: Cluster
    outcome: Outcome


class Answer(NamedTuple):
    """The answer, and the run with the changes."""

    what_if: WhatIf
    continued: Continued


def what_if(incident: Incident, changes: Changes, progress: Progress = unreported) -> Answer:
    """Continue an incident without and with changes. Raises ReplayError if a change is not
    possible."""
    changed = apply(incident, changes)
    end_ms = changed.end_ms
    progress("continuing without the changes", 0, 2)
    unchanged = _begun(incident, changed, changed.control, changed.control_settings)
    control = continued(unchanged, unchanged.causes)
    progress("continuing with the changes", 1, 2)
    begun = _begun(incident, changed, changed.causes, changed.settings)
    result = continued(begun, begun.causes)
    progress("comparing", 2, 2)
    happened = outcome_of(incident.history.changes, begun.at_ms, end_ms)
    differing = differences(happened, control.outcome)
    names = {one.partition for one in differing}
    partitions = len(happened.keys() | control.outcome.keys())
    answer = WhatIf(
        changed.texts,
        changed.begin,
        begun.at_ms,
        end_ms,
        happened,
        control.outcome,
        result.outcome,
        differences(control.outcome, result.outcome),
        differences(happened, result.outcome),
        Fidelity(partitions, partitions - len(names), differing),
        assumptions(incident, begun),
    )
    return Answer(answer, result)


def _begun(
    incident: Incident, changed: Changed, causes: list[Cause], settings: Settings
) -> Continuation:
    return continuation(incident, changed.begin, causes, settings, changed.end_ms)


def continued(begun: Continuation, causes: Sequence[Cause]) -> Continued:
    """Run a continuation with these causes."""
    scenario, inputs = scenario_with(begun, causes), inputs_of(begun, causes)
    if not scenario.brokers:
        raise ReplayError("the log names no broker: there is no cluster to continue")
    watching = Watching()
    cluster = run(scenario, inputs, watching)
    lost = lost_records(cluster, watching)
    outcome = outcome_of(watching.history.changes, begun.begin_ms, scenario.end_ms, lost)
    return Continued(begun, scenario, inputs, cluster, outcome)
