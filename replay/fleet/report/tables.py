"""Tables in HTML. Cells contain text."""

from collections.abc import Callable, Sequence
from datetime import datetime
from html import escape
from typing import Any, Final, NamedTuple

from replay.fleet.report.findings import Rows

_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86_400


class Column(NamedTuple):
    """A column of a table: its heading, and the value of a row."""

    head: str
    of: Callable[[dict[str, Any]], object]
    is_number: bool = False


def text_column(name: str, head: str | None = None) -> Column:
    """A column with the row's value of this name."""
    return Column(head or name.replace("_", " "), lambda row: row[name])


def number_column(name: str, head: str | None = None) -> Column:
    """A column with a formatted number."""
    return Column(
        head or name.replace("_", " "), lambda row: format_count(row[name]), is_number=True
    )


def id_of(name: str, head: str | None = None) -> Column:
    """A column with a number that identifies something, unformatted so that it can be copied to a
    query."""
    return Column(head or name.replace("_", " "), lambda row: row[name], is_number=True)


def duration_column(name: str, head: str | None = None) -> Column:
    """A column with a duration in seconds."""
    return Column(head or name.replace("_", " "), lambda row: duration(row[name]), is_number=True)


def table(columns: Sequence[Column], rows: Rows) -> str:
    """A table with a heading; it scrolls if it is wider than the page."""
    heads = "".join(f"<th{_class(one)}>{escape(one.head)}</th>" for one in columns)
    body = "".join(
        "<tr>"
        + "".join(f"<td{_class(one)}>{html_cell(one.of(row))}</td>" for one in columns)
        + "</tr>"
        for row in rows
    )
    inner = f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide">{inner}</div>'


class Markup(str):
    """HTML that this package made. It is put into a cell unchanged."""

    __slots__ = ()


def html_cell(value: object) -> str:
    """A value as HTML."""
    match value:
        case Markup():
            return str(value)
        case None:
            return '<span class="none">-</span>'
        case datetime():
            return escape(utc_time(value))
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return escape(", ".join(map(str, value)))
    return escape(str(value))


def utc_time(value: datetime | None) -> str:
    """A time in UTC, to the second."""
    return "-" if value is None else f"{value:%Y-%m-%d %H:%M:%S}"


def in_words(name: str | None) -> str | None:
    """A name in the tables as words."""
    return None if name is None else name.replace("_", " ")


def format_count(value: float | None) -> str | None:
    """A number with thousands separators."""
    if value is None:
        return None
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def duration(seconds: float | None) -> str | None:
    """A duration in a suitable unit."""
    if seconds is None:
        return None
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 2 * _MINUTE_S:
        return f"{seconds:.1f} s"
    if seconds < 2 * _HOUR_S:
        return f"{seconds / _MINUTE_S:.1f} min"
    if seconds < 2 * _DAY_S:
        return f"{seconds / _HOUR_S:.1f} h"
    return f"{seconds / _DAY_S:.1f} d"


def _class(column: Column) -> str:
    return ' class="number"' if column.is_number else ""
