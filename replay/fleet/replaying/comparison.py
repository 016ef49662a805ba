"""Comparing the decisions of a version with a log: those that a daemon recorded, or those of
Kafka's controllers.

If a version follows a daemon's log, the digests of all commands are equal. Where it leaves the log,
the contents of decisions are compared as in `refold diff`, with the log as the base. Another
version that follows the log replaces the log in this comparison, if there is one: it knows what the
log does not contain, such as large commands and the controller events of all decisions.
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
from replay.diff.contents import pair_by_subject
from replay.diff.grouping import (
    DecisionDivergence,
    common_keys,
    divergences,
    first_difference,
    group_id,
    roots,
    signature,
)
from replay.diff.matching import match
from replay.diff.messages import Decision, Disagreement, FoldLog
from replay.diff.processes import FoldResult
from replay.errors import ReplayError
from replay.fleet.replaying.recorded_decisions import (
    RecordedDecisions,
    UnreadableCommand,
    recorded_decisions,
)
from replay.logs.recorded_fold import end_of_stored_commands
from replay.names import partition_name

_WHAT: Final = {"differs": "changed", "missing": "missing", "extra": "new"}
"""The verdicts of `refold agree` in terms of `refold diff`."""

_NAMES: Final = {"base": "log", "head": "version"}
_SIDES: Final = re.compile(r"^(base|head)\b")

Fold = Callable[[FoldLog], FoldResult]
"""Folds the log with a version. Raises DiffError."""


class VersionDifference(Struct, frozen=True):
    """A part of a decision in the log and in the version; None if one of them has no such part."""

    part: str
    recorded: str | None
    version: str | None


class FoundDivergence(Struct, frozen=True):
    """A divergence, with the fields of results.DIVERGENCES.

    `first_seq` and `first_rule` are those of the divergence that it follows from, or its own if it
    follows from none. `counted_rule` is the rule of `VersionReplay` under which it is counted.
    """

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
    differences: tuple[VersionDifference, ...]
    details: tuple[str, ...]
    is_first: bool
    first_seq: int
    first_rule: str
    group: str
    counted_rule: str
    is_harmless: bool = False
    explained: str = ""
    zxid: int = 0


class VersionReplay(Struct):
    """The result of folding a log with a version.

    `decided` has the number of the log's decisions by rule, `differing` how many of these the
    version does not make, or makes differently. `knows_agreement` is False for a version that
    cannot compare itself with a stock cluster. `unjudged` counts decisions of the version that
    correspond to decisions of the log with unknown content.
    """

    events: int
    decided: Counter[str]
    differing: Counter[str] = field(default_factory=Counter)
    knows_agreement: bool = True
    left_at: int = 0
    unjudged: int = 0
    divergences: list[FoundDivergence] = field(default_factory=list)

    @property
    def decisions(self) -> int:
        """The number of decisions in the log."""
        return self.decided.total()

    @property
    def agreed(self) -> int | None:
        """How many of them the version also makes; None if it does not know."""
        return self.decisions - self.differing.total() if self.knows_agreement else None

    @property
    def follows(self) -> bool:
        """Whether the version issues the commands of the log up to its end."""
        return self.left_at == 0 and self.agreed == self.decisions and not self.divergences


def compare_log(log: str, reader: LogReader, fold: Fold, others: Sequence[Fold]) -> VersionReplay:
    """Fold the log and compare. `others` fold the log with other versions. Raises ReplayError,
    LogError."""
    answered = fold(FoldLog(log))
    if reader.header.kind != "recorded":
        return _compare_with_stock_controllers(reader, answered)
    return _LogComparison(log, reader, fold, others).compare(answered)


class _FollowingVersion(NamedTuple):
    fold: Fold
    decisions: list[Decision]


class _LogComparison:
    """The comparison of a daemon's log with one version."""

    def __init__(self, log: str, reader: LogReader, fold: Fold, others: Sequence[Fold]) -> None:
        self._log = log
        self._reader = reader
        self._fold = fold
        self._others = others
        self._last_seq = reader.last_seq
        self._stored_until = end_of_stored_commands(reader)
        self._end_ns = _time_of(reader, self._last_seq)

    def compare(self, answered: FoldResult) -> VersionReplay:
        """Compare; `answered` is the version's fold of the log without contents."""
        left_at = 0 if self._follows(answered) else answered.folded.left_at
        begin = min(left_at or self._last_seq + 1, self._stored_until)
        events = self._last_seq - self._reader.header.first_seq + 1
        followed = (one.rule for one in self._decisions_from(answered, 0) if one.seq < begin)
        judged = VersionReplay(events, Counter(followed), left_at=left_at)
        if begin <= self._last_seq:
            self._compare(judged, answered, begin)
        return judged

    def _follows(self, answered: FoldResult) -> bool:
        """Whether a version follows the log to its end. After the end it may only continue work in
        progress, and issue the commands of the last event that a killed daemon did not store."""
        if answered.folded.left_at != self._last_seq:
            return answered.folded.left_at == 0
        logged = recorded_decisions(self._reader, self._last_seq, {})
        last = _known_decisions(self._decisions_from(answered, self._last_seq), logged.unknown)
        stored = [one.key for one in logged.decisions]
        decided = [one.key for one in last]
        if self._last_seq >= self._stored_until:
            decided = decided[: len(stored)]
        return decided == stored

    def _compare(self, judged: VersionReplay, answered: FoldResult, begin: int) -> None:
        head = self._decisions_from(answered, begin)
        follower = self._follower(begin)
        if follower is None:
            logged = recorded_decisions(self._reader, begin, {one.seq: one.cause for one in head})
        else:
            logged = RecordedDecisions(self._stored_decisions(follower.decisions), [])
        base, unknown = logged.decisions, logged.unknown
        digests = {one.digest for one in unknown}
        same = {one.key: one.rule for one in head if one.key in digests}
        judged.decided.update(one.rule for one in base)
        judged.decided.update(same.values())
        additions_from = self._additions_from(answered)
        if _is_same(base, _known_decisions(head, unknown), additions_from):
            return
        request = FoldLog(self._log, with_contents=True, known=b"".join(common_keys(base, head)))
        if follower is not None:
            base = self._stored_decisions(self._decisions_from(follower.fold(request), begin))
        decided_by_version = self._decisions_from(self._fold(request), begin)
        head = _known_decisions(decided_by_version, unknown)
        judged.unjudged = len(decided_by_version) - len(head) - len(same)
        found = [
            one for one in divergences(base, head) if one.what != "new" or one.seq < additions_from
        ]
        judged.differing.update(_differing_rules(base, head, found))
        judged.divergences = list(_found_divergences(found))

    def _follower(self, begin: int) -> _FollowingVersion | None:
        """A version that follows the log to its end: it knows all decisions and their causes."""
        for fold in self._others:
            try:
                answered = fold(FoldLog(self._log))
            except ReplayError:
                continue
            if self._follows(answered):
                return _FollowingVersion(fold, self._decisions_from(answered, begin))
        return None

    def _stored_decisions(self, decisions: list[Decision]) -> list[Decision]:
        """The decisions without those at the end that a killed daemon made but did not store."""
        logged = recorded_decisions(self._reader, self._stored_until, {})
        keys = {one.key for one in logged.decisions} | {one.digest for one in logged.unknown}
        return [one for one in decisions if one.seq < self._stored_until or one.key in keys]

    def _decisions_from(self, answered: FoldResult, begin: int) -> list[Decision]:
        """Decisions from an event on, without those that a version makes after the end of the
        log."""
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

    def _additions_from(self, answered: FoldResult) -> int:
        """The first event at which decisions of a version that the log lacks are no divergences.

        The daemon may not have stored them, or the version may have made them after the end of the
        log. A version that has left the log before receives the replies to its reads at once, so
        its decisions at the last event include the ones after the log's end.
        """
        if answered.folded.left_at == self._last_seq:
            return self._stored_until
        return min(self._last_seq, self._stored_until)


