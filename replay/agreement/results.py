"""The result of a comparison, for people and scripts."""

from bisect import insort
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from operator import attrgetter
from typing import Final, Self

from msgspec import Struct, field
from msgspec.structs import replace

from controller.core import znodes
from replay.agreement.broker_requests.comparing import RequestDivergence
from replay.agreement.broker_requests.sent_request import SentRequest
from replay.agreement.cause import FoldCause
from replay.agreement.conformance_result import ConformanceResult
from replay.agreement.decisions.judgements import VERDICTS, Judgement
from replay.agreement.kraft_terms import KraftTerm, add_terms
from replay.agreement.logs.log_ends import DamagedPart, TruncatedLog

_NOTES_MAX: Final = 5


class ExcusingRule(Struct, frozen=True):
    """A reason why the fold may decide differently from Kafka without being wrong.

    `kafka_method` is where Kafka leaves the decision open; see docs/agreement-rules.md.
    """

    name: str
    kafka_method: str
    text: str


EITHER_ORDER: Final = ExcusingRule(
    "either-order",
    "ControllerEventManager.put",
    "Two controller events were queued at the same time and no log shows which was processed"
    " first; in the other order the fold decides as Kafka did.",
)

RULES: Final = {one.name: one for one in (EITHER_ORDER,)}


class ExplainedDivergences(Struct):
    """The divergences that a rule explains, by their zxids."""

    rule: str
    kafka_method: str
    zxids: list[int]


class DecisionTally(Struct):
    """`decisions` are Kafka's: the sum of `agreed`, `differs` and `missing`."""

    decisions: int = 0
    agreed: int = 0
    differs: int = 0
    missing: int = 0
    extra: int = 0

    def add(self, verdict: str, count: int = 1) -> None:
        """Add to the count of a verdict."""
        setattr(self, verdict, getattr(self, verdict) + count)
        self.decisions += 0 if verdict == "extra" else count

    def include(self, other: "DecisionTally") -> None:
        """Add the counts of another tally."""
        for verdict in VERDICTS:
            self.add(verdict, getattr(other, verdict))

    @property
    def diverging(self) -> int:
        """The number of divergences."""
        return self.differs + self.missing + self.extra


class DetailedTally(DecisionTally):
    """Decisions, or requests to brokers. They do not include `warm` and `inputs`.

    `by_rule` has the rules that the fold was applying, "" if it was idle. `unjudged` are those that
    no log confirms or refutes.
    """

    explained: list[ExplainedDivergences] = field(default_factory=list)
    warm: int = 0
    inputs: int = 0
    unjudged: int = 0
    by_kind: dict[str, DecisionTally] = field(default_factory=dict)
    by_rule: dict[str, DecisionTally] = field(default_factory=dict)

    @property
    def unexplained(self) -> int:
        """The number of divergences that no rule explains."""
        return self.diverging - sum(len(one.zxids) for one in self.explained)

    def count(self, kind: str, cause: FoldCause, verdict: str, count: int = 1) -> None:
        """Add to the counts of a verdict: in total, by kind, and by the rule of `cause`."""
        if not count:
            return
        self.add(verdict, count)
        self.by_kind.setdefault(kind, DecisionTally()).add(verdict, count)
        self.by_rule.setdefault(cause.rule, DecisionTally()).add(verdict, count)

    def add_explained(self, other: ExplainedDivergences) -> None:
        """Add the zxids that a rule explains."""
        for mine in self.explained:
            if mine.rule == other.rule:
                mine.zxids += other.zxids
                return
        self.explained.append(replace(other, zxids=[*other.zxids]))

    def add_counts(self, other: "DetailedTally") -> None:
        """Add the counts of another range, or of other decisions."""
        self.warm += other.warm
        self.inputs += other.inputs
        self.unjudged += other.unjudged
        self.include(other)
        for tallies, others in ((self.by_kind, other.by_kind), (self.by_rule, other.by_rule)):
            for name, tally in others.items():
                tallies.setdefault(name, DecisionTally()).include(tally)
        for one in other.explained:
            self.add_explained(one)

    def diverge(self, kind: str, cause: FoldCause, verdict: str) -> None:
        """Change the verdict on one item that was counted as agreed, or add an extra one."""
        if verdict != "extra" and kind != "input":
            self.count(kind, cause, "agreed", -1)
        self.count(kind, cause, verdict)


