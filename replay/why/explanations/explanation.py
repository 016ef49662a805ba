"""From a history to an explanation."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Final, overload

from msgspec import Struct, field

from replay.description.choices import Candidate, candidates
from replay.times import iso_time
from replay.why.event_reference import cause_of, log_of, number_in_log
from replay.why.explanations.broker import explain_broker
from replay.why.explanations.finding import Finding
from replay.why.explanations.partition import explain_partition
from replay.why.explanations.reassignment import explain_reassignment
from replay.why.explanations.replica import explain_replica
from replay.why.explanations.term import explain_term
from replay.why.explanations.topic import explain_absence, explain_topic
from replay.why.explanations.unhealthy import RootCause, explain_unhealthy, unhealthy
from replay.why.facts import AnyFact, Cause, NoLeader, StateWritten
from replay.why.history import FactHistory
from replay.why.move import Move
from replay.why.sentences import sentence

_SEQ: Final = attrgetter("seq")


class Link(Struct, frozen=True):
    """One link in the chain of causes. `kind` is that of the fact; `command` names the command in
    the log, "" if this log has none; `written_by` is the writer, "" if nothing was written. `log`
    names the log of the event if several are read together."""

    seq: int
    time: str
    kind: str
    text: str
    epoch: int
    because: Cause | None
    rule: str
    passed_over: list[Candidate]
    command: str
    written_by: str
    log: str = ""


class Chain(Sequence[Link]):
    """The links of the facts about a subject, newest first. A link is made when it is read: there
    may be 100,000 facts about a topic, of which few are shown."""

    def __init__(self, facts: Sequence[AnyFact]) -> None:
        """`facts` are in order, oldest first."""
        self._facts = facts

    def __len__(self) -> int:
        return len(self._facts)

    @overload
    def __getitem__(self, place: int) -> Link: ...
    @overload
    def __getitem__(self, place: slice) -> list[Link]: ...
    def __getitem__(self, place: int | slice) -> Link | list[Link]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        return _link(self._facts[~place])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    def places_of(self, log: str, seq: int) -> range:
        """The places of the links of an event, given by the name of its log and its number there.
        `log` is "" if only one log is read."""
        order = self._orders.get((log, seq), -1) if log else seq
        begin = bisect_left(self._facts, order, key=_SEQ)
        end = bisect_right(self._facts, order, key=_SEQ)
        return range(len(self) - end, len(self) - begin)

    @cached_property
    def _orders(self) -> dict[tuple[str, int], int]:
        """Where the events of several logs are in the order of all."""
        return {(log_of(one.seq), number_in_log(one.seq)): int(one.seq) for one in self._facts}


class Explanation(Struct, frozen=True):
    """The question, the line that answers it, and the chain of causes, newest first.

    `moves` are the reassignments of a partition, oldest first. If several logs are read together,
    `log` names the log of event `seq`. `unhealthy` is only for that question.
    """

    question: str
    answer: str
    seq: int
    time: str
    chain: Sequence[Link]
    notes: list[str] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    log: str = ""
    unhealthy: list[RootCause] = field(default_factory=list)


_Explain = Callable[[FactHistory], Finding]


def explanation_of(history: FactHistory) -> Explanation:
    """Answer the question about the subject of a history."""
    question, explain = _question(history)
    finding = explain(history)
    facts = [one for one in history.failures() if one not in finding.facts] + finding.facts
    chain = Chain(sorted(facts, key=_SEQ))
    cluster = history.cluster
    is_unhealthy = history.subject.is_unhealthy
    first = "" if is_unhealthy else history.headline()
    return Explanation(
        question,
        f"{first} {finding.summary}".strip(),
        number_in_log(cluster.seq),
        cluster.time,
        chain,
        history.notes,
        list(finding.moves),
        log_of(cluster.seq),
        unhealthy(history) if is_unhealthy else [],
    )


def _question(history: FactHistory) -> tuple[str, _Explain]:
    subject = history.subject
    if subject.topic is not None and subject.partition is not None:
        name = f"{subject.topic}-{subject.partition}"
        if subject.is_reassignment:
            return f"Why is the reassignment of {name} in its state?", explain_reassignment
        if history.view() is None:
            return f"Why does {name} not exist?", explain_absence
        if subject.broker is not None:
            question = f"Why is the replica of {name} on broker {subject.broker} in its state?"
            return question, explain_replica
        return f"Why is {name} in its state?", explain_partition
    if subject.topic is not None:
        return f"Why is the topic {subject.topic} in its state?", explain_topic
    if subject.broker is not None:
        return f"Why is broker {subject.broker} in its state?", explain_broker
    if subject.is_unhealthy:
        return "What is not well, and why?", explain_unhealthy
    if subject.term is not None:
        return f"Why did term {subject.term} begin and end?", explain_term
    return "Who is controller, and why?", explain_term


def _link(fact: AnyFact) -> Link:
    passed_over = fact.passed_over if isinstance(fact, (StateWritten, NoLeader)) else ()
    chosen = fact.after.leader if isinstance(fact, StateWritten) else None
    return Link(
        number_in_log(fact.seq),
        iso_time(fact.wall_ns),
        str(fact.__struct_config__.tag),
        sentence(fact),
        fact.epoch,
        cause_of(fact),
        getattr(fact, "rule", ""),
        candidates(passed_over, chosen),
        getattr(fact, "command", ""),
        getattr(fact, "writer", ""),
        log_of(fact.seq),
    )
