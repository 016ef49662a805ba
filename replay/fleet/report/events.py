"""What was observed and written about some moment, in HTML."""

from html import escape
from shlex import quote
from typing import Any, Final

from replay.fleet.report.findings import Rows
from replay.fleet.report.queries import AROUND, PAYLOAD_CHARACTERS
from replay.fleet.report.tables import Column, Markup, counted, id_of, table, text

_RECORDS: Final = (
    id_of("seq", "event"),
    Column("time (UTC)", lambda row: f"{row['time']:%H:%M:%S.%f}"[:-3] if row["time"] else None),
    Column("what", lambda row: row["kind"] if row["record"] == "event" else f"→ {row['kind']}"),
    Column("where", lambda row: row["path"] or row["target"] or row["channel"]),
    id_of("broker"),
    Column("partition", lambda row: _partition(row)),
    id_of("leader"),
    text("isr", "ISR"),
    Column("rule or error", lambda row: _rule(row)),
    Column("content", lambda row: _payload(row["payload"])),
)


def events(records: Rows, about: dict[str, Any], folder: str) -> str:
    """A table that scrolls by itself; `about` says of which log, `folder` has the table of all."""
    if not records:
        return "<p>No event of it is in the table.</p>"
    shown, there = len(records), records[0]["of_all"]
    said = f"All {there:,}"
    if there > shown:
        said = (
            f"{shown:,} of {there:,}, {there - shown:,} are left out: first come those about its"
            " partitions and brokers, near its begin and its end"
        )
    return (
        f'<h4>Events and writes</h4><p class="note">{said}; without reads, and requests to brokers'
        f" that went well. → is what the controller wrote. All that the log has of it:"
        f" <code>{escape(_command(about, folder))}</code></p>"
        f'<div class="events">{table(_RECORDS, records)}</div>'
    )


def _command(about: dict[str, Any], folder: str) -> str:
    records = f"parquet.`{folder}/records`"
    first = about["seq"] - AROUND
    last = (about.get("ended_seq") or about["seq"]) + AROUND
    where = f"log = '{about['log']}' and seq between {first} and {last}"
    query = f"select * from {records} where {where} order by seq, record desc, ordinal"
    return f"spark-sql -e {quote(query)}"


def _partition(row: dict[str, Any]) -> object:
    if row["partition"] is not None:
        return f"{row['topic']}-{row['partition']}"
    count = row["partitions"] or 0
    return f"{counted(count)} partitions" if count > 0 else row["topic"]


def _rule(row: dict[str, Any]) -> str | None:
    error = f"error {row['error']}" if row["error"] else ""
    return ": ".join(one for one in (row["rule"], error) if one) or None


def _payload(payload: str | None) -> Markup | None:
    if not payload:
        return None
    cut = "…" if len(payload) >= PAYLOAD_CHARACTERS else ""
    return Markup(f"<details><summary>show</summary><code>{escape(payload)}{cut}</code></details>")
