"""Single divergences of replays in HTML: both sides, and the way down to the events."""

from html import escape
from typing import Any, Final

from replay.fleet.report.events import events
from replay.fleet.report.findings import Divergence
from replay.fleet.report.tables import Column, moment, table, text, words

_SIDES: Final = (
    text("part"),
    text("recorded", "in the log"),
    Column("by the version", lambda row: row["version"]),
)


def divergence(place: int, one: Divergence, folder: str) -> str:
    """Closed, with its first line; opened, all of it."""
    about = one.about
    rule = escape(about["rule"] or "no rule")
    others = about["of_all"] - 1
    line = (
        f'<span class="badge">{escape(words(about["what"]) or "")}</span><b>{rule}</b> ·'
        f" {_partitions(about)} · event {about['seq']}, {moment(about['time'])} UTC"
        f'<span class="where">{escape(about["cluster"])} · version {escape(about["version"])}, the'
        f" first of its divergences in this log{f', {others:,} more' if others else ''}</span>"
    )
    details = "".join(f"<li>{escape(said)}</li>" for said in about["details"])
    sides = table(_SIDES, about["differences"]) if about["differences"] else ""
    return (
        f'<details class="divergence" id="divergence-{place}"><summary>{line}</summary>'
        f"<p>Log <code>{escape(about['log'])}</code> of cluster"
        f" <code>{escape(about['cluster'])}</code>: {escape(about['kind'])}"
        f" <code>{escape(about['target'])}</code>.</p><ul>{details}</ul>{sides}"
        f"{events(one.records, about, folder)}</details>"
    )


def _partitions(about: dict[str, Any]) -> str:
    names = about["partitions"]
    if len(names) == 1:
        return escape(names[0])
    return f"{len(names):,} partitions" if names else escape(about["kind"])
