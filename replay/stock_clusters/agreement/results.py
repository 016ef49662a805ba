"""What an agreement came to, for people and scripts."""

from bisect import insort
from collections import Counter
from collections.abc import Iterator, Mapping
from operator import attrgetter

from msgspec import Struct, field

from controller.core import znodes
from replay.stock_clusters.agreement.broker_requests.comparing import Difference
from replay.stock_clusters.agreement.broker_requests.told import Told
from replay.stock_clusters.agreement.conformance import Agreement
from replay.stock_clusters.agreement.explaining import RULES
from replay.stock_clusters.agreement.verdicts import VERDICTS, Judgement


class Explained(Struct):
    """Divergences that a rule explains: the zxids that they are at."""

    rule: str
    kafka_method: str
    zxids: list[int]


class Tally(Struct):
    """`decisions` are Kafka's: those that agree or differ, and those that the fold lacks."""

    decisions: int = 0
    agreed: int = 0
    differs: int = 0
    missing: int = 0
    extra: int = 0

    def add(self, verdict: str, count: int = 1) -> None:
        """Count something that was judged."""
        setattr(self, verdict, getattr(self, verdict) + count)
        self.decisions += 0 if verdict == "extra" else count

    def include(self, other: "Tally") -> None:
        """Count in what another one has."""
        for verdict in VERDICTS:
            self.add(verdict, getattr(other, verdict))

    @property
    def diverging(self) -> int:
        """What does not agree."""
        return self.differs + self.missing + self.extra


class Side(Tally):
    """Decisions, or requests to brokers. `warm` and `inputs` are not among them.

    `by_rule` has the rules by which the fold was deciding, "" where it was at nothing. Of requests
    `unjudged` are those of the fold that no log could have.
    """

    explained: list[Explained] = field(default_factory=list)
    warm: int = 0
    inputs: int = 0
    unjudged: int = 0
    by_kind: dict[str, Tally] = field(default_factory=dict)
    by_rule: dict[str, Tally] = field(default_factory=dict)

    @property
    def unexplained(self) -> int:
        """What does not agree, and no rule says why."""
        return self.diverging - sum(len(one.zxids) for one in self.explained)

    def count(self, kind: str, cause: str, verdict: str, count: int = 1) -> None:
        """Count in all, of its kind, and of the rule in what the fold was at."""
        if not count:
            return
        self.add(verdict, count)
        self.by_kind.setdefault(kind, Tally()).add(verdict, count)
        self.by_rule.setdefault(rule_in(cause), Tally()).add(verdict, count)

    def go_on_with(self, other: "Side") -> None:
        """Count in what comes behind; nothing of it is explained yet."""
        self.warm += other.warm
        self.inputs += other.inputs
        self.unjudged += other.unjudged
        self.include(other)
        for mine, theirs in ((self.by_kind, other.by_kind), (self.by_rule, other.by_rule)):
            for name, tally in theirs.items():
                mine.setdefault(name, Tally()).include(tally)

    def diverge(self, kind: str, cause: str, verdict: str) -> None:
        """Something of a kind that was counted as agreed, if Kafka did it, has another verdict."""
        if verdict != "extra" and kind != "input":
            self.count(kind, cause, "agreed", -1)
        self.count(kind, cause, verdict)


class Divergence(Struct, frozen=True):
    """Where the two do not agree. `subject` is "decision" or "request"; `differences` are sentences
    with both sides, `cause` is what the fold was at, `explained` the rule that explains it, "" if
    none. Of a request `seq` is the record by which both had sent it, `broker` is whom it was for,
    `paths` are its topics, or /brokers/ids where it only tells who is alive. `between` are the
    records between what the fold was at and Kafka's decision that are about the same znodes, or of
    the `controller`'s thread."""

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
    cause: str
    explained: str
    controller: int
    between: tuple[str, ...] = ()

    @property
    def batch_key(self) -> tuple[object, ...]:
        """Alike for all that is said at once: a request to several brokers. A decision is by
        itself."""
        if self.subject == "decision":
            return (self,)
        return (self.kind, self.since, self.paths)


