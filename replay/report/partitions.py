"""The partitions over time: lanes, periods without a leader, and how many are not well."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from msgspec import Struct, field

from controller.core.election import UNCLEAN_LEADER
from replay.cluster_view.views import NO_BROKER
from replay.description.phrases import broker_list, leader_in_words
from replay.names import partition_named
from replay.report.document import Count, Lane, Mark, Outage, Span
from replay.report.reading import Reading, RegisteredBrokers
from replay.why.facts import (
    AnyFact,
    AssignmentWritten,
    LeftUnchanged,
    NoLeader,
    StateWritten,
    TopicChanged,
)
from replay.why.sentences import sentence

OFFLINE: Final = "offline"
UNDER_REPLICATED: Final = "under-replicated"
ONLINE: Final = "online"
UNKNOWN: Final = "not known"
_WEIGHTS: Final = {OFFLINE: 1000.0, UNDER_REPLICATED: 1.0}


class _Partition(Struct):
    name: str
    leader: int = NO_BROKER
    isr: tuple[int, ...] = ()
    replicas: tuple[int, ...] = ()
    has_state: bool = False
    state: str = ""
    text: str = ""
    begin_ns: int = 0
    seq: int = 0
    last_leader: int = NO_BROKER
    spans: list[Span] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    def state_with(self, live: frozenset[int] | None) -> str:
        """The state as docs/health.md defines it; "" if the partition does not exist."""
        if not self.has_state:
            return ""
        if live is None:
            return UNKNOWN
        if self.leader == NO_BROKER or self.leader not in live or not self.isr:
            return OFFLINE
        return UNDER_REPLICATED if set(self.replicas) - set(self.isr) else ONLINE

    def in_words(self) -> str:
        """Leader, ISR and replicas."""
        ids = f"ISR {broker_list(self.isr)}, replicas {broker_list(self.replicas)}"
        return f"{leader_in_words(self.leader)}, {ids}"


class Partitions:
    """Follows the partitions of a log."""

    def __init__(self, reading: Reading) -> None:
        self.outages: list[Outage] = []
        self.counts: list[Count] = []
        self._partitions: dict[str, _Partition] = {}
        self._of_topic: dict[str, set[str]] = defaultdict(set)
        self._led_by: dict[int, set[str]] = defaultdict(set)
        self._totals = dict.fromkeys((OFFLINE, UNDER_REPLICATED), 0)
        self._live: frozenset[int] | None = None
        self._end_ns = reading.end_ns
        self._begin(reading)
        changes: list[AnyFact | RegisteredBrokers] = [*reading.live, *reading.history.facts]
        for one in sorted(changes, key=lambda one: one.seq):
            self._apply(one)
        for partition in self._partitions.values():
            self._close(partition, reading.end_ns, 0)

    def lanes(self) -> list[Lane]:
        """A lane for each partition, those with most to show first."""
        lanes = [
            Lane("partition", one.name, one.spans, one.marks, _weight(one))
            for one in self._partitions.values()
        ]
        return sorted(lanes, key=lambda one: (-one.weight, _by_number(one.name)))

    def _begin(self, reading: Reading) -> None:
        for view in reading.initial.partitions():
            one = self._partition(view.name)
            one.leader, one.isr, one.replicas = view.leader, view.isr, view.replicas
            one.has_state = bool(view.isr) or view.leader != NO_BROKER
            self._led_by[one.leader].add(one.name)
            self._update(one, reading.first_seq, reading.begin_ns)

    def _partition(self, name: str) -> _Partition:
        if name not in self._partitions:
            self._partitions[name] = _Partition(name)
            self._of_topic[partition_named(name)[0]].add(name)
        return self._partitions[name]

    def _apply(self, one: AnyFact | RegisteredBrokers) -> None:
        match one:
            case RegisteredBrokers(brokers=brokers):
                self._live_changed(one, brokers)
            case StateWritten(partition=name, after=after):
                partition = self._partition(name)
                self._led_by[partition.leader].discard(name)
                partition.leader, partition.isr, partition.has_state = after.leader, after.isr, True
                self._led_by[after.leader].add(name)
                if one.code == UNCLEAN_LEADER:
                    self._mark(partition, one, "unclean election")
                self._update(partition, one.seq, one.wall_ns)
            case AssignmentWritten(partition=name, after=assigned):
                partition = self._partition(name)
                is_new = not partition.replicas
                partition.replicas = assigned.replicas
                if is_new and partition.state_with(self._live) == partition.state:
                    # The fold shows the assignment later than the state.
                    partition.text = partition.in_words()
                    return
                self._mark(partition, one, "replicas")
                self._update(partition, one.seq, one.wall_ns)
            case TopicChanged(code="topic_deleted", topic=topic):
                for name in self._of_topic[topic]:
                    self._partitions[name].has_state = False
                    self._update(self._partitions[name], one.seq, one.wall_ns)
            case NoLeader() | LeftUnchanged():
                self._mark(self._partition(one.partition), one, "problem")
            case _:
                pass

    def _live_changed(self, at: RegisteredBrokers, brokers: frozenset[int] | None) -> None:
        before, self._live = self._live, brokers
        if before is None or brokers is None:
            changed: Iterable[str] = list(self._partitions)
        else:
            changed = [name for broker in before ^ brokers for name in self._led_by[broker]]
        for name in changed:
            self._update(self._partitions[name], at.seq, at.wall_ns)

    def _update(self, one: _Partition, seq: int, wall_ns: int) -> None:
        state, text = one.state_with(self._live), one.in_words()
        if (state, text) == (one.state, one.text):
            return
        was_offline = one.state == OFFLINE
        self._close(one, wall_ns, seq, stays=state)
        if state == OFFLINE and not was_offline:
            one.last_leader = one.leader
        one.state, one.text, one.begin_ns, one.seq = state, text, wall_ns, seq
        if state in self._totals:
            self._totals[state] += 1
        self._count(wall_ns)

    def _close(self, one: _Partition, wall_ns: int, seq: int, stays: str = "") -> None:
        if not one.state:
            return
        one.spans.append(Span(one.begin_ns, wall_ns, one.state, one.text, one.seq))
        if one.state in self._totals:
            self._totals[one.state] -= 1
        if one.state == OFFLINE and stays != OFFLINE:
            begun = _begin_of_outage(one.spans)
            is_over = seq and stays != UNKNOWN
            self.outages.append(
                Outage(
                    one.name,
                    begun.seq,
                    begun.begin_ns,
                    seq if is_over else 0,
                    wall_ns,
                    one.last_leader,
                )
            )

    def _count(self, wall_ns: int) -> None:
        count = Count(wall_ns, self._totals[OFFLINE], self._totals[UNDER_REPLICATED])
        if self.counts and self.counts[-1].wall_ns == wall_ns:
            self.counts[-1] = count
        else:
            self.counts.append(count)

    def _mark(self, partition: _Partition, fact: AnyFact, kind: str) -> None:
        partition.marks.append(Mark(fact.wall_ns, kind, sentence(fact), fact.seq))


def _begin_of_outage(spans: list[Span]) -> Span:
    """The first of the last spans that are offline."""
    place = len(spans) - 1
    while place > 0 and spans[place - 1].state == OFFLINE:
        place -= 1
    return spans[place]


def _weight(one: _Partition) -> float:
    known = [span for span in one.spans if span.state != UNKNOWN]
    seconds = sum(
        _WEIGHTS.get(span.state, 0.0) * (span.end_ns - span.begin_ns) / 1e9 for span in known
    )
    return seconds + 0.001 * (max(0, len(known) - 1) + len(one.marks))


def _by_number(name: str) -> tuple[str, int]:
    return partition_named(name)
