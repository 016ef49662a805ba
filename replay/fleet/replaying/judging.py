"""How far a version agrees with a log: with what its daemon recorded, or with Kafka's controllers.

A version that follows a daemon's log decides what is recorded: the digests of all commands are
equal. Only from where it leaves the log are decisions compared by what they say, as `refold diff`
does it, the log in the place of its base. A version that follows the log stands for it, if there is
one: it knows what the log does not hold, large commands and the controller events behind all.
"""

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from msgspec import Struct, field

from controller.core import znodes
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from replay.diff.contents import compared
from replay.diff.grouping import (
    Divergence,
    alike,
    divergences,
    first_difference,
    id_of,
    roots,
    signature,
)
from replay.diff.matching import match
from replay.diff.messages import Decision, Disagreement, FoldLog
from replay.diff.processes import Answered
from replay.errors import ReplayError
from replay.fleet.replaying.recorded import Recorded, Unknown, recorded_decisions

_WHAT: Final = {"differs": "changed", "missing": "missing", "extra": "new"}
"""The verdicts of `refold agree` in the words of `refold diff`."""

_NAMES: Final = {"base": "log", "head": "version"}
_SIDES: Final = re.compile(r"^(base|head)\b")

Fold = Callable[[FoldLog], Answered]
"""Folds the log by a version. Raises DiffError."""


class Difference(Struct, frozen=True):
    """A part of a decision in the log and in the version; None: that one has no such part."""

    part: str
    recorded: str | None
    version: str | None


class Found(Struct, frozen=True):
    """A divergence, as results.DIVERGENCES has it. `first_seq` and `first_rule` are of the one that
    it follows from: its own where it stands for itself. `counted_rule` is the rule of Judged under
    which it is counted."""

    subject: str
    what: str
    kind: str
    target: str
    rule: str
    seq: int
    time_ns: int
    event: str
    cause: str
    partitions: tuple[str, ...]
    differences: tuple[Difference, ...]
    details: tuple[str, ...]
    is_first: bool
    first_seq: int
    first_rule: str
    group: str
    counted_rule: str
    is_harmless: bool = False
    explained: str = ""
    zxid: int = 0


class Judged(Struct):
    """What a version's fold of a log came to. `decided` has by rule how many decisions the log
    has, and `differing` how many of these the version does not make, or otherwise; `is_told`:
    whether the version tells that. `unjudged` are decisions of the version beside such of the log
    that nobody knows."""

    events: int
    decided: Counter[str]
    differing: Counter[str] = field(default_factory=Counter)
    is_told: bool = True
    left_at: int = 0
    unjudged: int = 0
    divergences: list[Found] = field(default_factory=list)

    @property
    def decisions(self) -> int:
        """How many the log has."""
        return self.decided.total()

    @property
    def agreed(self) -> int | None:
        """How many of them the version makes, too; None where it does not tell."""
        return self.decisions - self.differing.total() if self.is_told else None

    @property
    def follows(self) -> bool:
        """Whether the version issues what the log has, to its end."""
        return self.left_at == 0 and self.agreed == self.decisions and not self.divergences


def judge(log: str, reader: LogReader, fold: Fold, others: Sequence[Fold]) -> Judged:
    """Fold the log and judge; `others` are the folds of other versions. Raises ReplayError,
    LogError."""
    answered = fold(FoldLog(log))
    if reader.header.kind != "recorded":
        return _beside(reader, answered)
    return _Judging(log, reader, fold, others).judge(answered)


class _Follower(NamedTuple):
    fold: Fold
    decisions: list[Decision]


