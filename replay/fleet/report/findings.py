"""The data of a report: small aggregates, and the most severe incidents."""

from typing import Any

from msgspec import Struct

from replay.fleet.set_aside import SetAsideInput

Rows = list[dict[str, Any]]
"""The rows of a query's result, by column."""


class FleetIncident(Struct, frozen=True):
    """A period in which partitions of a log were unavailable, or under-replicated, without a pause.
    `partitions` are those with the longest outages, `records` the events and writes of the period,
    as many as are shown."""

    about: dict[str, Any]
    partitions: Rows
    records: Rows


class ReportedDivergence(Struct, frozen=True):
    """The first divergence of a version in a log, with the events and writes at that time."""

    about: dict[str, Any]
    records: Rows


class FleetFindings(Struct, frozen=True, kw_only=True):
    """The results of the queries, by their name in `queries`; `replays` is None without replays.
    `set_aside` counts inputs that the table lacks, `examples` are some of them."""

    folder: str
    options: dict[str, Any]
    totals: dict[str, Any]
    period: str
    answers: dict[str, Rows]
    replays: dict[str, Rows] | None
    divergences: list[ReportedDivergence]
    incidents: list[FleetIncident]
    set_aside: int = 0
    examples: list[SetAsideInput] = []
