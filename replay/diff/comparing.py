"""Folds logs with two versions: both at the same time, and several logs in parallel."""

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Final, Literal, NamedTuple, Self

from msgspec import Struct, field, structs

from replay.diff.consequences import consequences
from replay.diff.contents import partitions_of
from replay.diff.coverage import ChangeCoverage
from replay.diff.grouping import (
    RootDivergence,
    common_keys,
    divergences,
    first_difference,
    first_root,
    group_id,
    roots,
    signature,
)
from replay.diff.logs import NamedLog
from replay.diff.messages import Decision, FoldedLog, FoldLog, Hello
from replay.diff.nondeterminism import HASH_SEEDS, Nondeterminism, find_nondeterminism
from replay.diff.one_sided import OneSidedCondition
from replay.diff.processes import FoldResult, VersionProcess
from replay.diff.references import Version
from replay.diff.uncovered import UncoveredCode
from replay.errors import DiffError
from replay.names import partition_name, partition_named
from replay.progress import Progress

BASE: Final = "base"
HEAD: Final = "head"
PATIENCE_S: Final = 60.0
"""How long a version may stay at one event of a log."""
_SIDES: Final[tuple[Literal["base", "head"], ...]] = ("base", "head")


class Instance(Struct):
    """A first cause in a log, with its consequences. They are unknown if a version was only a
    shadow of the log's controller (`is_shadow`). `is_later`: another one comes first in the log,
    and this one may follow from it."""

    log: str
    root: RootDivergence
    consequences: list[str]
    is_shadow: bool = False
    is_later: bool = False


class LogResult(Struct):
    """The result for one log. `left_at` is the event at which base and head left it, 0: never.
    `nondeterminism` has the versions that do not agree with themselves."""

    log: str
    events: int = 0
    decisions: int = 0
    left_at: tuple[int, int] = (0, 0)
    assumptions: tuple[dict[str, int], dict[str, int]] = ({}, {})
    instances: list[Instance] = field(default_factory=list)
    nondeterminism: list[Nondeterminism] = field(default_factory=list)
    error: str = ""


class Group(Struct):
    """A difference that occurs in one or more logs. `accepted` is the reason if it is intended."""

    id: str
    signature: tuple[str, ...]
    instances: list[Instance] = field(default_factory=list)
    accepted: str = ""

    @property
    def first(self) -> Instance:
        """The instance that reports show: one that comes first in its log, if there is one."""
        return min(self.instances, key=lambda one: one.is_later)

    @property
    def is_later(self) -> bool:
        """Whether the difference comes after another one in each of its logs."""
        return all(one.is_later for one in self.instances)

    @property
    def first_logs(self) -> list[str]:
        """The logs in which no other difference comes before."""
        return list(dict.fromkeys(one.log for one in self.instances if not one.is_later))

    @property
    def is_harmless(self) -> bool:
        """Whether no broker or client can observe the difference."""
        return self.first.root.first.is_harmless

    @property
    def logs(self) -> list[str]:
        """The logs that have the difference."""
        return list(dict.fromkeys(one.log for one in self.instances))

    @property
    def partitions(self) -> list[tuple[str, str]]:
        """All affected partitions, each with its log."""
        found = [(one.log, name) for one in self.instances for name in one.root.partitions]
        return list(dict.fromkeys(found))


class Side(Struct):
    """A version: the given reference, and what the version reports about itself."""

    reference: str
    code_version: str
    core_fingerprint: str


