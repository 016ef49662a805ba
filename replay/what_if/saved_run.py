"""Runs of the explorer and of what-if, as folders: reading one as an incident, and saving one.

A saved run has all its inputs, so nothing about it is inferred: it is run again. The run's log is
needed to find the input that an event of the log shows. If the code of this version runs it
differently, the history is also read from the log.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from msgspec import structs

from replay.errors import ReplayError
from replay.explore.saved import (
    WHAT_IF,
    BranchPoint,
    ContinuingLog,
    SavedRun,
    read_document,
    read_run,
    run_again,
    write_document,
    write_logs,
)
from replay.logs.open_log import OpenedLog, RecordedLog
from replay.logs.packed import packed_at
from replay.logs.saved_runs import RUN_FILE, folder_named_by, last_log, logs_of_run
from replay.progress import Progress, unreported
from replay.times import iso_time
from replay.what_if.causes import BrokerBounced, BrokerRegistered, BrokerUnregistered, ExternalCause
from replay.what_if.continuing import ContinuedRun
from replay.what_if.history import ClusterHistory
from replay.what_if.incident import Incident, SavedBy, read_incident
from replay.what_if.running import HistoryRecorder, run_to_end
from replay.what_if.starting import REGISTERS_AFTER_MS
from replay.world.controller_run import START_NS
from replay.world.inputs import CrashBroker, Input, StopBroker
from replay.world.scenario import Scenario

_NS_PER_MS: Final = 1_000_000
_EARLIER_MS: Final = 100
"""How much earlier than an input the log may show it: a broker takes not always the same time."""
_SHOWN_WITHIN_MS: Final = 30_000
"""An event shows an input at most this time after it."""


def save(continued: ContinuedRun, incident: Incident, log: str, folder: Path) -> list[Path]:
    """Write a run that continues the incident of a log into a new folder, as `refold explore` does;
    return its logs. Raises ReplayError, LogError."""
    continuation = continued.continuation
    time = incident.time_of(continuation.seq)
    ends_ms = (continuation.begin_ms, continued.scenario.end_ms)
    begin, end = (iso_time(START_NS + one * _NS_PER_MS) for one in ends_ms)
    saved = SavedRun(
        scenario=continued.scenario,
        inputs=continued.inputs,
        violation=None,
        digest=continued.cluster.digest(),
        strategy=WHAT_IF,
        branch=BranchPoint(log, continuation.seq, time, begin, end),
    )
    write_document(saved, folder)
    return write_logs(continued.cluster, folder)


def continuing_log(path: Path | str) -> ContinuingLog | None:
    """The log that a path names, if its run continues another log; None for any other log. Raises
    LogError."""
    folder = _folder_of_run(str(path))
    if folder is None:
        return None
    try:
        branch = read_document(folder, SavedRun).branch
    except ReplayError:
        return None  # Another program's file, or a run of the 0.8 design.
    if not branch:
        return None
    logs = logs_of_run(folder)
    last = last_log(logs)
    # The path of the folder names its only log.
    is_last = last is not None and (len(logs) == 1 or last.resolve() == Path(path).resolve())
    return ContinuingLog(branch, len(logs), is_last)


def incident_of(path: str, log: OpenedLog, progress: Progress = unreported) -> Incident:
    """The incident of a log. If the log is that of a saved run, the incident is that run. Raises
    ReplayError, LogError."""
    try:
        incident = read_incident(log, progress)
    except ReplayError as error:
        raise ReplayError(f"{path}: {error}") from None
    if not isinstance(log, RecordedLog):
        return incident
    folder = _folder_of_run(path)
    if folder is None:
        return replace(incident, is_kept_run=_is_kept_run(path))
    return _simulated_incident(incident, read_run(folder))


def _folder_of_run(path: str) -> Path | None:
    """The folder of the saved run that has a log. A packed log is not run again: the run.json of an
    incident may be that of a version with other decisions."""
    given = folder_named_by(Path(path))
    if not given.exists() or packed_at(given) is not None:
        return None
    return _folder_with_run(given)


def _is_kept_run(path: str) -> bool:
    """Whether a path names an incident that was made from a saved run."""
    given = folder_named_by(Path(path))
    return packed_at(given) is not None and _folder_with_run(given) is not None


def _folder_with_run(log: Path) -> Path | None:
    return next((one for one in (log, log.parent) if (one / RUN_FILE).is_file()), None)


def _simulated_incident(logged: Incident, saved: SavedRun) -> Incident:
    """The incident of a saved run, with the event numbers of one of its logs."""
    scenario, violation = saved.scenario, saved.violation
    end_ms = violation.at_us // 1000 if violation is not None else scenario.end_ms
    shift_ms = (logged.begin_ns - START_NS) // _NS_PER_MS
    times = {seq: at_ms + shift_ms for seq, at_ms in logged.times.items()}
    seqs, moments = list(times), list(times.values())
    is_same = run_again(saved).outcome(with_digest=True).digest == saved.digest
    if is_same:
        history = _history_of_run(_scenario_until(scenario, end_ms), saved.inputs, times)
    else:
        history = _history_of_log(logged.history, shift_ms)
    causes = []
    for one in _parts(saved.inputs):
        shown = _cause_in_log(logged.causes, one, shift_ms)
        if shown is not None:
            causes.append(structs.replace(one, seq=shown.seq, last_seq=shown.last_seq))
        else:
            place = bisect_left(moments, one.at_ms)
            causes.append(structs.replace(one, seq=seqs[place] if place < len(seqs) else seqs[-1]))
    return replace(
        logged,
        is_imported=False,
        begin_ns=START_NS,
        end_ms=end_ms,
        history=history,
        causes=sorted(causes, key=lambda one: one.seq),
        copying=[],
        times=times,
        rebalances=[],
        scenario=scenario,
        not_repeated=None if is_same else SavedBy(saved.version, saved.core),
    )


def _history_of_run(
    scenario: Scenario, inputs: Sequence[Input], times: dict[int, int]
) -> ClusterHistory:
    """Run a scenario and return its history, with the events of the log that has these `times`."""
    seqs, moments = list(times), list(times.values())
    recorder = HistoryRecorder()
    run_to_end(scenario, inputs, recorder)
    history = ClusterHistory()
    for change in recorder.history.changes:
        place = bisect_right(moments, change.at_ms)
        history.changes.append(change._replace(seq=seqs[max(0, place - 1)]))
    return history


def _history_of_log(logged: ClusterHistory, shift_ms: int) -> ClusterHistory:
    """The changes that a log shows, at the times of the run."""
    history = ClusterHistory()
    history.changes = [one._replace(at_ms=one.at_ms + shift_ms) for one in logged.changes]
    return history


def _scenario_until(scenario: Scenario, end_ms: int) -> Scenario:
    active_ms = min(scenario.active_ms, end_ms)
    return structs.replace(scenario, active_ms=active_ms, quiet_ms=end_ms - active_ms)


def _parts(inputs: Sequence[Input]) -> Iterator[ExternalCause]:
    """The inputs as causes. The end and the start of a broker are two of them."""
    for one in inputs:
        if isinstance(one, CrashBroker | StopBroker) and one.restart_after_ms is not None:
            yield ExternalCause(0, one.at_ms, structs.replace(one, restart_after_ms=None))
            back_ms = one.at_ms + one.restart_after_ms + REGISTERS_AFTER_MS
            yield ExternalCause(0, back_ms, BrokerRegistered(one.broker))
        else:
            yield ExternalCause(0, one.at_ms, one)


def _cause_in_log(
    logged: Sequence[ExternalCause], cause: ExternalCause, shift_ms: int
) -> ExternalCause | None:
    """The trace of an input in the log."""
    return next(
        (
            one
            for one in logged
            if 0 <= one.at_ms + shift_ms - cause.at_ms + _EARLIER_MS <= _SHOWN_WITHIN_MS
            and _is_same(one, cause)
        ),
        None,
    )


def _is_same(shown: ExternalCause, cause: ExternalCause) -> bool:
    match shown.what, cause.what:
        case BrokerUnregistered() | BrokerBounced() as gone, CrashBroker() | StopBroker() as end:
            return gone.broker == end.broker
        case BrokerRegistered() as back, BrokerRegistered() as start:
            return back.broker == start.broker
        case one, other:
            return type(one) is type(other)