def _is_same(base: Sequence[Decision], head: Sequence[Decision], additions_from: int) -> bool:
    rest = head[len(base) :]
    return first_difference(base, head[: len(base)]) is None and all(
        one.seq >= additions_from for one in rest
    )


def _time_of(reader: LogReader, seq: int) -> int:
    found = next(reader.events(EventFilter(first_seq=seq, last_seq=seq)), None)
    return 0 if found is None else found.wall_ns


def _known_decisions(
    decisions: Sequence[Decision], unknown: Sequence[UnreadableCommand]
) -> list[Decision]:
    """The decisions whose recorded counterpart is known."""
    of_seq: dict[int, list[UnreadableCommand]] = defaultdict(list)
    digests = set()
    for one in unknown:
        of_seq[one.seq].append(one)
        digests.add(one.digest)
    return [
        one
        for one in decisions
        if one.key not in digests and not any(each.may_be(one) for each in of_seq[one.seq])
    ]


def _differing_rules(
    base: Sequence[Decision], head: Sequence[Decision], found: Iterable[DecisionDivergence]
) -> Iterator[str]:
    """The rules of recorded decisions that the version does not make, or makes differently."""
    matched = match(base, head)
    of_base = [base[place] for place in matched.base_only]
    of_head = [head[place] for place in matched.head_only]
    otherwise = {
        id(one.base): one.base for one in pair_by_subject(of_base, of_head) if one.base is not None
    }
    yield from (one.rule for one in otherwise.values())
    for one in found:
        if one.what == "reordered" and not one.is_harmless:
            yield one.base_rule
        if any(each.part == "time" for each in one.differences):
            yield one.base_rule