class Comparison(Struct):
    """The result of a diff. `unused` are entries of the accepted changes that match nothing.

    `uncovered` is the changed code that no log executes, `one_sided` are changed conditions that
    are executed with one outcome only, and `undistinguished` is the changed code that only logs
    without a difference execute. `unmeasured` says why these are not known.
    """

    base: Side
    head: Side
    logs: list[LogResult]
    groups: list[Group]
    unused: list[str] = field(default_factory=list)
    uncovered: list[UncoveredCode] = field(default_factory=list)
    one_sided: list[OneSidedCondition] = field(default_factory=list)
    undistinguished: list[UncoveredCode] = field(default_factory=list)
    unmeasured: list[str] = field(default_factory=list)

    @property
    def errors(self) -> list[str]:
        """The errors of logs that a version could not fold."""
        return [one.error for one in self.logs if one.error]

    @property
    def nondeterminism(self) -> list[Nondeterminism]:
        """The versions that do not agree with themselves, for each log."""
        return [one for result in self.logs for one in result.nondeterminism]

    def unaccepted(self, *, with_harmless: bool = False) -> list[Group]:
        """The groups that are not accepted."""
        return [
            one
            for one in self.groups
            if not one.accepted and (with_harmless or not one.is_harmless)
        ]


def compare(
    logs: Sequence[NamedLog],
    base: Version,
    head: Version,
    settings: Mapping[str, str],
    progress: Progress,
    jobs: int | None = None,
    cache: Path | None = None,
    patience_s: float = PATIENCE_S,
) -> Comparison:
    """Compare two versions on all logs. The result of a log that cannot be folded has the error.

    Each log is folded by four processes. `jobs` is the number of all processes, by default the
    number of cores. `cache` is the folder that stores which lines a log executes. A version that
    stays at one event for `patience_s` is stopped. Raises DiffError if a version does not start.
    """
    teams = (jobs or len(os.sched_getaffinity(0))) // (len(_SIDES) * len(HASH_SEEDS))
    teams = max(1, min(teams, len(logs)))
    with _Pool(base, head, teams, settings, cache, patience_s) as pool:
        sides = [
            Side(version.reference, hello.code_version, hello.core_fingerprint)
            for version, hello in zip((base, head), pool.hellos, strict=True)
        ]
        results = pool.compare_all(logs, settings, _TotalProgress(len(logs), progress))
    coverage = pool.coverage
    found = Comparison(sides[0], sides[1], results, _sorted_groups(results))
    found.unmeasured = coverage.unmeasured([one.log for one in results if one.error])
    if not found.errors:
        found.uncovered, found.one_sided = coverage.uncovered(), coverage.one_sided()
        differing = {one.log for one in results if one.instances}
        found.undistinguished = coverage.undistinguished(differing)
    return found


def _sorted_groups(results: Sequence[LogResult]) -> list[Group]:
    """The groups, sorted: first those that come first in a log, by the number of these logs, then
    those that come after them, and harmless ones last."""
    groups: dict[tuple[str, ...], Group] = {}
    for result in results:
        for one in result.instances:
            parts = signature(one.root.first)
            groups.setdefault(parts, Group(group_id(parts), parts)).instances.append(one)
    return sorted(
        groups.values(),
        key=lambda one: (one.is_harmless, one.is_later, -len(one.first_logs), -len(one.logs)),
    )


class _Team:
    """The processes that fold a log together: two of each version, with different hash seeds."""

    def __init__(self, base: Version, head: Version, patience_s: float) -> None:
        """Start all processes at the same time. Raises DiffError."""

        def start(version: Version, seed: int) -> Future[VersionProcess]:
            return starts.submit(VersionProcess, version, hash_seed=seed, patience_s=patience_s)

        with ThreadPoolExecutor(len(_SIDES) * len(HASH_SEEDS)) as starts:
            started = [start(one, seed) for seed in HASH_SEEDS for one in (base, head)]
        self._opened = [one.result() for one in started if one.exception() is None]
        failed = next((one for one in started if one.exception() is not None), None)
        if failed is not None:
            self.close()
            failed.result()
        self.base, self.head, self.base_again, self.head_again = self._opened

    def close(self) -> None:
        for one in self._opened:
            one.close()


class _TotalProgress:
    """Progress over all logs. The total does not include logs that no version has begun."""

    def __init__(self, logs: int, progress: Progress) -> None:
        self._logs = logs
        self._progress = progress
        self._lock = Lock()
        self._events: dict[tuple[str, str], tuple[int, int]] = {}

    def callback_for(self, log: str, side: str) -> Progress:
        """The callback for one version on one log."""

        def report(what: str, done: int, total: int | None) -> None:
            with self._lock:
                self._events[log, side] = done, total or done
                begun = len({name for name, _ in self._events})
                in_all = [sum(column) for column in zip(*self._events.values(), strict=True)]
                self._progress(f"log {begun} of {self._logs}: {log}", *in_all)

        return report


