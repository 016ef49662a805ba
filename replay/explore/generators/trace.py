"""Analysis of a trace of deliveries: which of them race, and which traces are equivalent.

A delivery happens before another one if it is earlier at the same receiver, or caused it. Two
deliveries at one receiver on different links *race* if the later one was not sent because of the
earlier one. Their order matters if they are *dependent*: both are about one znode or partition, or
it is not known what one of them is about.

Source: Flanagan, Godefroid: Dynamic partial-order reduction for model checking software
(POPL 2005).
"""

import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from replay.explore.generators.subjects import MessageSubjects
from replay.world.draws import hash_of
from replay.world.network import Delivery

_MASK: Final = 2**64 - 1


class Race(NamedTuple):
    """Two deliveries that race; `first` was delivered before `second`."""

    first: Delivery
    second: Delivery


class Trace:
    """The deliveries of a run that matter, with their causal order."""

    def __init__(self, deliveries: Sequence[Delivery]) -> None:
        self._past: dict[int, dict[str, int]] = {}
        """By delivery: for each receiver the last delivery there that happened before or is it."""
        self._subjects: dict[int, frozenset[str] | None] = {}
        self._kept: list[tuple[str, Delivery]] = []
        subjects = MessageSubjects()
        last: dict[str, dict[str, int]] = {}
        for one in deliveries:
            receiver = one.link.partition(">")[2]
            past = dict(last.get(receiver, _NONE))
            for place, number in self._past.get(one.cause, _NONE).items():
                if past.get(place, 0) < number:
                    past[place] = number
            past[receiver] = one.id
            self._past[one.id] = last[receiver] = past
            if subjects.read(one):
                self._subjects[one.id] = subjects.subjects_of(one)
                self._kept.append((receiver, one))

    def races(self, window_us: int) -> list[Race]:
        """The races of dependent deliveries within a time: for each delivery, the last one before
        it on each other link."""
        found: list[Race] = []
        recent: dict[str, list[Delivery]] = {}
        for receiver, second in self._kept:
            before = recent.setdefault(receiver, [])
            while before and second.at_us - before[0].at_us > window_us:
                before.pop(0)
            seen: dict[str, None] = {second.link: None}
            for first in reversed(before):
                if first.link in seen:
                    continue
                seen[first.link] = None
                if self._is_dependent(first, second) and not self._is_cause(
                    receiver, first, second
                ):
                    found.append(Race(first, second))
            before.append(second)
        return found

    def _is_cause(self, receiver: str, first: Delivery, second: Delivery) -> bool:
        """Whether the second message was sent because of the first one."""
        return self._past.get(second.cause, _NONE).get(receiver, 0) >= first.id

    def _is_dependent(self, one: Delivery, other: Delivery) -> bool:
        of_one, of_other = self._subjects[one.id], self._subjects[other.id]
        return of_one is None or of_other is None or not of_one.isdisjoint(of_other)

    def digest(self) -> int:
        """A hash that two traces have in common if they differ only in the order of deliveries that
        are independent."""
        total = 0
        hashes: dict[int, int] = {0: 1}
        before: dict[str, list[tuple[Delivery, int]]] = {}
        for receiver, one in self._kept:
            content = f"{one.link} {type(one.message).__name__} {_text(self._subjects[one.id])}"
            value = zlib.crc32(content.encode()) * 0x9E3779B97F4A7C15
            value = hash_of(value + hashes.get(one.cause, 0))
            seen = before.setdefault(receiver, [])
            for earlier, its in reversed(seen):
                if self._is_dependent(earlier, one):
                    value = hash_of(value ^ its)
                    break
            hashes[one.id] = value
            seen.append((one, value))
            if len(seen) > _REMEMBERED:
                del seen[0]
            total = (total + value) & _MASK
        return total


_NONE: Final[dict[str, int]] = {}
_REMEMBERED: Final = 200


def _text(subjects: frozenset[str] | None) -> str:
    return "?" if subjects is None else " ".join(sorted(subjects))