class AgreementResult(Side):
    """The whole: decisions, and `requests` to brokers where a log has them.

    `damaged` has, by file of the source, how many of its lines or transactions could not be used,
    and by broker those lines that only a reading of all of them shows to be damaged;
    `passed_over` are those transactions that nobody has judged, as they stand where no server
    writes them, `missing_transactions` how many others are not there, at least: what a controller
    decided in them does not always show by the rest. `altered` are not as the server wrote them, or
    come again. `is_cut`: behind the last transaction there were more.
    """

    source: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    requests: Side = field(default_factory=Side)
    divergences: list[Divergence] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    damaged: dict[str, int] = field(default_factory=dict)
    passed_over: int = 0
    missing_transactions: int = 0
    altered: int = 0
    is_cut: bool = False

    @property
    def is_explained(self) -> bool:
        """Whether all that was judged agrees or is explained."""
        return not self.unexplained and not self.requests.unexplained

    @property
    def agrees(self) -> bool:
        """Whether all agrees or is explained, and nothing was passed over, changed, or is gone."""
        lacks = self.passed_over or self.missing_transactions or self.altered or self.is_cut
        return self.is_explained and not lacks

    def add_decision(self, one: Divergence) -> None:
        """Count in one more that does not agree."""
        self.count(one.kind, one.cause, one.verdict)
        insort(self.divergences, one, key=attrgetter("seq"))

    def go_on(self, other: "AgreementResult") -> None:
        """Count in the result of what comes behind in the log."""
        self.go_on_with(other)
        self.requests.go_on_with(other.requests)
        self.divergences += other.divergences
        self.notes += other.notes
        self.add_damage(other.damaged)
        for key, values in other.settings.items():
            known = [*self.settings.get(key, "").split(", "), *values.split(", ")]
            self.settings[key] = ", ".join(dict.fromkeys(one for one in known if one))

    def add_damage(self, damaged: Mapping[str, int]) -> None:
        """Count in lines and transactions, by file or broker."""
        self.damaged = dict(Counter(self.damaged) + Counter(damaged))

    def explain(self, one: Divergence) -> None:
        """Count in a divergence that its rule explains: it agrees so far, as the rule has it."""
        side: Side = self if one.subject == "decision" else self.requests
        side.diverge(one.kind, one.cause, one.verdict)
        by_rule = {each.rule: each for each in side.explained}
        if one.explained not in by_rule:
            rule = RULES[one.explained]
            by_rule[rule.name] = Explained(rule.name, rule.kafka_method, [])
            side.explained.append(by_rule[rule.name])
        by_rule[one.explained].zxids.append(one.zxid)
        insort(self.divergences, one, key=attrgetter("seq"))


def result_of(agreement: Agreement, source: str) -> AgreementResult:
    """The counts of a comparison, and its divergences in the order of the log."""
    result = AgreementResult(source=source)
    result.warm, result.inputs = agreement.warm, agreement.inputs
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
        result.notes.append(f"{count} requests to brokers cannot be read: left out")
    if agreement.unfit_lines:
        count = agreement.unfit_lines.total()
        result.notes.append(f"{count} lines of state-change.log are not Kafka's: left out")
    logs = (("request log", agreement.unreadable), ("state-change.log", agreement.unfit_lines))
    for log, counts in logs:
        result.add_damage({f"{log} of broker {one}": count for one, count in counts.items()})
    return result


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


def _of_requests(agreement: Agreement) -> Iterator[Divergence]:
    for epoch, term in agreement.requests.items():
        for one in term.differences:
            yield _of_request(one, epoch)


def _of_request(one: Difference, epoch: int) -> Divergence:
    told = one.told
    return Divergence(
        "request",
        one.what,
        told.kind,
        max(each.seq for each in (one.ours, one.theirs) if each is not None),
        told.since or told.seq,
        0,
        told.broker,
        epoch,
        _znodes_of(told),
        (one.text,),
        told.cause,
        "",
        told.controller,
    )


def _znodes_of(told: Told) -> tuple[str, ...]:
    """What a request is about."""
    topics = {one.topic for one in told.partitions or ()}
    return tuple(map(znodes.topic_path, sorted(topics))) or (znodes.BROKER_IDS,)


def rule_in(cause: str) -> str:
    """The rule in what the fold was at: the controller event, a colon, the rule."""
    return cause.partition(": ")[2]


def kinds_in_order(side: Side) -> list[tuple[str, Tally]]:
    """By how many there are."""
    sizes = Counter({kind: one.decisions + one.extra for kind, one in side.by_kind.items()})
    return [(kind, side.by_kind[kind]) for kind, _ in sizes.most_common()]
