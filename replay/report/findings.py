"""The findings of a report, as sentences: each leads to a place in the time line."""

import shlex
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from controller.core.election import UNCLEAN_LEADER
from controller.core.values import counted
from replay.description.phrases import broker_list, capitalized, first_few
from replay.names import broker_name, find_broker, partition_named
from replay.report.document import Outage, ReportFinding, Severity
from replay.report.reading import ObservedDeviation, Procedure, Reading
from replay.subjects import ZnodeSubject, subject_of
from replay.times import iso_time, nanoseconds_of
from replay.why.event_reference import EventReference
from replay.why.explanations.finding import why_lost
from replay.why.explanations.unhealthy import unhealthy
from replay.why.facts import (
    AnyFact,
    BrokerChanged,
    IsrRequested,
    NoticeIssued,
    ReassignmentRequested,
    RoleChanged,
    StateWritten,
    WriteRefused,
)
from replay.why.sentences import sentence

_WORST_FIRST: Final[tuple[Severity, ...]] = ("bad", "warning", "info")
_BEGIN_WITH_NAMES: Final = (NoticeIssued, IsrRequested, ReassignmentRequested)
"""Sentences about these facts may begin with the name of a topic."""
_SHORT_S: Final = 1.0
"""A shorter time without a leader is part of every failover."""


def findings_of(
    reading: Reading, outages: Sequence[Outage], failovers: Sequence[Procedure]
) -> list[ReportFinding]:
    """The findings of a log."""
    found = [
        *_of_controller(reading),
        *_of_outages(reading, outages),
        *_of_facts(reading),
        *_of_replies(reading),
        *_of_deviations(reading),
        *_of_moves(reading),
        *_of_failovers(failovers),
        *_at_the_end(reading),
    ]
    return worst_first(found)


def worst_first(findings: Iterable[ReportFinding]) -> list[ReportFinding]:
    """Findings in their order: the worst first, then by time."""
    return sorted(findings, key=lambda one: (_WORST_FIRST.index(one.severity), one.begin_ns))


def _command(reading: Reading, question: str) -> str:
    return f"refold why {shlex.quote(reading.path)} {question}"


def _command_about(reading: Reading, subject: ZnodeSubject, seq: int) -> str:
    """The command that explains a partition or a broker at an event; "" for another subject."""
    if subject.partition is not None:
        return _command(reading, f"--partition {subject.names[-1]} --at {seq}")
    return (
        _command(reading, f"--broker {subject.broker} --at {seq}")
        if subject.broker is not None
        else ""
    )


def _of_controller(reading: Reading) -> Iterator[ReportFinding]:
    text = reading.history.headline()
    if text:
        failures = reading.history.failures()
        seq = failures[0].seq if failures else reading.last_seq
        begin_ns = failures[0].wall_ns if failures else reading.end_ns
        look_at = _command(reading, "--unhealthy")
        yield ReportFinding("controller", "bad", text, seq, begin_ns, reading.end_ns, (), look_at)


def _of_outages(reading: Reading, outages: Sequence[Outage]) -> Iterator[ReportFinding]:
    """The outages that began at the same event are one finding, those that last another one."""
    groups: dict[tuple[int, bool, bool], list[Outage]] = defaultdict(list)
    for one in outages:
        is_over = one.end_seq > 0
        groups[one.seq, one.seconds >= _SHORT_S or not is_over, is_over].append(one)
    for (seq, is_long, _), group in groups.items():
        longest = max(group, key=lambda one: one.seconds)
        names = tuple(sorted(one.partition for one in group))
        when = _when_offline(reading, group)
        text = f"{first_few(names, ', ')} {when}: {_why_offline(reading, longest)}."
        at = longest.end_seq or reading.last_seq
        look_at = _command(reading, f"--partition {longest.partition} --at {at}")
        severity: Severity = "bad" if is_long else "warning"
        yield ReportFinding(
            "offline", severity, text, seq, longest.begin_ns, longest.end_ns, names, look_at
        )