class _Pool:
    """Teams of processes, each of which folds one log at a time. A context manager."""

    def __init__(
        self,
        base: Version,
        head: Version,
        teams: int,
        settings: Mapping[str, str],
        cache: Path | None,
        patience_s: float,
    ) -> None:
        self._new_team = partial(_Team, base, head, patience_s)
        self._free: SimpleQueue[_Team | None] = SimpleQueue()
        first = self._new_team()
        self.hellos: tuple[Hello, Hello] = (first.base.hello, first.head.hello)
        self._free.put(first)
        for _ in range(teams - 1):
            self._free.put(None)
        self._threads = ThreadPoolExecutor(teams, thread_name_prefix="diff")
        folds = teams * len(_SIDES) * len(HASH_SEEDS)
        self._folds = ThreadPoolExecutor(folds, thread_name_prefix="fold")
        self._opened = [first]
        try:
            self.coverage = ChangeCoverage(
                list(zip((base, head), self.hellos, strict=True)), settings, cache
            )
        except DiffError:
            self.__exit__()
            raise

    def compare_all(
        self, logs: Sequence[NamedLog], settings: Mapping[str, str], in_all: _TotalProgress
    ) -> list[LogResult]:
        """The results in the order of the logs."""
        compared = [self._threads.submit(self._compare, log, settings, in_all) for log in logs]
        return [one.result() for one in compared]

    def _compare(
        self, log: NamedLog, settings: Mapping[str, str], in_all: _TotalProgress
    ) -> LogResult:
        team = self._free.get()
        try:
            if team is None:
                team = self._new_team()
                self._opened.append(team)
            return self._result(team, log, settings, in_all)
        except DiffError as error:
            # After an error the processes are not used again.
            if team is not None:
                team.close()
            team = None
            return LogResult(log.name, error=str(error))
        finally:
            self._free.put(team)

    def _result(
        self, team: _Team, log: NamedLog, settings: Mapping[str, str], in_all: _TotalProgress
    ) -> LogResult:
        request = FoldLog(str(log.path), settings=dict(settings))
        measured = self.coverage.sides_to_measure(log)
        base_request, head_request = (
            structs.replace(
                request,
                with_executed=side in measured,
                conditions=self.coverage.conditions(side),
            )
            for side in _SIDES
        )
        folds = [
            _Fold(team.base, BASE, base_request),
            _Fold(team.head, HEAD, head_request),
            _Fold(team.base_again, f"{BASE} again", request),
            _Fold(team.head_again, f"{HEAD} again", request),
        ]
        base, head, *again = self._fold_in_parallel(log, folds, in_all)
        for side, one in zip(_SIDES, (base, head), strict=True):
            self.coverage.add_outcomes(side, one.folded)
            if side in measured:
                self.coverage.add(side, log, one.folded)
        result = LogResult(log.name, base.folded.events, len(base.decisions))
        for side, one, other in zip(_SIDES, (base, head), again, strict=True):
            found = find_nondeterminism(side, log.name, one.decisions, other.decisions)
            result.nondeterminism += [found] if found is not None else []
        since = first_difference(base.decisions, head.decisions)
        if since is not None:
            # The fold of an imported log is held to its controllers: no difference follows from
            # another one.
            is_held = _is_shadow(base, head)
            request = structs.replace(request, with_contents=True, since=since)
            base, head = self._fold_with_contents(team, log, request, in_all, (base, head))
            result.instances = _instances(log, base, head, is_held=is_held)
        result.left_at = (base.folded.left_at, head.folded.left_at)
        result.assumptions = (base.folded.assumptions, head.folded.assumptions)
        return result

    def _fold_with_contents(
        self,
        team: _Team,
        log: NamedLog,
        request: FoldLog,
        in_all: _TotalProgress,
        found: tuple[FoldResult, FoldResult],
    ) -> tuple[FoldResult, FoldResult]:
        """Fold again with contents, and a third time if the differences affect partitions other
        than those whose states only one version writes."""

        def fold_both(fold: FoldLog) -> tuple[FoldResult, FoldResult]:
            folds = [_Fold(team.base, BASE, fold), _Fold(team.head, HEAD, fold)]
            base, head = self._fold_in_parallel(log, folds, in_all)
            return base, head

        known = b"".join(common_keys(found[0].decisions, found[1].decisions))
        followed = _differently_written_partitions(found[0].decisions, found[1].decisions)
        request = structs.replace(request, known=known, partitions=_partitions_of_names(followed))
        base, head = fold_both(request)
        all_roots = roots(divergences(base.decisions, head.decisions))
        touched = {name for one in all_roots if one.may_matter for name in one.partitions}
        if not _is_shadow(base, head) and not touched <= followed:
            base, head = fold_both(
                structs.replace(request, partitions=_partitions_of_names(touched))
            )
        return base, head

    def _fold_in_parallel(
        self, log: NamedLog, folds: Sequence["_Fold"], in_all: _TotalProgress
    ) -> list[FoldResult]:
        """Fold with several processes at the same time. Raises DiffError."""
        started = [
            self._folds.submit(
                one.process.fold, one.request, in_all.callback_for(log.name, one.name)
            )
            for one in folds
        ]
        # Wait for all, because the processes are closed after an error.
        failures = [error for one in started if (error := one.exception()) is not None]
        if failures:
            # The path of a packed log is in a temporary folder.
            text = str(failures[0]).replace(folds[0].request.log, log.name)
            raise DiffError(text) from None
        return [_with_effect(one.result()) for one in started]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for team in self._opened:
            team.close()
        self._folds.shutdown()


