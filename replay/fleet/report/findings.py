"""What a report is made of: small aggregates, and the incidents that weigh most."""

from typing import Any

from msgspec import Struct

Rows = list[dict[str, Any]]
"""Of a query, by column."""


class Incident(Struct, frozen=True):
    """A stretch of a log in which partitions were unavailable, or under-replicated, without a
    pause. `partitions` are those that were longest, `records` what was observed and written
    meanwhile, as many as are shown."""

    about: dict[str, Any]
    partitions: Rows
    records: Rows


class Divergence(Struct, frozen=True):
    """The first divergence of a version in a log, and what was observed and written then."""

    about: dict[str, Any]
    records: Rows


class Findings(Struct, frozen=True, kw_only=True):
    """What queries came to, by their name in `queries`; `replays` is None where there are none."""

    folder: str
    options: dict[str, Any]
    totals: dict[str, Any]
    period: str
    answers: dict[str, Rows]
    replays: dict[str, Rows] | None
    divergences: list[Divergence]
    incidents: list[Incident]
