"""Selects events to read."""

from typing import Any

from msgspec import Struct


class EventFilter(Struct, frozen=True, kw_only=True):
    """All given conditions must hold; an empty filter accepts every event. Bounds are inclusive.

    `subject` requires an index or a function that names an event's subjects (see `subjects`).
    """

    first_seq: int | None = None
    last_seq: int | None = None
    from_ns: int | None = None
    to_ns: int | None = None
    kinds: tuple[str, ...] = ()
    channel: str | None = None
    term: int | None = None
    subject: str | None = None

    @property
    def is_range(self) -> bool:
        """Whether the filter accepts every event between two numbers."""
        rest = (self.from_ns, self.to_ns, self.channel, self.term, self.subject)
        return not self.kinds and all(one is None for one in rest)

    def where(self) -> tuple[list[str], dict[str, Any]]:
        """SQL conditions on the events table and their parameters, without the subject."""
        bounds = {
            "seq >= :first_seq": ("first_seq", self.first_seq),
            "seq <= :last_seq": ("last_seq", self.last_seq),
            "wall_ns >= :from_ns": ("from_ns", self.from_ns),
            "wall_ns <= :to_ns": ("to_ns", self.to_ns),
            "channel = :channel": ("channel", self.channel),
            "term = :term": ("term", self.term),
        }
        conditions = [text for text, (_, value) in bounds.items() if value is not None]
        parameters = {name: value for name, value in bounds.values() if value is not None}
        if self.kinds:
            names = {f"kind_{number}": kind for number, kind in enumerate(self.kinds)}
            conditions.append(f"kind in ({', '.join(f':{name}' for name in names)})")
            parameters |= names
        return conditions, parameters