class _Fold(NamedTuple):
    """One process with its request, and a name for the progress."""

    process: VersionProcess
    name: str
    request: FoldLog


def _with_effect(found: FoldResult) -> FoldResult:
    """Leave out fenced writes. A version that writes one by one stops at the first of them."""
    decisions = [one for one in found.decisions if not one.is_fenced]
    return FoldResult(decisions, found.folded)


def _differently_written_partitions(base: Sequence[Decision], head: Sequence[Decision]) -> set[str]:
    """The partitions whose states only one of the versions writes, or at another event."""
    of_base = {(one.key, one.seq): one for one in base}
    of_head = {(one.key, one.seq): one for one in head}
    alone = [
        one
        for key, one in (*of_base.items(), *of_head.items())
        if (key in of_base) != (key in of_head)
    ]
    return {name for one in alone for name in partitions_of(one)}


def _partitions_of_names(names: Iterable[str]) -> tuple[tuple[str, int], ...]:
    return tuple(map(partition_named, sorted(names)))


def _instances(
    log: NamedLog, base: FoldResult, head: FoldResult, *, is_held: bool
) -> list[Instance]:
    """The first causes in a log, with their consequences. Only one of them comes first, unless the
    versions are held to the log."""
    found = roots(divergences(base.decisions, head.decisions))
    first = first_root(found)
    return [
        Instance(
            log.name,
            one,
            _consequences(one, base.folded, head.folded),
            is_shadow=_is_shadow(base, head),
            is_later=not (is_held or one is first or one.first.is_harmless),
        )
        for one in found
    ]


def _is_shadow(base: FoldResult, head: FoldResult) -> bool:
    """Whether a version was only a shadow of an imported log's controllers."""
    return base.folded.is_shadow or head.folded.is_shadow


def _consequences(root: RootDivergence, base: FoldedLog, head: FoldedLog) -> list[str]:
    names = set(root.partitions)
    return consequences(_restrict_to(base, names), _restrict_to(head, names))


def _restrict_to(folded: FoldedLog, names: set[str]) -> FoldedLog:
    timelines = [
        one for one in folded.timelines if partition_name(one.topic, one.partition) in names
    ]
    return FoldedLog(folded.events, folded.end_ns, timelines=timelines)
