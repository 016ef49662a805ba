"""The checks and the coverage of an exploration, and the gaps, in words."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol, get_args

from controller.core.triggers import AclChange, ApiCall, Trigger
from controller.core.values import counted
from replay.explore.acts_of_code import ACTS
from replay.explore.coverage import (
    ELECTIONS,
    ISR_PROPOSALS,
    PARTITION_TRANSITIONS,
    REFUSALS,
    REPLICA_TRANSITIONS,
    Coverage,
)
from replay.explore.inputs_in_words import input_in_words
from replay.explore.invariants.catalogue import ALWAYS, RECOVERY
from replay.explore.invariants.invariant import Violation
from replay.explore.kafka_0_8.losses import KNOWN_FLAWS
from replay.explore.run import ENDS, NO_EXCEPTION, names_of
from replay.world.inputs import Input
from replay.world.kafka_0_8.networked.inputs import Input08

_NOT_SIMULATED: Final = (
    "what the simulation does not have: an authorizer (AclChange), Kafka's wire protocol, TLS and "
    "SASL, quotas, transactions, several listeners, racks, tiered storage"
)
_IMPOSSIBLE: Final = (ApiCall, AclChange)
"""A request is no procedure, and without an authorizer no ACLs change."""


def invariant_names() -> list[str]:
    """The names of all invariants."""
    return names_of((*ALWAYS, *RECOVERY))


def not_checked(coverage: Coverage) -> list[str]:
    """The invariants, inputs, procedures and acts that runs did not check or reach, as clauses."""
    found: list[str] = []
    by_count: dict[int, list[str]] = {}
    for name, count in coverage.not_checked.items():
        by_count.setdefault(count, []).append(name)
    for count, names in sorted(by_count.items()):
        found.append(
            f"{', '.join(sorted(names))} in {count} of {coverage.runs} runs, which ended without a"
            " refold as controller, or too early"
        )
    missing = [name for name in input_kinds() if name not in coverage.inputs]
    if missing:
        found.append(f"inputs that no run had: {', '.join(missing)}")
    unreached = [name for name in procedures() if name not in coverage.procedures]
    if unreached:
        found.append(f"procedures that no run had: {', '.join(unreached)}")
    unelected = [one for one in ELECTIONS if one not in coverage.elections]
    if unelected:
        found.append(f"elections that no run had: {', '.join(unelected)}")
    unproposed = [one for one in ISR_PROPOSALS if one not in coverage.isr_proposals]
    if unproposed:
        found.append(f"ISRs that no leader asked for: {', '.join(unproposed)}")
    unrefused = [one for one in REFUSALS.values() if one not in coverage.refused_writes]
    if unrefused:
        found.append(f"reasons for which no write failed: {', '.join(unrefused)}")
    unpassed = [one for one in ACTS if one not in coverage.acts_passed]
    if unpassed:
        found.append(
            "writes and requests that no run had (of writes that are sent together, the first one "
            f"counts): {', '.join(unpassed)}"
        )
    return [*found, _NOT_SIMULATED]


def coverage_lines(coverage: Coverage) -> Iterator[str]:
    """The coverage of the runs, one line for each kind."""
    yield f"procedures: {_reached_procedures(coverage)}"
    yield _transitions(coverage)
    elections = (f"{coverage.elections.get(one, 0)} {one}" for one in ELECTIONS)
    yield f"elections of partitions: {', '.join(elections)}"
    proposals = (f"{coverage.isr_proposals.get(one, 0)} {one}" for one in ISR_PROPOSALS)
    yield f"ISRs that leaders asked for: {', '.join(proposals)}"
    refused = (f"{coverage.refused_writes.get(one, 0)} {one}" for one in REFUSALS.values())
    yield f"writes that were not done: {', '.join(refused)}"
    yield f"pairs of racing events: {len(coverage.racing)} kinds"
    passed, tried = coverage.acts_passed, coverage.acts_tried
    yield (
        f"crash points: tried {coverage.crash_points_tried} of the "
        f"{len(coverage.crash_points)} that runs passed, in {counted(len(coverage.crashes), 'way')}"
    )
    yield (
        f"writes and requests of the code: {len(ACTS)} kinds; runs passed "
        f"{sum(one in passed for one in ACTS)} and crashed at {sum(one in tried for one in ACTS)}"
    )


class Amounts(Protocol):
    """How much was run. `recovered`: the runs that ended with all invariants about recovery."""

    runs: int
    simulated_us: int
    events: int
    recovered: int


def checked_lines(
    coverage: Amounts,
    always: int = len(ALWAYS) + len((NO_EXCEPTION, ENDS)),
    recovery: int = len(RECOVERY),
    page: str = "docs/invariants.md",
) -> Iterator[str]:
    """How many invariants were checked, and when. `page` describes them."""
    yield f"checked after every step: {always} invariants ({page})"
    yield (
        f"checked after the last fault: {recovery} invariants, all of them in "
        f"{coverage.recovered} of {coverage.runs} runs"
    )


def amount_text(runs: int, seconds: float, workers: int, was_interrupted: bool) -> str:
    """How much was searched."""
    end = ", interrupted" if was_interrupted else ""
    return f"{counted(runs, 'run')} in {seconds:.1f} s with {counted(workers, 'worker')}{end}"


def rates(coverage: Amounts, seconds: float) -> str:
    """The simulated seconds and events per second of real time, in words."""
    seconds = max(seconds, 0.001)
    simulated = coverage.simulated_us / 1_000_000 / seconds
    events = coverage.events / seconds
    return (
        f"{coverage.runs / seconds:.1f} runs/s, {simulated:.0f} simulated s/s, "
        f"{events:.0f} folded events/s"
    )


def progress_lines(coverage: Coverage) -> Iterator[str]:
    """The coverage of the runs so far, in lines that fit a terminal of 80 columns."""
    yield f"procedures {_reached_procedures(coverage)}, racing pairs {len(coverage.racing)}"
    yield _transitions(coverage)
    yield (
        f"crash points tried {coverage.crash_points_tried} of the "
        f"{len(coverage.crash_points)} that runs passed"
    )


def _transitions(coverage: Coverage) -> str:
    of_partitions = len(coverage.partition_transitions)
    of_replicas = len(coverage.replica_transitions)
    return (
        f"transitions: partitions {of_partitions} of {PARTITION_TRANSITIONS}, "
        f"replicas {of_replicas} of {REPLICA_TRANSITIONS}"
    )


def _reached_procedures(coverage: Coverage) -> str:
    """The procedures that runs had. Requests are none."""
    reached = [name for name in procedures() if name in coverage.procedures]
    return f"{len(reached)} of {len(procedures())}"


def procedures() -> list[str]:
    """The names of the procedures that a run can have: controller events without a request."""
    return [one.__name__ for one in get_args(Trigger) if one not in _IMPOSSIBLE]


def input_kinds() -> list[str]:
    """The names of all kinds of inputs."""
    return [one.__name__ for one in get_args(Input)]


def violation_text(violation: Violation) -> str:
    """A violation, or a known flaw of the 0.8 design, in one line."""
    fails = "" if violation.invariant in KNOWN_FLAWS else " does not hold"
    at_s = violation.at_us / 1_000_000
    subject, text = violation.subject, violation.text
    return f"{violation.invariant}{fails} at {at_s:.3f} s: {subject}: {text}"


def shrunk_lines(
    inputs: Sequence[Input08], before: int, folder: Path | None, logs: Sequence[Path], uses: str
) -> Iterator[str]:
    """A run that had `before` inputs before it was shrunk, where it is saved, and the commands that
    open its logs."""
    yield f"shrunk from {before} to {counted(len(inputs), 'input')}:"
    for one in inputs:
        yield f"  {input_line(one)}"
    if folder is not None:
        yield f"saved in {folder}; run it again: refold explore --reproduce {folder}"
    for log in logs:
        yield f"a log for {uses}: {log}"


def input_line(one: Input08) -> str:
    """An input in one line, with its time."""
    return f"{one.at_ms / 1000:8.3f} s  {input_in_words(one)}"
