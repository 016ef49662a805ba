"""Single incidents in HTML: their partitions, and the way down to the events."""

from html import escape
from typing import Any, Final

from replay.fleet.report.events import events
from replay.fleet.report.findings import Incident
from replay.fleet.report.queries import PARTITIONS_OF_INCIDENT
from replay.fleet.report.tables import (
    Column,
    duration,
    id_of,
    moment,
    span,
    table,
    text,
    words,
)

_WHAT: Final = {"unavailable": "unavailable", "under_replicated": "under-replicated"}

_PARTITIONS: Final = (
    Column("partition", lambda row: f"{row['topic']}-{row['partition']}"),
    Column("cause", lambda row: words(row["cause"])),
    id_of("broker"),
    id_of("seq", "event"),
    text("time", "from (UTC)"),
    span("seconds", "for"),
    Column("to the log's end", lambda row: row["is_open"]),
    id_of("leader"),
    text("isr", "ISR"),
    text("replicas"),
)


def incident(place: int, one: Incident, folder: str) -> str:
    """Closed, with its first line; opened, all of it."""
    about = one.about
    what = _WHAT.get(about["what"], about["what"])
    lasts = " to the log's end" if about["is_open"] else ""
    size = "1 partition" if about["partitions"] == 1 else f"{about['partitions']:,} partitions"
    line = (
        f'<span class="badge {escape(about["what"])}">{escape(what)}</span>'
        f"<b>{duration(about['partition_seconds'])}</b> of partitions · {size} ·"
        f" {moment(about['time'])} UTC, {duration(_lasted(about))}{lasts}"
        f'<span class="where">{escape(str(about["cluster"]))}, log {escape(str(about["log"]))}'
        f" · {_cause(about)}</span>"
    )
    return (
        f'<details class="incident" id="incident-{place}"'
        f' data-cluster="{escape(str(about["cluster"]))}"><summary>{line}</summary>'
        f"{_where(about)}{_partitions(one)}{events(one.records, about, folder)}</details>"
    )


def _where(about: dict[str, Any]) -> str:
    return (
        f"<p>Log <code>{escape(str(about['log']))}</code> of cluster"
        f" <code>{escape(str(about['cluster']))}</code>, events {about['seq']} to"
        f" {about['ended_seq']}.</p>"
    )


def _partitions(one: Incident) -> str:
    more = len(one.partitions) >= PARTITIONS_OF_INCIDENT
    title = f"The {PARTITIONS_OF_INCIDENT} longest" if more else "Partitions"
    return f"<h4>{title}</h4>{table(_PARTITIONS, one.partitions)}"


def _cause(about: dict[str, Any]) -> str:
    cause = escape(words(about["cause"]) or "cause not known")
    return cause if about["broker"] is None else f"{cause}, broker {about['broker']}"


def _lasted(about: dict[str, Any]) -> float:
    return float((about["until"] - about["time"]).total_seconds())
