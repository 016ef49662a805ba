"""The point of no return: how likely a bad outcome was from each moment of an incident.

First moments all along the incident, and next to each cause, are tried; then moments between two of
which the likelihood differs, until the event is found at which it changes.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from itertools import pairwise
from math import sqrt
from typing import Final

from msgspec import Struct, field

from replay.progress import Progress, unreported
from replay.what_if.branches import FutureRange, Futures, run_branch
from replay.what_if.changes import ChangedIncident
from replay.what_if.conditions import Condition, PartitionCondition, had_unclean_election
from replay.what_if.incident import Incident
from replay.what_if.starting import Continuation, certain_until, continuation_after
from replay.worker_processes import worker_pool

_HORIZON_MS: Final = 10_000
"""How long a future lasts after the end of the log."""

_FUTURES_OF_A_BRANCH: Final = 5
_WAITING: Final = 2
"""How many branches wait for each worker."""

_STEP: Final = 0.1
"""A change of the likelihood between two moments that is looked into."""

_REFINED_MAX: Final = 60
"""At most this many moments are added."""

_POLL_S: Final = 0.2
_Z: Final = 1.96
"""The quantile of a confidence of 95 %."""


class Point(Struct, frozen=True):
    """The futures after event `seq`, which happened at `at_ms`: how likely the bad outcome is, and
    the limits of that with a confidence of 95 % (Wilson)."""

    seq: int
    at_ms: int
    futures: int
    bad: int
    failed: int
    likelihood: float
    low: float
    high: float


class Jump(Struct, frozen=True):
    """The likelihood changes from `before` to `after` at event `seq`. `is_clear`: the two limits of
    confidence do not overlap. `is_exact`: `after_seq` is the event directly before."""

    after_seq: int
    seq: int
    at_ms: int
    before: float
    after: float
    is_clear: bool
    is_exact: bool


class LikelihoodCurve(Struct):
    """The points so far, by event, and the jumps, the largest rise first. `runs`: how many of the
    futures were run; those with equal causes are run once. `moments`: how many moments were to be
    tried, which are more than the points if the search was interrupted."""

    seed: int
    points: list[Point] = field(default_factory=list)
    jumps: list[Jump] = field(default_factory=list)
    futures: int = 0
    runs: int = 0
    moments: int = 0
    seconds: float = 0.0
    was_interrupted: bool = False


class Search(Struct, frozen=True):
    """The size of a search: `branches` futures from each of about `moments` moments."""

    condition: Condition
    branches: int
    moments: int
    seed: int
    workers: int


def point_of_no_return(
    incident: Incident, changed: ChangedIncident, search: Search, progress: Progress = unreported
) -> LikelihoodCurve:
    """Find where the likelihood of a bad outcome changes. `changed` has the causes and settings
    that all futures begin with. Raises ReplayError if a worker process ends."""
    searching = _CurveSearch(incident, changed, search, progress)
    began = time.monotonic()
    try:
        with _workers(search.workers) as pool:
            searching.search(pool)
    except KeyboardInterrupt:
        searching.curve.was_interrupted = True
    searching.finish()
    searching.curve.seconds = round(time.monotonic() - began, 3)
    return searching.curve


_Run = Callable[[FutureRange], "Future[Futures]"]


@contextmanager
def _workers(workers: int) -> Iterator[_Run]:
    """Runs branches in worker processes, which end with the block."""
    if workers == 1:
        yield _run_here
        return
    with worker_pool(workers) as pool:
        yield lambda branch: pool.submit(run_branch, branch)


def _run_here(branch: FutureRange) -> "Future[Futures]":
    done: Future[Futures] = Future()
    done.set_result(run_branch(branch))
    return done


class _CurveSearch:
    def __init__(
        self, incident: Incident, changed: ChangedIncident, search: Search, progress: Progress
    ) -> None:
        self.curve = LikelihoodCurve(search.seed)
        self._incident = incident
        self._changed = changed
        self._search = search
        self._progress = progress
        self._end_ms = max(incident.end_ms + _HORIZON_MS, changed.end_ms)
        self._seqs = [
            seq
            for seq, at_ms in incident.times.items()
            if seq >= changed.begin and at_ms <= max(incident.end_ms, incident.times[changed.begin])
        ]
        self._places = {seq: place for place, seq in enumerate(self._seqs)}
        self._found: dict[int, Futures] = {}
        self._expected = 0

    def search(self, run: _Run) -> None:
        """Run the futures of all moments."""
        self._try(run, self._first_moments())
        for _ in range(_REFINED_MAX):
            between = self._between()
            if not between:
                return
            self._try(run, between)

    def finish(self) -> None:
        """Note the points and jumps."""
        done = {seq: one for seq, one in self._found.items() if one.futures}
        self.curve.points = [self._point(seq, done[seq]) for seq in sorted(done)]
        self.curve.futures = sum(one.futures for one in done.values())
        self.curve.runs = sum(one.runs for one in done.values())
        points = self.curve.points
        jumps = [
            self._jump(one, other)
            for one, other in pairwise(points)
            if abs(other.likelihood - one.likelihood) >= _STEP
        ]
        self.curve.jumps = sorted(jumps, key=lambda one: one.before - one.after)

    # Moments

    def _first_moments(self) -> list[int]:
        """Before and after each cause, if these are not too many, and evenly in between."""
        seqs, moments = self._seqs, self._search.moments
        near: dict[int, None] = {}
        for cause in self._changed.causes:
            place = self._places.get(cause.seq)
            if place is not None:
                near.update(dict.fromkeys(seqs[max(0, place - 1) : place + 1]))
        of_causes = _evenly(sorted(near), moments)
        chosen = {seqs[0], seqs[-1], *of_causes, *_evenly(seqs, max(2, moments - len(of_causes)))}
        return sorted(chosen)

    def _between(self) -> list[int]:
        """Moments halfway between two of which the likelihood differs."""
        known = sorted(self._found)
        found: list[int] = []
        for one, other in pairwise(known):
            first, last = self._places[one], self._places[other]
            change = self._share(other) - self._share(one)
            if abs(change) >= _STEP and last - first > 1:
                found.append(self._seqs[(first + last) // 2])
        return found

    def _share(self, seq: int) -> float:
        found = self._found[seq]
        return found.bad / found.futures if found.futures else 0.0

    # Futures

    def _try(self, run: _Run, seqs: Sequence[int]) -> None:
        branches = self._branches(seqs)
        self._expected += len(seqs) * self._search.branches
        self.curve.moments += len(seqs)
        pending: dict[Future[Futures], int] = {}
        is_over = False
        while pending or not is_over:
            while not is_over and len(pending) < _WAITING * self._search.workers:
                branch = next(branches, None)
                is_over = branch is None
                if branch is not None:
                    pending[run(branch)] = branch.seq
            done, _ = wait(pending, timeout=_POLL_S, return_when=FIRST_COMPLETED)
            for one in done:
                seq = pending.pop(one)
                self._found[seq] = self._found.get(seq, Futures()) + one.result()
            futures = sum(one.futures for one in self._found.values())
            self._progress("running futures", futures, self._expected)

    def _branches(self, seqs: Sequence[int]) -> Iterator[FutureRange]:
        search = self._search
        for seq in seqs:
            if self._is_decided(seq):
                self._found[seq] = Futures(search.branches, search.branches)
                continue
            continuation = self._continuation(seq)
            at_ms = self._incident.times[seq] + continuation.shift_ms
            for first in range(0, search.branches, _FUTURES_OF_A_BRANCH):
                futures = min(_FUTURES_OF_A_BRANCH, search.branches - first)
                yield FutureRange(
                    seq, at_ms, continuation, search.condition, search.seed, first, futures
                )

    def _continuation(self, seq: int) -> Continuation:
        incident, changed = self._incident, self._changed
        begin = seq if changed.is_unchanged else changed.begin
        found = continuation_after(incident, begin, changed.causes, changed.settings, self._end_ms)
        # The log does not have the changes: the states after them are those of a continuation.
        return found if begin == seq else certain_until(found, seq, incident.times[seq])

    def _is_decided(self, seq: int) -> bool:
        """Whether the log shows up to an event what cannot be undone: lost records. With changes,
        the log is only what happened before them. A simulated incident is run from its beginning
        in each future."""
        if self._incident.scenario is not None:
            return False
        condition = self._search.condition
        if not isinstance(condition, PartitionCondition) or condition.what != "lost":
            return False
        last = seq if self._changed.is_unchanged else min(seq, self._changed.begin)
        until = [one for one in self._incident.history.changes if one.seq <= last]
        return had_unclean_election(until, (condition.topic, condition.partition))

    # The result

    def _point(self, seq: int, found: Futures) -> Point:
        share = found.bad / found.futures
        low, high = _limits(found.bad, found.futures)
        at_ms = self._incident.times[seq]
        return Point(seq, at_ms, found.futures, found.bad, found.failed, share, low, high)

    def _jump(self, one: Point, other: Point) -> Jump:
        place = self._places[one.seq] + 1
        is_exact = self._seqs[place] == other.seq
        is_clear = one.high < other.low or other.high < one.low
        return Jump(
            one.seq,
            other.seq,
            other.at_ms,
            one.likelihood,
            other.likelihood,
            is_clear,
            is_exact,
        )


def _evenly(of: Sequence[int], count: int) -> list[int]:
    """At most `count` of a sequence, evenly spread."""
    if len(of) <= count:
        return list(of)
    return [of[place * (len(of) - 1) // (count - 1)] for place in range(count)]


def _limits(bad: int, futures: int) -> tuple[float, float]:
    """The Wilson score interval."""
    share, z2 = bad / futures, _Z * _Z
    middle = (share + z2 / (2 * futures)) / (1 + z2 / futures)
    width = _Z * sqrt(share * (1 - share) / futures + z2 / (4 * futures**2)) / (1 + z2 / futures)
    # Without the error of the calculation: none of no futures is exactly 0.
    return max(0.0, round(middle - width, 6)), min(1.0, round(middle + width, 6))