class Divergence(Struct, frozen=True):
    """A decision or a request to a broker (`subject`) on which Kafka and the fold do not agree.

    Each of `differences` is a sentence with both sides. `cause` is the controller event and the
    rule that the fold was processing, `explained` the rule that explains the divergence, "" if
    none. For a request, `seq` is the record by which both had sent it, `broker` is the receiver,
    and `paths` are its topics, or /brokers/ids if it only lists live brokers. `between` are records
    from `since` to `seq` that concern the same znodes, or come from the `controller`'s thread.
    """

    subject: str
    verdict: str
    kind: str
    seq: int
    since: int
    zxid: int
    broker: int
    epoch: int
    paths: tuple[str, ...]
    differences: tuple[str, ...]
    cause: FoldCause
    explained: str
    controller: int
    between: tuple[str, ...] = ()

    @property
    def batch_key(self) -> tuple[object, ...]:
        """A key that all requests of one batch to several brokers share. Each decision has its
        own."""
        if self.subject == "decision":
            return (self,)
        return (self.kind, self.since, self.paths)


class AgreementResult(DetailedTally):
    """The whole result: decisions, and `requests` to brokers if a log has them.

    `damaged` counts the lines or transactions that cannot be used, by file of the source, or by
    broker if only the content shows the damage. `passed_over` is the number of transactions that
    are out of order and therefore not judged. `missing_transactions` is the least number of
    missing ones; decisions in them do not always show by the rest. `altered` transactions are not
    as the server wrote them, or are repeated. `undecided` are divergences that later evidence could
    still explain. `is_cut`: the source has no end; there may be more
    decisions than it shows. `cut_logs` are brokers' logs whose end is missing.
    `damaged_parts` are lines of brokers' logs that cannot be parsed. `kraft_terms` are terms of
    KRaft controllers, which are not judged.
    """

    source: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    requests: DetailedTally = field(default_factory=DetailedTally)
    divergences: list[Divergence] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    damaged: dict[str, int] = field(default_factory=dict)
    passed_over: int = 0
    missing_transactions: int = 0
    altered: int = 0
    undecided: int = 0
    is_cut: bool = False
    cut_logs: list[TruncatedLog] = field(default_factory=list)
    damaged_parts: list[DamagedPart] = field(default_factory=list)
    kraft_terms: list[KraftTerm] = field(default_factory=list)

    @property
    def unjudged_decisions(self) -> int:
        """The number of decisions that neither agree nor differ, without undecided ones."""
        return self.unjudged

    @property
    def is_explained(self) -> bool:
        """Whether everything that was judged agrees or is explained."""
        return not self.unexplained and not self.requests.unexplained

    @property
    def is_whole(self) -> bool:
        """Whether all decisions and requests were judged, and the source is complete."""
        unjudged = self.warm or self.unjudged or self.requests.unjudged or self.undecided
        is_judged = bool(self.decisions) and not (unjudged or self.kraft_terms)
        return is_judged and not self._lacks

    @property
    def _lacks(self) -> bool:
        """Whether a part of the source is missing, or cannot be used."""
        is_cut = self.is_cut or self.cut_logs
        return bool(is_cut or self.passed_over or self.missing_transactions or self.damaged)

    @property
    def agrees(self) -> bool:
        """Whether everything agrees or is explained, and the source is complete and unaltered."""
        return self.is_explained and not (self._lacks or self.altered)

    def copy(self) -> Self:
        """A copy to which the next range can be added without changing this result."""
        return deepcopy(self)

    def add_decision(self, one: Divergence) -> None:
        """Add a divergence."""
        self.count(one.kind, one.cause, one.verdict)
        insort(self.divergences, one, key=attrgetter("seq"))

    def add_range(self, other: "AgreementResult") -> None:
        """Add the result of the next range of the log."""
        self.add_counts(other)
        self.requests.add_counts(other.requests)
        self.divergences += other.divergences
        self.notes += other.notes
        self.add_damage(other.damaged)
        self.undecided += other.undecided
        self.is_cut |= other.is_cut
        self.cut_logs += other.cut_logs
        self.damaged_parts += other.damaged_parts
        add_terms(self.kraft_terms, other.kraft_terms)
        for key, values in other.settings.items():
            known = [*self.settings.get(key, "").split(", "), *values.split(", ")]
            self.settings[key] = ", ".join(dict.fromkeys(one for one in known if one))

    def add_damage(self, damaged: Mapping[str, int]) -> None:
        """Add counts of damaged lines and transactions, by file or broker."""
        self.damaged = dict(Counter(self.damaged) + Counter(damaged))

    def explain(self, one: Divergence) -> None:
        """Add a divergence that a rule explains; so far it is counted as agreed."""
        side: DetailedTally = self if one.subject == "decision" else self.requests
        side.diverge(one.kind, one.cause, one.verdict)
        by_rule = {each.rule: each for each in side.explained}
        if one.explained not in by_rule:
            rule = RULES[one.explained]
            by_rule[rule.name] = ExplainedDivergences(rule.name, rule.kafka_method, [])
            side.explained.append(by_rule[rule.name])
        by_rule[one.explained].zxids.append(one.zxid)
        insort(self.divergences, one, key=attrgetter("seq"))


