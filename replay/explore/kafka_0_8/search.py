"""Searches for runs of the 0.8 design that break an invariant, and shrinks them."""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from replay.explore.kafka_0_8.acts import Act, carry_out, drawn, new_cluster, settle
from replay.explore.kafka_0_8.monitor import KNOWN_FLAWS, Monitor, Violation
from replay.explore.numbers import Numbers
from replay.world.kafka_0_8.cluster import Cluster08

_ACTS: Final = 30
_WARM_UP_MS: Final = 1500


class BrokenRun(Struct, frozen=True):
    """A shrunk run that breaks an invariant: its acts, in words and as data. `run` is its number in
    the search."""

    invariant: str
    text: str
    run: int
    story: list[str]
    acts: list[Act]


class Searched(Struct, frozen=True):
    """The result of a search. `flaws` has the first run for each known flaw, `flaw_runs` how many
    runs broke it; `violation` is a run that breaks another invariant."""

    seed: int
    runs: int
    events: int
    flaw_runs: dict[str, int]
    flaws: list[BrokenRun]
    violation: BrokenRun | None


def play(acts: Sequence[Act]) -> tuple[Cluster08, Violation | None]:
    """Play a run from the beginning to the settled cluster."""
    cluster = new_cluster()
    monitor = Monitor(cluster)
    try:
        cluster.start(*cluster.brokers)
        cluster.run(_WARM_UP_MS)
        for number, act in enumerate(acts):
            record = f"r{number}"
            request = carry_out(cluster, act, record)
            if request and act.number == -1:
                monitor.sends(request, (act.topic, 0), record)
        settle(cluster)
        monitor.check_end()
    except Violation as violation:
        return cluster, violation
    return cluster, None


def search(seed: int, goes_on: Callable[[int], bool]) -> Searched:
    """Play runs while `goes_on` with the number of runs so far, up to the first violation that is
    no known flaw."""
    flaw_runs: dict[str, int] = {}
    flaws: list[BrokenRun] = []
    runs = events = 0
    numbers = Numbers(seed)
    broken: BrokenRun | None = None
    while goes_on(runs):
        runs += 1
        acts = drawn(numbers, _ACTS)
        cluster, violation = play(acts)
        events += sum(len(run) for one in cluster.brokers.values() for run in one.runs)
        if violation is None:
            continue
        name = violation.invariant
        if name not in KNOWN_FLAWS:
            broken = shrunk(runs, acts, violation)
            break
        if name not in flaw_runs:
            flaws.append(shrunk(runs, acts, violation))
        flaw_runs[name] = flaw_runs.get(name, 0) + 1
    return Searched(seed, runs, events, flaw_runs, flaws, broken)


def shrunk(run: int, acts: Sequence[Act], violation: Violation) -> BrokenRun:
    """Leave out acts as long as the run still breaks the same invariant."""
    kept = list(acts)
    place = 0
    while place < len(kept):
        without = kept[:place] + kept[place + 1 :]
        _, still = play(without)
        if still is not None and still.invariant == violation.invariant:
            kept, violation = without, still
        else:
            place += 1
    story = list(map(str, kept))
    return BrokenRun(violation.invariant, violation.text, run, story, kept)
