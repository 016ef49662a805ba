"""The output of `refold what-if`: the answer to a question, and the point of no return."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import typer

from controller.cli.output import print_table
from replay.logs.saved_runs import logs_with_terms
from replay.names import partition_name, partition_named
from replay.times import iso_time

if TYPE_CHECKING:
    from rich.table import Table

    from replay.what_if.continuing import WhatIfAnswer
    from replay.what_if.incident import Incident, SavedBy
    from replay.what_if.outcome import Outcome
    from replay.what_if.searching import LikelihoodCurve, Point

_DIFFERENCES_MAX: Final = 40
"""At most this many differences are printed; JSON has all."""
_BAR: Final = 30
_KEPT_RUN: Final = "the incident has a run.json: its run is not repeated, its log is continued"
_NS_PER_MS: Final = 1_000_000


def answer_document(
    answer: "WhatIfAnswer", incident: "Incident", logs: Sequence[Path]
) -> dict[str, object]:
    """The answer as plain values."""
    outcomes = {"happened": answer.happened, "control": answer.control, "changed": answer.changed}
    took_ms = answer.end_ms - answer.begin_ms
    fields = {name: getattr(answer, name) for name in answer.__struct_fields__}
    return {
        **fields,
        "begin": incident.time_of(answer.begin_seq),
        "end": iso_time(incident.wall_ns[answer.begin_seq] + took_ms * _NS_PER_MS),
        "differs": bool(answer.effect),
        "summary": _summary(answer),
        "not_repeated": incident.not_repeated,
        "is_kept_run": incident.is_kept_run,
        **{
            name: {partition_name(topic, number): one for (topic, number), one in outcome.items()}
            for name, outcome in outcomes.items()
        },
        "logs": [str(one) for one in logs],
    }


def print_answer(answer: "WhatIfAnswer", incident: "Incident", logs: Sequence[Path]) -> None:
    """Print an answer."""
    for part in answer_parts(answer, incident, logs):
        if isinstance(part, str):
            typer.echo(part)
        else:
            print_table(part)


def answer_parts(
    answer: "WhatIfAnswer", incident: "Incident", logs: Sequence[Path]
) -> Iterator["str | Table"]:
    """An answer as lines and tables."""
    for text in answer.changes or ["nothing"]:
        yield f"changed: {text}"
    seconds = (answer.end_ms - answer.begin_ms) / 1000
    begin = f"event {answer.begin_seq} ({incident.time_of(answer.begin_seq)})"
    yield f"continued after {begin} for {seconds:.1f} s in the simulated cluster"
    if incident.is_kept_run:
        yield _KEPT_RUN
    if incident.not_repeated is not None:
        yield _not_repeated(incident.not_repeated)
        yield "what happened is read from the log; the continuations are runs of this version"
    if answer.cancelled_too_late:
        yield (
            "cancelled too late, without an effect: the simulated cluster has already ended the "
            f"reassignment of {', '.join(answer.cancelled_too_late)}"
        )
    if answer.effect:
        yield f"{_summary(answer)}:"
        yield from _difference_parts(answer)
    else:
        yield _summary(answer)
    yield from _totals(answer)
    yield from _fidelity(answer)
    yield f"assumptions: {len(answer.assumptions)} (docs/what-if.md#assumptions)"
    for one in answer.assumptions:
        yield f"  {one.about.value} ({one.count}): {one.text}"
    for log in logs_with_terms(logs) if len(logs) > 1 else logs:
        yield f"a log for replay, why, inspect and diff: {log}"
    if len(logs) > 1:
        folder = logs[0].parent
        yield f"all of these logs together: refold report {folder}, refold why {folder}"


def _summary(answer: "WhatIfAnswer") -> str:
    """The answer in one sentence, which also says if the simulation hardly resembles the log."""
    names = {one.partition for one in answer.effect}
    of = len(answer.control.keys() | answer.changed.keys())
    if not of:
        found = "the simulated cluster has no partitions to compare at the end"
    elif names:
        found = f"the outcome differs for {len(names)} of {of} partitions"
    else:
        found = f"the outcome is the same for all {of} partitions"
    fidelity = answer.fidelity
    if not fidelity.is_low:
        return found
    return (
        f"{found}, but the simulation is not reliable for this log: without the changes only "
        f"{fidelity.agreeing} of {fidelity.partitions} partitions fare as in the log"
    )


def _not_repeated(saved_by: "SavedBy") -> str:
    return (
        f"the run was saved by refold {saved_by.version}, core {saved_by.core}; the code of this "
        "version runs it differently"
    )


def _difference_parts(answer: "WhatIfAnswer") -> Iterator["str | Table"]:
    from rich.table import Table

    from replay.what_if.outcome import text_of

    table = Table("partition", "", "log", "without changes", "with changes")
    for one in answer.effect[:_DIFFERENCES_MAX]:
        logged = text_of(one.what, answer.happened.get(partition_named(one.partition)))
        table.add_row(one.partition, one.what.value, logged, one.base, one.other)
    yield table
    left = len(answer.effect) - _DIFFERENCES_MAX
    if left > 0:
        yield f"and {left} more differences: --json prints all"


def _totals(answer: "WhatIfAnswer") -> Iterator[str]:
    outcomes = (answer.happened, answer.control, answer.changed)
    logged, without, changed = (sum(one.offline_ms for one in of.values()) for of in outcomes)
    yield (
        f"offline, all partitions together: {logged / 1000:.1f} s in the log, "
        f"{without / 1000:.1f} s without the changes, {changed / 1000:.1f} s with them"
    )
    yield (
        "lost records of the simulated producers: "
        f"{_lost_record_counts(answer.control)} without the changes; "
        f"{_lost_record_counts(answer.changed)} with them"
    )


def _lost_record_counts(outcome: "Outcome") -> str:
    of_all = sum(one.lost_all or 0 for one in outcome.values())
    of_leader = sum(one.lost_leader or 0 for one in outcome.values())
    return f"{of_all} with acks=all, {of_leader} with acks=1"


def _fidelity(answer: "WhatIfAnswer") -> Iterator[str]:
    fidelity = answer.fidelity
    yield (
        f"fidelity: without the changes, {fidelity.agreeing} of {fidelity.partitions} partitions "
        "fare as in the log"
    )
    for one in fidelity.differences[:_DIFFERENCES_MAX]:
        yield f"  {one.partition}: {one.what.value}: {one.base} in the log, {one.other} simulated"
    left = len(fidelity.differences) - _DIFFERENCES_MAX
    if left > 0:
        yield f"  and {left} more: --json prints all"


# The point of no return ---------------------------------------------------------------------------


def curve_document(
    curve: "LikelihoodCurve", incident: "Incident", condition: str, texts: Mapping[int, str]
) -> dict[str, object]:
    """The curve as plain values."""
    return {
        "condition": condition,
        "not_repeated": incident.not_repeated,
        "is_kept_run": incident.is_kept_run,
        **msgspec.structs.asdict(curve),
        "points": [
            {**msgspec.structs.asdict(one), "time": incident.time_of(one.seq)}
            for one in curve.points
        ],
        "jumps": [
            {
                **msgspec.structs.asdict(one),
                "time": incident.time_of(one.seq),
                "event": texts.get(one.seq, ""),
            }
            for one in curve.jumps
        ],
    }


def print_curve(
    curve: "LikelihoodCurve", incident: "Incident", condition: str, texts: Mapping[int, str]
) -> None:
    """Print a curve, and the events at which it jumps."""
    from rich.bar import Bar
    from rich.table import Table

    if incident.is_kept_run:
        typer.echo(_KEPT_RUN)
    if incident.not_repeated is not None:
        typer.echo(_not_repeated(incident.not_repeated))
        typer.echo("all futures are runs of this version: they do not show how likely it was then")
    table = Table("after event", "time", "likely", "95 %", "", title=f"how likely: {condition}")
    for one in curve.points:
        table.add_row(
            str(one.seq),
            incident.time_of(one.seq),
            f"{one.likelihood:.0%}",
            _limits(one),
            Bar(1.0, 0.0, one.likelihood, width=_BAR),
        )
    print_table(table)
    for jump in curve.jumps:
        where = f"event {jump.seq}"
        if not jump.is_exact:
            where = f"events {jump.after_seq + 1} to {jump.seq}"
        chance = "" if jump.is_clear else ", may be chance"
        verb = "rises" if jump.after > jump.before else "falls"
        typer.echo(
            f"{verb} from {jump.before:.0%} to {jump.after:.0%} at {where} "
            f"({incident.time_of(jump.seq)}{chance}): {texts.get(jump.seq, '')}"
        )
    if curve.was_interrupted:
        tried = f"{len(curve.points)} of at least {curve.moments} moments"
        typer.echo(f"interrupted: only {tried} were tried, so the event of a change may be missing")
    elif not curve.jumps:
        typer.echo("it does not change by 10 % or more anywhere")
    failed = sum(one.failed for one in curve.points)
    if failed:
        typer.echo(f"{failed} futures ended with an error of the controller's code")
    end = ", interrupted" if curve.was_interrupted else ""
    rate = curve.futures / max(curve.seconds, 0.001) * 60
    typer.echo(
        f"{curve.futures} futures from {len(curve.points)} moments in {curve.seconds:.1f} s "
        f"({rate:.0f} a minute){end}, seed {curve.seed}"
    )


def _limits(point: "Point") -> str:
    return f"{point.low:.0%} to {point.high:.0%}"