class _Judging:
    """A daemon's log and one version."""

    def __init__(self, log: str, reader: LogReader, fold: Fold, others: Sequence[Fold]) -> None:
        self._log = log
        self._reader = reader
        self._fold = fold
        self._others = others
        self._last_seq = reader.last_seq
        self._stored_until = self._last_seq if reader.closing is not None else _last_cause(reader)
        self._end_ns = _time_of(reader, self._last_seq)

    def judge(self, answered: Answered) -> Judged:
        """`answered` is what it says of the log without contents."""
        left_at = 0 if self._follows(answered) else answered.folded.left_at
        begin = left_at or self._last_seq + 1
        if self._reader.closing is None:
            begin = min(begin, self._stored_until)
        events = self._last_seq - self._reader.header.first_seq + 1
        followed = (one.rule for one in self._within(answered, 0) if one.seq < begin)
        judged = Judged(events, Counter(followed), left_at=left_at)
        if begin <= self._last_seq:
            self._compare(judged, answered, begin)
        return judged

    def _follows(self, answered: Answered) -> bool:
        """Whether it follows the log to its end, and only goes on there with what is under way."""
        if answered.folded.left_at != self._last_seq:
            return answered.folded.left_at == 0
        logged = recorded_decisions(self._reader, self._last_seq, {})
        last = _without(self._within(answered, self._last_seq), logged.unknown)
        stored = [one.key for one in logged.decisions]
        return [one.key for one in last[: len(stored)]] == stored

    def _compare(self, judged: Judged, answered: Answered, begin: int) -> None:
        head = self._within(answered, begin)
        follower = self._follower(begin)
        if follower is None:
            logged = recorded_decisions(self._reader, begin, {one.seq: one.cause for one in head})
        else:
            logged = Recorded(self._stored(follower.decisions), [])
        base, unknown = logged.decisions, logged.unknown
        digests = {one.digest for one in unknown}
        same = {one.key: one.rule for one in head if one.key in digests}
        judged.decided.update(one.rule for one in base)
        judged.decided.update(same.values())
        if self._is_same(base, _without(head, unknown)):
            return
        request = FoldLog(self._log, with_contents=True, known=b"".join(alike(base, head)))
        if follower is not None:
            base = self._stored(self._within(follower.fold(request), begin))
        of_version = self._within(self._fold(request), begin)
        head = _without(of_version, unknown)
        judged.unjudged = len(of_version) - len(head) - len(same)
        found = [one for one in divergences(base, head) if not self._is_unstored(one)]
        judged.differing.update(_differing(base, head, found))
        judged.divergences = list(_found(found))

    def _follower(self, begin: int) -> _Follower | None:
        """A version that follows the log to its end: it knows what was decided, and upon what."""
        for fold in self._others:
            try:
                answered = fold(FoldLog(self._log))
            except ReplayError:
                continue
            if self._follows(answered):
                return _Follower(fold, self._within(answered, begin))
        return None

    def _stored(self, decisions: list[Decision]) -> list[Decision]:
        """Without what a daemon that was killed decided at the end, and had not stored."""
        if self._reader.closing is not None:
            return decisions
        logged = recorded_decisions(self._reader, self._stored_until, {})
        keys = {one.key for one in logged.decisions} | {one.digest for one in logged.unknown}
        return [one for one in decisions if one.seq < self._stored_until or one.key in keys]

    def _within(self, answered: Answered, begin: int) -> list[Decision]:
        """From an event on, without what a version decides behind the end of the log."""
        turns = sys.maxsize
        if answered.folded.left_at == self._last_seq:
            turns = self._last_seq
        return [
            one
            for one in answered.decisions
            if one.seq >= begin
            and one.turn <= turns
            and (one.seq < self._last_seq or one.time_ns <= self._end_ns)
        ]

    def _is_unstored(self, one: Divergence) -> bool:
        return one.what == "new" and one.seq >= self._stored_until

    def _is_same(self, base: Sequence[Decision], head: Sequence[Decision]) -> bool:
        rest = head[len(base) :]
        return first_difference(base, head[: len(base)]) is None and all(
            one.seq >= self._stored_until for one in rest
        )


def _last_cause(reader: LogReader) -> int:
    """From there on the log may lack commands: its daemon was killed, or runs."""
    last = 0
    for command in reader.commands():
        last = command.cause
    return last


