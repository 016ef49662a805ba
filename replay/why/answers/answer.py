"""From a history to an answer."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct, field

from replay.times import iso_time
from replay.why.answers.absent import about_absent
from replay.why.answers.broker import about_broker
from replay.why.answers.finding import Reply
from replay.why.answers.partition import about_partition
from replay.why.answers.reassignment import about_reassignment
from replay.why.answers.replica import about_replica
from replay.why.answers.term import about_term
from replay.why.answers.topic import about_topic
from replay.why.facts import AnyFact, Because, NoLeader, StateWritten
from replay.why.history import History
from replay.why.move import Move
from replay.why.place import log_of, number, plain_cause
from replay.why.words import sentence


class Candidate(Struct, frozen=True):
    """A replica that was looked at and not taken, and why."""

    broker: int
    why: str


class Link(Struct, frozen=True):
    """One thing in the chain of causes. `kind` is the fact's; `command` names the command in the
    log, "" where there is none of this log's own; `written_by` who wrote, "" if nothing was. `log`
    names the log of the event where several are read together."""

    seq: int
    time: str
    kind: str
    text: str
    epoch: int
    because: Because | None
    rule: str
    passed_over: list[Candidate]
    command: str
    written_by: str
    log: str = ""


class Answer(Struct, frozen=True):
    """What was asked, the line that answers it, and the chain of causes, newest first.

    `moves` are the reassignments of a partition, oldest first. Where several logs are read together
    `log` names the one that `seq` is an event of.
    """

    question: str
    answer: str
    seq: int
    time: str
    chain: list[Link]
    notes: list[str] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    log: str = ""


_About = Callable[[History], Reply]
_NAMES: Final = ("topic", "partition", "broker", "term")


def answer(history: History) -> Answer:
    """Answer what is asked about the subject."""
    question, about = _question(history)
    reply = about(history)
    chain = [_link(one) for one in reversed(reply.facts)]
    cluster = history.cluster
    return Answer(
        question,
        reply.first,
        number(cluster.seq),
        cluster.time,
        chain,
        history.notes,
        list(reply.moves),
        log_of(cluster.seq),
    )


def _question(history: History) -> tuple[str, _About]:
    subject = history.subject
    if subject.topic is not None and subject.partition is not None:
        name = f"{subject.topic}-{subject.partition}"
        if subject.is_reassignment:
            return f"Why does the reassignment of {name} stand as it does?", about_reassignment
        if history.view() is None:
            return f"Why is there no {name}?", about_absent
        if subject.broker is not None:
            return f"Why is broker {subject.broker} a replica of {name} as it is?", about_replica
        return f"Why is {name} as it is?", about_partition
    if subject.topic is not None:
        return f"Why is the topic {subject.topic} as it is?", about_topic
    if subject.broker is not None:
        return f"Why is broker {subject.broker} as it is?", about_broker
    if subject.term is not None:
        return f"Why did term {subject.term} begin and end?", about_term
    return "Who is controller, and why?", about_term


def _link(fact: AnyFact) -> Link:
    passed_over = fact.passed_over if isinstance(fact, (StateWritten, NoLeader)) else ()
    chosen = fact.after.leader if isinstance(fact, StateWritten) else None
    return Link(
        number(fact.seq),
        iso_time(fact.wall_ns),
        str(fact.__struct_config__.tag),
        sentence(fact),
        fact.epoch,
        plain_cause(fact.because),
        getattr(fact, "rule", ""),
        [Candidate(broker, why) for broker, why in passed_over if broker != chosen],
        getattr(fact, "command", ""),
        getattr(fact, "writer", ""),
        log_of(fact.seq),
    )
