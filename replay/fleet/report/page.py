"""The HTML page, a single file without external resources."""

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, Final

from plotly.offline import get_plotlyjs

from replay.fleet.report.charts import charts_of, json_of
from replay.fleet.report.details import divergence, incident
from replay.fleet.report.findings import FleetFindings, Rows
from replay.fleet.report.tables import (
    Column,
    duration,
    duration_column,
    format_count,
    id_of,
    in_words,
    number_column,
    table,
    text_column,
    utc_time,
)

_HERE: Final = Path(__file__).parent
_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)
_TITLE: Final = "Controller incidents of the fleet"


def page_of(findings: FleetFindings) -> str:
    """The content of the file."""
    body = "".join(_body(findings))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_TITLE}</title><style>{_file('page.css')}</style></head><body><main>{body}</main>"
        f"<script>{get_plotlyjs()}</script><script>{_file('page.js')}</script></body></html>\n"
    )


def _file(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _body(findings: FleetFindings) -> Iterator[str]:
    answers, totals = findings.answers, findings.totals
    charts = {name: json_of(one) for name, one in charts_of(findings).items()}
    yield f"<h1>{_TITLE}</h1>{_description(findings)}{_incomplete(findings)}{_tiles(totals)}"
    yield _section(
        "Unavailable and under-replicated partitions",
        f"Partition-minutes by {findings.period}, by cause and by cluster; a cluster's bar shows"
        " its incidents. Under-replicated partitions serve requests with reduced redundancy.",
        _chart(charts, "over_time"),
        _chart(charts, "causes"),
        _chart(charts, "clusters"),
        _table(_CLUSTERS, answers["clusters"]),
    )
    yield _incidents(findings)
    yield _section(
        "Failovers",
        "From the event that began a failover to its end, in seconds, by cluster, slowest"
        " first. Then by version and by number of partitions, and by step.",
        _chart(charts, "failovers_by_cluster"),
        _table(_FAILOVERS, answers["failovers_by_group"]),
        _chart(charts, "failover_steps"),
    )
    for title, note, columns, name in _TABLES:
        yield _section(title, note, _table(columns, answers[name]))
    yield _replays(findings)


def _description(findings: FleetFindings) -> str:
    options = findings.options
    made = escape(str(options.get("made", "")))
    chosen = ", ".join(
        f"{escape(str(name))} {escape(str(value))}"
        for name, value in options.items()
        if name != "made" and value not in (None, [], "")
    )
    totals = findings.totals
    return (
        f'<p class="note">{escape(findings.folder)}, {utc_time(totals["first_time"])}'
        f" to {utc_time(totals['last_time'])} UTC."
        f" Analysed {made}{': ' if chosen else ''}{chosen}.</p>"
    )


def _tiles(totals: dict[str, Any]) -> str:
    tiles = (
        ("clusters", format_count(totals["clusters"])),
        ("logs", format_count(totals["logs"])),
        ("events", format_count(totals["events"])),
        ("unavailable, summed over partitions", duration(totals["unavailable_s"])),
        ("under-replicated, summed over partitions", duration(totals["under_replicated_s"])),
        ("failovers", format_count(totals["failovers"])),
        ("races missed", format_count(totals["missed_races"])),
        ("actions of zombies", format_count(totals["zombies"])),
    )
    shown = "".join(f"<div><b>{value}</b><span>{name}</span></div>" for name, value in tiles)
    return f'<div class="tiles">{shown}</div>'


def _incomplete(findings: FleetFindings) -> str:
    """The missing data, before any total that lacks the data."""
    title, answers = "Completeness", findings.answers
    logs, set_aside = findings.totals["incomplete"], findings.set_aside
    if not logs and not set_aside and not answers["incomplete"]:
        return _section(title, "All logs are complete.")
    note = (
        f"Incomplete logs: {logs:,}. Inputs that could not be read, and that are in no total:"
        f" {set_aside:,}."
    )
    parts = [table(_INCOMPLETE, answers["incomplete"])] if answers["incomplete"] else []
    if answers["resting"]:
        parts.append(
            f"<h3>Totals that rest on incomplete logs</h3>{table(_RESTING, answers['resting'])}"
        )
    if findings.examples:
        rows = [{"path": one.path, "reason": one.reason} for one in findings.examples]
        parts.append(f"<h3>Inputs that were set aside</h3>{table(_SET_ASIDE, rows)}")
    return _section(title, note, *parts)


def _section(title: str, note: str, *parts: str) -> str:
    return f'<section><h2>{title}</h2><p class="note">{note}</p>{"".join(parts)}</section>'


def _chart(charts: dict[str, str], name: str) -> str:
    if name not in charts:
        return '<p class="empty">Nothing to show.</p>'
    return (
        f'<div class="chart" data-chart="{name}" id="chart-{name}"></div>'
        f'<script type="application/json" id="data-{name}">{charts[name]}</script>'
    )


def _table(columns: tuple[Column, ...], rows: Rows) -> str:
    return table(columns, rows) if rows else '<p class="empty">None.</p>'


def _incidents(findings: FleetFindings) -> str:
    found = findings.incidents
    if not found:
        return _section("Incidents", "No partition was unavailable or under-replicated.")
    clusters = sorted({str(one.about["cluster"]) for one in found})
    options = "".join(f'<option value="{escape(one)}">{escape(one)}</option>' for one in clusters)
    choice = (
        '<label class="note">Cluster <select id="cluster"><option value="">all of them</option>'
        f'{options}</select></label><p class="empty" id="no-incident" hidden>No incident of this'
        " cluster is listed.</p>"
    )
    note = (
        f"The {len(found)} most severe, by partition-seconds: periods of a log in which"
        " partitions were unavailable, then those in which they were under-replicated. Half of the"
        " list is reserved for each kind, unless one has fewer. Expand an incident for its"
        " partitions and events."
    )
    items = "".join(incident(place, one, findings.folder) for place, one in enumerate(found, 1))
    return _section("Incidents", note, choice, items)


def _replays(findings: FleetFindings) -> str:
    title, found = "Replays by other versions", findings.replays
    if found is None:
        note = "None. <code>refold fleet replay</code> replays the logs by other versions."
        return _section(title, note)
    return _section(
        title,
        "The logs folded again by each version: how many decisions agree with the recorded ones.",
        _table(_VERSIONS, found["versions"]),
        _table(_DIVERGENCES, found["divergences"]),
        _first_divergences(findings),
    )


def _first_divergences(findings: FleetFindings) -> str:
    found = findings.divergences
    if not found:
        return ""
    note = (
        f"The first divergence of each version and log: {len(found)}, ordered by the number of"
        " divergences. Expand one for both decisions and the events."
    )
    items = "".join(divergence(place, one, findings.folder) for place, one in enumerate(found, 1))
    return f'<p class="note">{note}</p>{items}'


def _example(row: dict[str, Any]) -> str | None:
    example = row["example"]
    if example is None:
        return None
    return f"{example['cluster']}, {example['log']}, event {example['seq']}"


def _words(name: str) -> Column:
    return Column(name.replace("_", " "), lambda row: in_words(row[name]))


_INCOMPLETE: Final = (
    text_column("cluster"),
    text_column("log"),
    Column("lacks", lambda row: "; ".join(row["lacking"])),
    Column("warnings", lambda row: "; ".join(row["warnings"])),
    number_column("not_understood", "lines not understood"),
)
_RESTING: Final = (
    Column("total", lambda row: in_words(row["total"])),
    number_column("rows", "all"),
    number_column("of_incomplete_logs", "of incomplete logs"),
    number_column("clusters"),
)
_SET_ASIDE: Final = (text_column("path"), text_column("reason"))
_CLUSTERS: Final = (
    text_column("cluster"),
    duration_column("unavailable_s", "unavailable"),
    duration_column("under_replicated_s", "under-replicated"),
    number_column("outages"),
)
_FAILOVERS: Final = (
    text_column("by"),
    text_column("value"),
    number_column("failovers"),
    duration_column("p50", "median"),
    duration_column("p90"),
    duration_column("p99"),
    duration_column("max", "longest"),
)
_VERSIONS: Final = (
    text_column("version"),
    number_column("logs"),
    number_column("failed"),
    number_column("decisions"),
    number_column("agreed"),
    number_column("divergences"),
)
_DIVERGENCES: Final = (
    text_column("version"),
    text_column("rule"),
    _words("what"),
    number_column("count"),
    number_column("clusters"),
    Column("first", _example),
)
_TABLES: Final = (
    (
        "Partitions with the most leader changes",
        "A return is a change back to the previous leader.",
        (
            text_column("cluster"),
            Column("partition", lambda row: f"{row['topic']}-{row['partition']}"),
            number_column("changes"),
            number_column("leaders"),
            number_column("returns"),
            number_column("changes_per_hour", "changes an hour"),
        ),
        "churn",
    ),
    (
        "Reassignments",
        "Reassignments of single partitions, by outcome.",
        (
            _words("outcome"),
            number_column("count"),
            duration_column("median"),
            duration_column("longest"),
        ),
        "reassignments",
    ),
    (
        "Races",
        "Pairs of events from different channels about one partition or broker, or of changes of"
        " one reassignment by several clients, close in time."
        " Missed: the next decision did not take the later event into account.",
        (
            _words("first_what"),
            Column("then", lambda row: in_words(row["what"])),
            text_column("verdict"),
            number_column("count"),
            duration_column("closest", "closest apart"),
            Column("closest one", _example),
        ),
        "races",
    ),
    (
        "Flapping brokers",
        "Brokers that departed and returned several times within the window.",
        (
            text_column("cluster"),
            id_of("broker"),
            number_column("most", "most in a window"),
            number_column("times_gone"),
            duration_column("shortest_up_s", "shortest time up"),
        ),
        "flapping",
    ),
    (
        "Zombie controllers",
        "Actions of controllers of older terms, and how long after the newer term began.",
        (
            text_column("cluster"),
            _words("how"),
            id_of("controller"),
            number_column("count"),
            duration_column("latest", "latest after"),
        ),
        "zombies",
    ),
)
