"""The lanes of controller terms, brokers, ZooKeeper sessions and reassignments."""

from collections import defaultdict
from collections.abc import Iterator, Set

from replay.description.phrases import broker_list, session_name
from replay.names import broker_name
from replay.report.document import Lane, Mark, Span
from replay.report.reading import Reading, RegisteredBrokers, SessionLifetime
from replay.times import nanoseconds_of
from replay.why.facts import (
    AnyFact,
    AssignmentWritten,
    BrokerChanged,
    NoticeIssued,
    RoleChanged,
    SessionChanged,
)
from replay.why.move import Move
from replay.why.sentences import sentence


def lanes_of(reading: Reading) -> Iterator[Lane]:
    """The lanes above those of the partitions."""
    yield _terms(reading)
    yield _procedures(reading)
    yield from _brokers(reading)
    yield from _sessions(reading)
    for moves in reading.moves.values():
        for move in moves:
            yield _move(move, reading)


def _terms(reading: Reading) -> Lane:
    spans: list[Span] = []
    marks: list[Mark] = []
    begun: tuple[int, str, str, int] | None = None

    def close(wall_ns: int) -> None:
        if begun is not None and wall_ns > begun[0]:
            spans.append(Span(begun[0], wall_ns, begun[1], begun[2], begun[3]))

    known = reading.initial.controller
    if known.epoch:
        text = f"{known.name}, epoch {known.epoch}"
        begun = (reading.begin_ns, "active", text, reading.first_seq)
    for one in reading.history.facts:
        if isinstance(one, RoleChanged):
            marks.append(Mark(one.wall_ns, one.code, sentence(one), one.seq))
            text = f"{one.who}, epoch {one.epoch}"
            if one.code == "elected":
                close(one.wall_ns)
                state = "failing over" if reading.is_recorded else "active"
                begun = (one.wall_ns, state, text, one.seq)
            elif one.code == "failover_done":
                close(one.wall_ns)
                begun = (one.wall_ns, "active", text, one.seq)
            elif one.code in ("resigned", "failover_failed"):
                close(one.wall_ns)
                begun = None
        elif isinstance(one, NoticeIssued) and one.level in ("warning", "error"):
            marks.append(Mark(one.wall_ns, one.level, sentence(one), one.seq))
    close(reading.end_ns)
    return Lane("controller", "controller terms", spans, marks, 1.0)


def _procedures(reading: Reading) -> Lane:
    spans = [
        Span(one.begin_ns, one.end_ns or reading.end_ns, "procedure", one.name, one.seq)
        for one in reading.procedures
    ]
    return Lane("controller", "controller events", spans, [], 1.0)


def _brokers(reading: Reading) -> Iterator[Lane]:
    """A lane for each broker, from the moment at which the log first names it: it is registered, or
    a partition has a replica on it."""
    changes = _BrokerChanges(reading)
    marks: dict[int, list[Mark]] = defaultdict(list)
    for one in reading.history.facts:
        if isinstance(one, BrokerChanged):
            marks[one.broker].append(Mark(one.wall_ns, one.what, sentence(one), one.seq))
    for broker in sorted(changes.spans.keys() | marks.keys()):
        yield Lane("broker", broker_name(broker), changes.spans[broker], marks[broker], 1.0)


class _BrokerChanges:
    """The periods in which each broker is registered or not; none while this is not known."""

    def __init__(self, reading: Reading) -> None:
        self.spans: dict[int, list[Span]] = defaultdict(list)
        self._begun: dict[int, tuple[str, int, int]] = {}
        self._live: frozenset[int] | None = None
        self._named = {one for each in reading.initial.partitions() for one in each.replicas}
        changes: list[AnyFact | RegisteredBrokers] = [*reading.live, *reading.history.facts]
        for one in sorted(changes, key=lambda one: one.seq):
            if isinstance(one, RegisteredBrokers):
                self._live = one.brokers
                self._named |= one.brokers or set()
                self._update(self._named, one.wall_ns, one.seq)
            elif isinstance(one, AssignmentWritten):
                new = set(one.after.replicas) - self._named
                self._named |= new
                self._update(new, one.wall_ns, one.seq)
        self._live = None
        self._update(self._named, reading.end_ns, reading.last_seq)

    def _update(self, brokers: Set[int], wall_ns: int, seq: int) -> None:
        for broker in brokers:
            state = ""
            if self._live is not None:
                state = "registered" if broker in self._live else "not registered"
            before, begin_ns, begin_seq = self._begun.get(broker, ("", 0, 0))
            if state == before:
                continue
            if before:
                self.spans[broker].append(Span(begin_ns, wall_ns, before, before, begin_seq))
            self._begun[broker] = (state, wall_ns, seq)


def _sessions(reading: Reading) -> Iterator[Lane]:
    """One lane for the sessions of each owner; clients without a broker share one."""
    by_owner: dict[str, list[SessionLifetime]] = defaultdict(list)
    for one in reading.sessions:
        by_owner[one.owner or "other clients"].append(one)
    changes = [one for one in reading.history.facts if isinstance(one, SessionChanged)]
    for owner, sessions in sorted(by_owner.items()):
        spans, marks = [], []
        for one in sessions:
            begin_ns = one.begin_ns or reading.begin_ns
            end_ns = one.end_ns or reading.end_ns
            text = session_name(one.id) + (f", {one.how}" if one.how else "")
            begin_seq = one.begin_seq or reading.first_seq
            spans.append(Span(begin_ns, end_ns, "session", text, begin_seq))
            if one.end_seq:
                kind = "expired" if one.how == "expired" else "closed"
                marks.append(Mark(end_ns, kind, text, one.end_seq))
        if reading.is_recorded:
            marks += [Mark(one.wall_ns, one.what, sentence(one), one.seq) for one in changes]
        spans.sort(key=lambda one: one.begin_ns)
        marks.sort(key=lambda one: one.wall_ns)
        yield Lane("session", f"sessions: {owner}", spans, marks, 1.0)


def _move(move: Move, reading: Reading) -> Lane:
    """A reassignment: its phases and the steps of a rollback."""
    begin_ns = nanoseconds_of(move.begun.time) if move.begun is not None else reading.begin_ns
    end_ns = nanoseconds_of(move.ended.time) if move.ended is not None else reading.end_ns
    seq = move.begun.seq if move.begun is not None else reading.first_seq
    goes = f"{broker_list(move.origin)} to {broker_list(move.target)}"
    name = f"{move.partition}: {goes}"
    cancelled = move.cancelled
    spans = []
    if cancelled is not None and begin_ns <= nanoseconds_of(cancelled.at.time) < end_ns:
        at_ns = nanoseconds_of(cancelled.at.time)
        spans.append(Span(begin_ns, at_ns, "moving", f"moves from {goes}", seq))
        text = f"{move.outcome}: {cancelled.text}"
        spans.append(Span(at_ns, end_ns, "rolling back", text, cancelled.at.seq))
    else:
        spans.append(Span(begin_ns, end_ns, "moving", f"{move.outcome}: {goes}", seq))
    for wait in move.waited:
        until_ns = nanoseconds_of(wait.until.time) if wait.until is not None else end_ns
        since_ns = nanoseconds_of(wait.since.time)
        spans.append(Span(since_ns, until_ns, "waiting", f"waits: {wait.why}", wait.since.seq))
    marks = [
        Mark(
            nanoseconds_of(one.at.time),
            "rollback step" if one.step else "move",
            f"step {one.step} of 7: {one.text}" if one.step else one.text,
            one.at.seq,
        )
        for one in move.events
    ]
    return Lane("reassignment", name, spans, marks, 1.0)
