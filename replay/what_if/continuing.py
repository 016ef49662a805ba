"""Answers one what-if question: the incident without and with the changes, and what happened."""

from typing import NamedTuple

from msgspec import Struct

from replay.errors import ReplayError
from replay.names import partition_name
from replay.progress import Progress, unreported
from replay.what_if.assumptions import Assumption, assumptions
from replay.what_if.causes import ExternalCause
from replay.what_if.changes import ChangedIncident, WhatIfChanges, apply_changes
from replay.what_if.history import ClusterHistory, cluster_state_at
from replay.what_if.incident import Incident
from replay.what_if.outcome import Outcome, OutcomeDifference, differences, outcome_of
from replay.what_if.running import HistoryRecorder, lost_records, run_to_end
from replay.what_if.starting import (
    Continuation,
    SettingOverrides,
    continuation_after,
    inputs_of,
    scenario_with,
)
from replay.world.cluster import Cluster
from replay.world.inputs import CancelReassignment, Input
from replay.world.scenario import Scenario


class Fidelity(Struct, frozen=True):
    """How far the simulated cluster can be trusted for this log: the unchanged continuation
    compared with what the log says happened. `differences` have the log as base. `is_low`: fewer
    than half of the partitions agree."""

    partitions: int
    agreeing: int
    is_low: bool
    differences: list[OutcomeDifference]


class WhatIfAnswer(Struct, frozen=True):
    """The answer.

    - `begin_seq`: the event after which the incident is continued
    - `end_ms`: when the continuations end, since the incident began; `begin_ms`: when they begin
    - `happened`: by the log; `control`: the continuation without the changes; `changed`: with them
    - `effect`: what differs with the changes, compared with the control
    - `from_log`: what differs with the changes, compared with what happened
    - `cancelled_too_late`: partitions whose reassignment, which is cancelled by a change, has ended
      before in the simulated cluster
    """

    changes: list[str]
    begin_seq: int
    begin_ms: int
    end_ms: int
    happened: Outcome
    control: Outcome
    changed: Outcome
    effect: list[OutcomeDifference]
    from_log: list[OutcomeDifference]
    fidelity: Fidelity
    assumptions: list[Assumption]
    cancelled_too_late: list[str]


class ContinuedRun(NamedTuple):
    """A run that continues an incident."""

    continuation: Continuation
    scenario: Scenario
    inputs: tuple[Input, ...]
    cluster: Cluster
    outcome: Outcome
    history: ClusterHistory


def what_if(
    incident: Incident, changes: WhatIfChanges, progress: Progress = unreported
) -> tuple[WhatIfAnswer, ContinuedRun]:
    """Continue an incident without and with changes: the answer, and the run with the changes.
    Raises ReplayError if a change is not possible."""
    changed = apply_changes(incident, changes)
    end_ms = changed.end_ms
    progress("continuing without the changes", 0, 2)
    unchanged = _continuation(incident, changed, changed.control, changed.control_settings)
    control = _run_continuation(unchanged)
    progress("continuing with the changes", 1, 2)
    continuation = _continuation(incident, changed, changed.causes, changed.settings)
    result = _run_continuation(continuation)
    progress("comparing", 2, 2)
    happened = outcome_of(incident.history.changes, continuation.at_ms, end_ms)
    differing = differences(happened, control.outcome)
    answer = WhatIfAnswer(
        changed.texts,
        changed.begin,
        continuation.at_ms,
        end_ms,
        happened,
        control.outcome,
        result.outcome,
        differences(control.outcome, result.outcome),
        differences(happened, result.outcome),
        _fidelity(len(happened.keys() | control.outcome.keys()), differing),
        assumptions(incident, continuation),
        _cancelled_too_late(changed, result),
    )
    return answer, result


def _fidelity(partitions: int, differing: list[OutcomeDifference]) -> Fidelity:
    agreeing = partitions - len({one.partition for one in differing})
    return Fidelity(partitions, agreeing, agreeing * 2 < partitions, differing)


def _cancelled_too_late(changed: ChangedIncident, run: ContinuedRun) -> list[str]:
    """The partitions that a change cancels the reassignment of when none is under way any more."""
    found: list[str] = []
    for cause in changed.causes:
        if not isinstance(cause.what, CancelReassignment) or cause in changed.control:
            continue
        at_ms = cause.at_ms + run.continuation.shift_ms
        until = [one for one in run.history.changes if one.at_ms <= at_ms]
        now = cluster_state_at(until, until[-1].seq, at_ms).partitions
        found += [
            partition_name(*name)
            for name in cause.what.partitions
            if name not in now or not now[name].assignment.is_being_reassigned
        ]
    return found


def _continuation(
    incident: Incident,
    changed: ChangedIncident,
    causes: list[ExternalCause],
    settings: SettingOverrides,
) -> Continuation:
    return continuation_after(incident, changed.begin, causes, settings, changed.end_ms)


def _run_continuation(continuation: Continuation) -> ContinuedRun:
    """Run a continuation to its end. Raises ReplayError."""
    causes = continuation.causes
    scenario, inputs = scenario_with(continuation, causes), inputs_of(continuation, causes)
    if not scenario.brokers:
        raise ReplayError("the log names no broker: there is no cluster to continue")
    recorder = HistoryRecorder()
    cluster = run_to_end(scenario, inputs, recorder)
    lost = lost_records(cluster, recorder)
    outcome = outcome_of(recorder.history.changes, continuation.begin_ms, scenario.end_ms, lost)
    return ContinuedRun(continuation, scenario, inputs, cluster, outcome, recorder.history)