def _found_divergences(divergences: Iterable[DecisionDivergence]) -> Iterator[FoundDivergence]:
    for root in roots(divergences):
        for one in (root.first, *root.followers):
            yield FoundDivergence(
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
                    VersionDifference(each.part, each.base, each.head) for each in one.differences
                ),
                details=tuple(map(_name_sides, one.details)),
                is_first=one is root.first,
                first_seq=root.first.seq,
                first_rule=root.first.rule,
                group=group_id(signature(one)),
                counted_rule=one.base_rule or one.head_rule,
                is_harmless=one.is_harmless,
            )


def _name_sides(detail: str) -> str:
    """Replace "base" by the log and "head" by the version."""
    return _SIDES.sub(lambda found: f"the {_NAMES[found[0]]}", detail)


# Comparison with the controllers of a stock cluster ----------------------------------------------


def _compare_with_stock_controllers(reader: LogReader, answered: FoldResult) -> VersionReplay:
    agreement = answered.folded.agreed
    if agreement is None:
        decided = Counter(one.rule for one in answered.decisions)
        return VersionReplay(answered.folded.events, decided, knows_agreement=False)
    found = [_disagreement(one, _time_of(reader, one.seq)) for one in agreement.disagreements]
    decided = Counter({rule: decisions for rule, (decisions, _) in agreement.by_rule.items()})
    agreed = Counter({rule: count for rule, (_, count) in agreement.by_rule.items()})
    # Older versions report only totals.
    decided[""] += agreement.decisions - decided.total()
    agreed[""] += agreement.agreed - agreed.total()
    return VersionReplay(answered.folded.events, decided, decided - agreed, divergences=found)


def _disagreement(one: Disagreement, time_ns: int) -> FoundDivergence:
    event, rule = one.event_and_rule
    what = _WHAT[one.verdict]
    states = [state for path in one.paths if (state := znodes.partition_of_state(path)) is not None]
    return FoundDivergence(
        subject=one.subject,
        what=what,
        kind=one.kind,
        target=", ".join(one.paths),
        rule=rule,
        seq=one.seq,
        time_ns=time_ns,
        event="",
        cause=event,
        partitions=tuple(partition_name(topic, partition) for topic, partition in states),
        differences=(),
        details=one.differences,
        is_first=True,
        first_seq=one.seq,
        first_rule=rule,
        group=group_id((one.subject, what, one.kind, rule)),
        counted_rule=rule,
        explained=one.explained,
        zxid=one.zxid,
    )
