"""Incidents and divergences of the report as expandable blocks, each with its events."""

from html import escape
from shlex import quote
from typing import Any, Final

from replay.fleet.report.findings import FleetIncident, ReportedDivergence, Rows
from replay.fleet.report.queries import AROUND, PARTITIONS_OF_INCIDENT, PAYLOAD_CHARACTERS
from replay.fleet.report.tables import (
    Column,
    Markup,
    duration,
    duration_column,
    format_count,
    id_of,
    in_words,
    table,
    text_column,
    utc_time,
)

_WHAT: Final = {"unavailable": "unavailable", "under_replicated": "under-replicated"}

_PARTITIONS: Final = (
    Column("partition", lambda row: f"{row['topic']}-{row['partition']}"),
    Column("cause", lambda row: in_words(row["cause"])),
    id_of("broker"),
    id_of("seq", "event"),
    text_column("time", "from (UTC)"),
    duration_column("seconds", "for"),
    Column("to the log's end", lambda row: row["is_open"]),
    id_of("leader"),
    text_column("isr", "ISR"),
    text_column("replicas"),
)


def incident(place: int, one: FleetIncident, folder: str) -> str:
    """The summary line of an incident, with its partitions and events when expanded."""
    about = one.about
    what = _WHAT.get(about["what"], about["what"])
    lasts = " to the log's end" if about["is_open"] else ""
    size = "1 partition" if about["partitions"] == 1 else f"{about['partitions']:,} partitions"
    line = (
        f'<span class="badge {escape(about["what"])}">{escape(what)}</span>'
        f"<b>{duration(about['partition_seconds'])}</b> of partitions · {size} ·"
        f" {utc_time(about['time'])} UTC, {duration(_duration_s(about))}{lasts}"
        f'<span class="where">{escape(str(about["cluster"]))}, log {escape(str(about["log"]))}'
        f" · {_cause(about)}</span>"
    )
    return (
        f'<details class="incident" id="incident-{place}"'
        f' data-cluster="{escape(str(about["cluster"]))}"><summary>{line}</summary>'
        f"{_place_of(about)}{_partitions(one)}{events(one.records, about, folder)}</details>"
    )


def _place_of(about: dict[str, Any]) -> str:
    return (
        f"<p>Log <code>{escape(str(about['log']))}</code> of cluster"
        f" <code>{escape(str(about['cluster']))}</code>, events {about['seq']} to"
        f" {about['ended_seq']}.</p>"
    )


def _partitions(one: FleetIncident) -> str:
    more = len(one.partitions) >= PARTITIONS_OF_INCIDENT
    title = f"The {PARTITIONS_OF_INCIDENT} longest" if more else "Partitions"
    return f"<h4>{title}</h4>{table(_PARTITIONS, one.partitions)}"


def _cause(about: dict[str, Any]) -> str:
    cause = escape(in_words(about["cause"]) or "cause not known")
    return cause if about["broker"] is None else f"{cause}, broker {about['broker']}"


def _duration_s(about: dict[str, Any]) -> float:
    return float((about["until"] - about["time"]).total_seconds())


_DIFFERENCES: Final = (
    text_column("part"),
    text_column("recorded", "in the log"),
    Column("by the version", lambda row: row["version"]),
)


def divergence(place: int, one: ReportedDivergence, folder: str) -> str:
    """The summary line of a divergence, with both decisions and the events when expanded."""
    about = one.about
    rule = escape(about["rule"] or "no rule")
    others = about["of_all"] - 1
    line = (
        f'<span class="badge">{escape(in_words(about["what"]) or "")}</span><b>{rule}</b> ·'
        f" {_partition_names(about)} · event {about['seq']}, {utc_time(about['time'])} UTC"
        f'<span class="where">{escape(about["cluster"])} · version {escape(about["version"])}, the'
        f" first of its divergences in this log{f', {others:,} more' if others else ''}</span>"
    )
    details = "".join(f"<li>{escape(note)}</li>" for note in about["details"])
    sides = table(_DIFFERENCES, about["differences"]) if about["differences"] else ""
    return (
        f'<details class="divergence" id="divergence-{place}"><summary>{line}</summary>'
        f"<p>Log <code>{escape(about['log'])}</code> of cluster"
        f" <code>{escape(about['cluster'])}</code>: {escape(about['kind'])}"
        f" <code>{escape(about['target'])}</code>.</p><ul>{details}</ul>{sides}"
        f"{events(one.records, about, folder)}</details>"
    )


def _partition_names(about: dict[str, Any]) -> str:
    names = about["partitions"]
    if len(names) == 1:
        return escape(names[0])
    return f"{len(names):,} partitions" if names else escape(about["kind"])


_RECORDS: Final = (
    id_of("seq", "event"),
    Column("time (UTC)", lambda row: f"{row['time']:%H:%M:%S.%f}"[:-3] if row["time"] else None),
    Column("what", lambda row: row["kind"] if row["record"] == "event" else f"→ {row['kind']}"),
    Column("where", lambda row: row["path"] or row["target"] or row["channel"]),
    id_of("broker"),
    Column("partition", lambda row: _partition(row)),
    id_of("leader"),
    text_column("isr", "ISR"),
    Column("rule or error", lambda row: _rule(row)),
    Column("content", lambda row: _payload(row["payload"])),
)


def events(records: Rows, about: dict[str, Any], folder: str) -> str:
    """A scrollable table. `about` names the log and the events, `folder` is the folder of the
    table."""
    if not records:
        return "<p>The table does not contain its events.</p>"
    shown, there = len(records), records[0]["of_all"]
    note = f"All {there:,}"
    if there > shown:
        note = (
            f"{shown:,} of {there:,}; {there - shown:,} are omitted. Records about its partitions"
            " and brokers, close to its beginning and its end, come first"
        )
    return (
        f'<h4>Events and writes</h4><p class="note">{note}; without reads and successful requests'
        f" to brokers. → marks writes of the controller. To query all records of this period:"
        f" <code>{escape(_command(about, folder))}</code></p>"
        f'<div class="events">{table(_RECORDS, records)}</div>'
    )


def _command(about: dict[str, Any], folder: str) -> str:
    place = f"{folder}/decoded".replace("`", "``")
    records = f"parquet.`{place}`"
    first = about["seq"] - AROUND
    last = (about.get("ended_seq") or about["seq"]) + AROUND
    of_log = f"cluster = {_literal(about['cluster'])} and log = {_literal(about['log'])}"
    where = f"{of_log} and seq between {first} and {last}"
    query = f"select * from {records} where {where} order by seq, record desc, ordinal"
    return f"spark-sql -e {quote(query)}"


def _literal(value: str) -> str:
    """A string of Spark's SQL."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _partition(row: dict[str, Any]) -> object:
    if row["partition"] is not None:
        return f"{row['topic']}-{row['partition']}"
    count = row["partitions"] or 0
    return f"{format_count(count)} partitions" if count > 0 else row["topic"]


def _rule(row: dict[str, Any]) -> str | None:
    error = f"error {row['error']}" if row["error"] else ""
    return ": ".join(one for one in (row["rule"], error) if one) or None


def _payload(payload: str | None) -> Markup | None:
    if not payload:
        return None
    cut = "…" if len(payload) >= PAYLOAD_CHARACTERS else ""
    return Markup(f"<details><summary>show</summary><code>{escape(payload)}{cut}</code></details>")