def _time_of(reader: LogReader, seq: int) -> int:
    found = next(reader.events(EventFilter(first_seq=seq, last_seq=seq)), None)
    return 0 if found is None else found.wall_ns


def _without(decisions: Sequence[Decision], unknown: Sequence[Unknown]) -> list[Decision]:
    """Those of which the log says what was decided."""
    of_seq: dict[int, list[Unknown]] = defaultdict(list)
    digests = set()
    for one in unknown:
        of_seq[one.seq].append(one)
        digests.add(one.digest)
    return [
        one
        for one in decisions
        if one.key not in digests and not any(each.may_be(one) for each in of_seq[one.seq])
    ]


def _differing(
    base: Sequence[Decision], head: Sequence[Decision], found: Iterable[Divergence]
) -> Iterator[str]:
    """The rules of recorded decisions that the version does not make, or otherwise."""
    matched = match(base, head)
    ours = [base[place] for place in matched.base_only]
    theirs = [head[place] for place in matched.head_only]
    otherwise = {id(one.base): one.base for one in compared(ours, theirs) if one.base is not None}
    yield from (one.rule for one in otherwise.values())
    for one in found:
        if one.what == "reordered" and not one.is_harmless:
            yield one.base_rule
        if any(each.part == "time" for each in one.differences):
            yield one.base_rule


def _found(divergences: Iterable[Divergence]) -> Iterator[Found]:
    for root in roots(divergences):
        for one in (root.first, *root.followers):
            yield Found(
                subject="decision",
                what=one.what,
                kind=one.kind,
                target=one.target,
                rule=one.rule,
                seq=one.seq,
                time_ns=one.time_ns,
                event=one.event,
                cause=one.cause,
                partitions=one.partitions,
                differences=tuple(
                    Difference(each.part, each.base, each.head) for each in one.differences
                ),
                details=tuple(map(_in_words, one.details)),
                is_first=one is root.first,
                first_seq=root.first.seq,
                first_rule=root.first.rule,
                group=id_of(signature(one)),
                counted_rule=one.base_rule or one.head_rule,
                is_harmless=one.is_harmless,
            )


def _in_words(detail: str) -> str:
    """The base is the log here, and the head the version."""
    return _SIDES.sub(lambda found: f"the {_NAMES[found[0]]}", detail)


# Beside a stock cluster's controllers -------------------------------------------------------------


def _beside(reader: LogReader, answered: Answered) -> Judged:
    told = answered.folded.agreed
    if told is None:
        decided = Counter(one.rule for one in answered.decisions)
        return Judged(answered.folded.events, decided, is_told=False)
    found = [_disagreement(one, _time_of(reader, one.seq)) for one in told.disagreements]
    decided = Counter({rule: decisions for rule, (decisions, _) in told.by_rule.items()})
    agreed = Counter({rule: count for rule, (_, count) in told.by_rule.items()})
    # A version of before tells sums only.
    decided[""] += told.decisions - decided.total()
    agreed[""] += told.agreed - agreed.total()
    return Judged(answered.folded.events, decided, decided - agreed, divergences=found)


def _disagreement(one: Disagreement, time_ns: int) -> Found:
    cause, _, rule = one.cause.partition(": ")
    what = _WHAT[one.verdict]
    states = [state for path in one.paths if (state := znodes.state_of(path)) is not None]
    return Found(
        subject=one.subject,
        what=what,
        kind=one.kind,
        target=", ".join(one.paths),
        rule=rule,
        seq=one.seq,
        time_ns=time_ns,
        event="",
        cause=cause,
        partitions=tuple(f"{topic}-{partition}" for topic, partition in states),
        differences=(),
        details=one.differences,
        is_first=True,
        first_seq=one.seq,
        first_rule=rule,
        group=id_of((one.subject, what, one.kind, rule)),
        counted_rule=rule,
        explained=one.explained,
        zxid=one.zxid,
    )