def result_of(agreement: ConformanceResult, source: str) -> AgreementResult:
    """The counts of a check, and its divergences in the order of the log."""
    result = AgreementResult(source=source)
    result.warm, result.inputs = agreement.warm, agreement.inputs
    result.is_cut, result.cut_logs = agreement.is_cut, agreement.cut_logs
    result.damaged_parts, result.kraft_terms = agreement.damaged_parts, agreement.kraft_terms
    result.undecided = len(agreement.undecided)
    result.notes += _undecided_notes(agreement.undecided)
    for one in agreement.judgements:
        if not (one.is_input and one.verdict == "agreed"):
            result.count(one.kind, one.cause, one.verdict)
    for term in agreement.requests.values():
        for (kind, cause), tally in term.by_cause.items():
            for verdict in VERDICTS:
                result.requests.count(kind, cause, verdict, getattr(tally, verdict))
            result.requests.unjudged += tally.unjudged
    diverging = [one for one in agreement.judgements if one.verdict != "agreed"]
    result.divergences = sorted(
        [*map(_of_decision, diverging), *_of_requests(agreement)], key=lambda one: one.seq
    )
    if agreement.unreadable:
        count = agreement.unreadable.total()
        result.notes.append(f"{count} requests to brokers cannot be read and are left out")
    if agreement.malformed_lines:
        count = agreement.malformed_lines.total()
        result.notes.append(
            f"{count} lines of state-change.log are not in Kafka's form and are left out"
        )
    logs = (("request log", agreement.unreadable), ("state-change.log", agreement.malformed_lines))
    for log, counts in logs:
        result.add_damage({f"{log} of broker {one}": count for one, count in counts.items()})
    return result


def _undecided_notes(undecided: Sequence[Judgement]) -> Iterator[str]:
    for one in undecided[:_NOTES_MAX]:
        yield (
            f"undecided: {one.kind} at {one.seq}, broker {one.broker} epoch {one.epoch}:"
            f" {' '.join(one.paths)}: only refold has decided this when the log ends; a longer log"
            " shows whether the controller decides the same"
        )
    if len(undecided) > _NOTES_MAX:
        yield f"undecided: {len(undecided) - _NOTES_MAX} more decisions"


def _of_decision(one: Judgement) -> Divergence:
    return Divergence(
        "decision",
        one.verdict,
        one.kind,
        one.seq,
        one.since or one.seq,
        one.zxid,
        one.broker,
        one.epoch,
        one.paths,
        one.differences,
        one.cause,
        "",
        one.broker,
    )


def _of_requests(agreement: ConformanceResult) -> Iterator[Divergence]:
    for epoch, term in agreement.requests.items():
        for one in term.differences:
            yield _of_request(one, epoch)


def _of_request(one: RequestDivergence, epoch: int) -> Divergence:
    request = one.request
    return Divergence(
        "request",
        one.what,
        request.kind,
        max(each.seq for each in (one.refold, one.stock) if each is not None),
        request.since or request.seq,
        0,
        request.broker,
        epoch,
        _znodes_of(request),
        (one.text,),
        request.cause,
        "",
        request.controller,
    )


def _znodes_of(request: SentRequest) -> tuple[str, ...]:
    """The znodes that a request is about."""
    topics = {one.topic for one in request.partitions or ()}
    return tuple(map(znodes.topic_path, sorted(topics))) or (znodes.BROKER_IDS,)


def kinds_in_order(side: DetailedTally) -> list[tuple[str, DecisionTally]]:
    """The counts by kind, the most frequent first."""
    sizes = Counter({kind: one.decisions + one.extra for kind, one in side.by_kind.items()})
    return [(kind, side.by_kind[kind]) for kind, _ in sizes.most_common()]