def _when_offline(reading: Reading, group: Sequence[Outage]) -> str:
    """How long the partitions were offline. A log that is followed does not grow during a quiet
    outage, so the text says since when."""
    outage = max(group, key=lambda one: one.seconds)
    is_one = len(group) == 1
    begin = f"event {outage.seq} ({iso_time(outage.begin_ns)})"
    took = f"{'' if is_one else 'up to '}{outage.seconds:.3f} s"
    was = "was" if is_one else "were"
    if outage.end_seq:
        first, last = (which(one.end_seq for one in group) for which in (min, max))
        end = f"event {last}" if first == last else f"events {first} to {last}"
        return f"{was} offline for {took}, from {begin} until {end}"
    if outage.end_ns == reading.end_ns:
        have = "has" if is_one else "have"
        return f"{have} been offline since {begin}, still at the last event, {took} later"
    return f"{was} offline from {begin} on; the log shows the cluster for {took} more"


def _why_offline(reading: Reading, outage: Outage) -> str:
    if outage.leader < 0:
        return "it had no leader"
    why = why_lost(reading.history, outage.leader, outage.seq)
    text = f"broker {outage.leader} was its leader"
    text += f", and {why}" if why else ", and was not registered"
    reported = _reported(reading, outage)
    return f"{text}; a watch had reported this at event {reported}" if reported else text


def _reported(reading: Reading, outage: Outage) -> int:
    """The event that showed the loss of the leader first: the cause that `refold what-if` names. 0
    if it is the one that began the outage."""
    place = bisect_left(reading.live, outage.seq, key=lambda one: one.seq)
    if place == len(reading.live) or reading.live[place].seq != outage.seq:
        return 0
    return reading.live[place].reported.get(outage.leader, 0)


_Repeated = dict[tuple[str, str, ZnodeSubject], list[AnyFact]]
"""The facts of a kind about a path, a code or a partition, and the subject."""


def _of_facts(reading: Reading) -> Iterator[ReportFinding]:
    repeated: _Repeated = defaultdict(list)
    for one in reading.history.facts:
        match one:
            case StateWritten(code=code, partition=name) if code == UNCLEAN_LEADER:
                look_at = _command(reading, f"--partition {name} --at {one.seq}")
                text = f"Unclean election, which can lose records: {sentence(one)}"
                yield _finding_at(one, "unclean election", "bad", text, (name,), look_at)
            case RoleChanged(code="failover_failed" | "resigned" as code, epoch=epoch):
                look_at = _command(reading, f"--term {epoch}") if epoch else ""
                severity: Severity = "bad" if code == "failover_failed" else "warning"
                yield _finding_at(one, code.replace("_", " "), severity, sentence(one), (), look_at)
            case BrokerChanged(broker=broker, what="gone" | "log directory failed"):
                look_at = _command(reading, f"--broker {broker} --at {one.seq}")
                yield _finding_at(
                    one, "broker lost", "warning", sentence(one), (broker_name(broker),), look_at
                )
            case WriteRefused(path=path):
                repeated["refused write", path, subject_of(path)].append(one)
            case (
                IsrRequested(partition=name, error=error)
                | ReassignmentRequested(partition=name, error=error)
            ) if error:
                topic, number = partition_named(name)
                about = ZnodeSubject("partition", topic=topic, partition=number)
                repeated["refused request", name, about].append(one)
            case NoticeIssued(code=code, level="warning" | "error"):
                repeated["notice", code, ZnodeSubject()].append(one)
            case _:
                pass
    for (kind, _, subject), facts in repeated.items():
        more = len(facts) - 1
        text = sentence(facts[0]) + (f" (and {counted(more, 'time')} more like it)" if more else "")
        names = tuple(subject.names[-1:])
        look_at = _command_about(reading, subject, facts[0].seq)
        yield _finding_at(facts[0], kind, "warning", text, names, look_at)


def _finding_at(
    fact: AnyFact,
    kind: str,
    severity: Severity,
    text: str,
    subjects: tuple[str, ...],
    look_at: str,
) -> ReportFinding:
    if not isinstance(fact, _BEGIN_WITH_NAMES):
        text = capitalized(text)
    text = text.removesuffix(".")
    text = f"{text}, at event {fact.seq} ({iso_time(fact.wall_ns)})."
    return ReportFinding(
        kind, severity, text, fact.seq, fact.wall_ns, fact.wall_ns, subjects, look_at
    )


