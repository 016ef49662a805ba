"""Which events of a long log can meet a condition, by the index of the log, so that a search need
not fold all of it.

The list may contain events that do not meet the condition. For a condition of the state it may lack
some, because the changes of a partition's fields are known from the facts that `refold why` has.
The search compares the states between the listed events, so that a change is found nevertheless.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from types import UnionType
from typing import Final, NamedTuple

from replay.debug.conditions import ABOUT, DECISION, OFFLINE, EventCondition
from replay.debug.conditions import PROCEDURE as PROCEDURES
from replay.index.every_fact import places_of
from replay.index.listing import IndexSelection, decision_numbers, event_numbers
from replay.index.postings import PROCEDURE, znode_names
from replay.index.store import EventIndex
from replay.names import partition_named
from replay.subjects import subject_of
from replay.why.facts import (
    AnyFact,
    BrokerChanged,
    Fact,
    NoLeader,
    RoleChanged,
    SessionChanged,
    StateWritten,
    TopicChanged,
)
from replay.why.subject import Subject

Kinds = type[Fact] | UnionType

NEAR: Final = 3_000
"""Events between two listed ones that are folded: to begin again at a snapshot takes longer."""


class EventRange(NamedTuple):
    """The events after `after` up to `last`."""

    after: int
    last: int


class CandidateEvents:
    """The events that can meet conditions, of a log with an index."""

    def __init__(self, index: EventIndex) -> None:
        self._index = index
        self._listed: dict[EventCondition, list[int]] = {}
        self._of: dict[str, Callable[[str], Iterable[int]]] = {
            ABOUT: self._events_about,
            DECISION.what: lambda name: decision_numbers(
                index, IndexSelection((name,) if name else ())
            ),
            "kind": lambda kind: event_numbers(index, IndexSelection(kinds=(kind,))),
            "rule": lambda text: decision_numbers(
                index, IndexSelection(), rule=text, with_steps=True
            ),
            PROCEDURES.what: lambda text: self._numbers(*index.keys_with(PROCEDURE, text)),
            "znode": self._of_znode,
            "leader": lambda name: self._of_state(name, "leader", TopicChanged),
            "isr": lambda name: self._of_state(name, "isr", TopicChanged),
            OFFLINE: lambda name: self._of_state(
                name, "leader", NoLeader | BrokerChanged | TopicChanged
            ),
            "partition": self._of_partition,
            "broker": lambda _: self._facts(Subject(), BrokerChanged),
            "controller": lambda _: self._facts(Subject(), SessionChanged),
            "failover": lambda _: self._facts(Subject()),
        }

    def ranges(self, condition: EventCondition, after: int, last: int) -> list[EventRange] | None:
        """The ranges of events to search, in order, of those after `after` up to `last`. None: the
        index does not know. Raises LogError."""
        if condition.what not in self._of or last > self._index.about.last_seq:
            return None
        listed = self._listed.get(condition)
        if listed is None:
            of = self._of[condition.what]
            listed = self._listed[condition] = sorted(set(of(condition.name)))
        return list(_ranges(listed[bisect_right(listed, after) : bisect_right(listed, last)]))

    def _numbers(self, *keys: str) -> Iterable[int]:
        return chain.from_iterable(map(self._index.numbers, keys))

    def _events_about(self, name: str) -> Iterable[int]:
        wanted = IndexSelection((name,))
        return chain(event_numbers(self._index, wanted), decision_numbers(self._index, wanted))

    def _of_znode(self, path: str) -> Iterable[int]:
        names = subject_of(path).names or znode_names([path])
        return self._numbers(*(f"event {one}" for one in names))

    def _of_state(self, name: str, field: str, others: Kinds) -> Iterable[int]:
        """`field` of the partition's state is changed; or other facts."""

        def changes(fact: AnyFact) -> bool:
            return isinstance(fact, StateWritten) and (
                fact.before is None or getattr(fact.before, field) != getattr(fact.after, field)
            )

        return self._facts(Subject(*partition_named(name)), others, changes)

    def _of_partition(self, name: str) -> Iterable[int]:
        topic, _ = partition_named(name)
        keys = (f"{what} {one}" for what in ("event", "decision") for one in (topic, name))
        return chain(self._facts(Subject(*partition_named(name)), Fact), self._numbers(*keys))

    def _facts(
        self,
        subject: Subject,
        kinds: Kinds = RoleChanged,
        also: Callable[[AnyFact], bool] = lambda _: False,
    ) -> Iterable[int]:
        """The events of facts of these kinds, and those at which the role changes."""
        about = self._index.about
        for one in about.lost:
            yield from (one.seq, one.until)
        for fact in self._index.facts(places_of(subject), about.last_seq):
            if isinstance(fact, kinds | RoleChanged) or also(fact):
                yield fact.seq


def _ranges(listed: list[int]) -> Iterator[EventRange]:
    if not listed:
        return
    first = last = listed[0]
    for one in listed:
        if one - last > NEAR:
            yield EventRange(first - 1, last)
            first = one
        last = one
    yield EventRange(first - 1, last)
