"""The list of logs, and the page of an error, for `refold serve`."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from replay.report.html import html_document
from replay.report.served_logs import ServedLog, content_of, counted_logs
from replay.times import iso_time

_HEAD: Final = ("log", "kind", "begins", "events", "last change", "compare")


def index_page(folder: Path, logs: Sequence[ServedLog]) -> str:
    """The list. Two logs or runs can be chosen and compared."""
    rows = "\n".join(_row(one) for one in logs)
    head = "".join(f"<th>{one}</th>" for one in _HEAD)
    table = (
        f"<table><thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table>"
        if logs
        else "<p>There are no logs in this folder.</p>"
    )
    return html_document(
        "refold serve",
        f"<header><h1>Logs in {escape(str(folder))}</h1><p>{counted_logs(logs)}</p></header>\n"
        f'<main><form action="/report">{table}\n'
        '<p><button type="submit">Show the chosen logs together</button></p></form></main>',
    )


def error_page(text: str) -> str:
    """One sentence, and the way back to the list."""
    return html_document(
        "refold serve",
        f"<header><h1>refold serve</h1></header>\n<main><p>{escape(text)}</p>\n"
        '<p><a href="/">All logs</a></p></main>',
    )


def _row(one: ServedLog) -> str:
    """A log or a saved run. The logs of a run are below its name, and are compared together."""
    name = escape(one.name)
    logs = "".join(f"<br>{_link(log)}" for log in one.logs if len(one.logs) > 1)
    content = content_of(one)
    events = f"{content.events:,}" if content.events else ""
    cells = (content.kind, content.begin or content.unknown, events, iso_time(one.changed_ns))
    texts = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    choices = "".join(
        f'<label><input type="radio" name="{field}" value="{name}"> {label}</label> '
        for field, label in (("log", "A"), ("against", "B"))
    )
    return f"<tr><td>{_link(one)}{logs}</td>{texts}<td>{choices}</td></tr>"


def _link(one: ServedLog) -> str:
    address = escape("/report?" + urlencode({"log": one.name}))
    return f'<a href="{address}">{escape(one.name)}</a>'