def _of_replies(reading: Reading) -> Iterator[ReportFinding]:
    """Lost replies, and decisions that Kafka's rules do not derive."""
    lost = [one for one in reading.events if one.lost]
    if lost:
        first, last = lost[0], lost[-1]
        count = counted(sum(one.lost for one in lost), "operation")
        text = (
            f"The replies of ZooKeeper to {count} were lost, first at event {first.listed.seq} "
            f"({iso_time(first.wall_ns)})."
        )
        seq, begin_ns = first.listed.seq, first.wall_ns
        yield ReportFinding("lost reply", "warning", text, seq, begin_ns, last.wall_ns)
    odd = [one for one in reading.decisions if one.listed.verdict not in ("", "agreed")]
    if odd:
        one = odd[0]
        count = counted(len(odd), "decision")
        text = (
            f"{count} of the controller differ from Kafka's rules (refold agree), the first at "
            f"event {one.listed.seq} ({iso_time(one.wall_ns)}): {one.listed.text}."
        )
        look_at = f"refold agree {shlex.quote(reading.path)}"
        end_ns = odd[-1].wall_ns
        yield ReportFinding(
            "divergence", "bad", text, one.listed.seq, one.wall_ns, end_ns, (), look_at
        )


def _of_deviations(reading: Reading) -> Iterator[ReportFinding]:
    """The deviations from Kafka's rules that changed what was done, each once."""
    by_name: dict[str, list[ObservedDeviation]] = defaultdict(list)
    for one in reading.deviations:
        by_name[one.deviation.name].append(one)
    for name, several in by_name.items():
        first, last = several[0], several[-1]
        subjects = tuple(dict.fromkeys(one.subject for one in several if one.subject))
        about = f" ({first_few(subjects, ', ')})" if subjects else ""
        rule = first.deviation.rule.partition(". ")[0].removesuffix(".")
        text = (
            f"refold's deviation {name} from Kafka's rules changed what was done "
            f"{counted(len(several), 'time')}{about}, first at event {first.seq} "
            f"({iso_time(first.wall_ns)}). Its rule: {rule}."
        )
        look_at = _command_about(reading, _subject_named(first.subject), first.seq)
        yield ReportFinding(
            "deviation", "info", text, first.seq, first.wall_ns, last.wall_ns, subjects, look_at
        )


def _subject_named(name: str) -> ZnodeSubject:
    """The partition or the broker with this name; no subject for a topic or a znode."""
    broker = find_broker(name)
    if broker is not None:
        return ZnodeSubject("broker", broker=broker)
    try:
        topic, number = partition_named(name)
    except ValueError:
        return ZnodeSubject()
    return ZnodeSubject("partition", topic=topic, partition=number)


def _of_moves(reading: Reading) -> Iterator[ReportFinding]:
    for name, moves in reading.moves.items():
        for move in moves:
            begun: EventReference = move.begun or move.events[0].at
            begin_ns = nanoseconds_of(begun.time)
            end_ns = nanoseconds_of(move.ended.time) if move.ended else reading.end_ns
            goes = f"from {broker_list(move.origin)} to {broker_list(move.target)}"
            why = f": {move.cancelled.text}" if move.cancelled is not None else ""
            is_odd = move.outcome != "completed"
            text = (
                f"The reassignment of {name} {goes} is {move.outcome}{why}; begun at event "
                f"{begun.seq} ({begun.time}), {(end_ns - begin_ns) / 1e9:.3f} s."
            )
            look_at = _command(reading, f"--reassignment {name}")
            severity: Severity = "warning" if is_odd else "info"
            yield ReportFinding(
                "reassignment", severity, text, begun.seq, begin_ns, end_ns, (name,), look_at
            )


def _of_failovers(failovers: Sequence[Procedure]) -> Iterator[ReportFinding]:
    for one in failovers:
        if not one.end_ns:
            continue
        longest = max(one.steps, key=lambda step: (step.end_ns or step.begin_ns) - step.begin_ns)
        took = (one.end_ns - one.begin_ns) / 1e9
        part = (longest.end_ns - longest.begin_ns) / 1e9
        text = (
            f"A failover took {took:.3f} s, from event {one.seq} ({iso_time(one.begin_ns)}); its "
            f"longest step took {part:.3f} s: {longest.text}."
        )
        yield ReportFinding("failover", "info", text, one.seq, one.begin_ns, one.end_ns)


def _at_the_end(reading: Reading) -> Iterator[ReportFinding]:
    for group in unhealthy(reading.history):
        affects = f"; affects {first_few(group.affected, ', ')}" if group.affected else ""
        text = f"Not well at the end of the log: {group.cause}{affects}."
        look_at = _command(reading, "--unhealthy")
        yield ReportFinding(
            "at the end",
            "warning",
            text,
            reading.last_seq,
            reading.end_ns,
            reading.end_ns,
            tuple(group.affected),
            look_at,
        )
