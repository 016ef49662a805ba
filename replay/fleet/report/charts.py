"""Charts, as JSON for plotly's script.

Plotly interprets some tags in labels as markup, so text from logs is escaped here, too.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from html import escape
from typing import Any, Final

import plotly.graph_objects as go

from replay.fleet.report.findings import FleetFindings, Rows
from replay.fleet.report.tables import in_words

UNAVAILABLE: Final = "#b3372f"
UNDER_REPLICATED: Final = "#e0a040"
DURATION: Final = "#3b6ea5"
LIGHT_DURATION: Final = "#b8cce0"
_LABEL_CHARACTERS: Final = 24
_MS: Final = timedelta(milliseconds=1)
_MONTH_AT_MOST: Final = timedelta(days=31)
_ROW_PX: Final = 30
_HEAD_PX: Final = 110


def charts_of(findings: FleetFindings) -> dict[str, go.Figure]:
    """Charts by the name of their query; queries without rows have none."""
    answers = findings.answers
    drawn = {
        "over_time": _over_time(answers["over_time"], findings.period),
        "causes": _causes(answers["causes"]),
        "clusters": _clusters(answers["clusters"]),
        "failovers_by_cluster": _durations(
            answers["failovers_by_cluster"], lambda row: str(row["value"])
        ),
        "failover_steps": _durations(
            answers["failover_steps"], lambda row: in_words(row["step"]) or "not known"
        ),
    }
    return {name: figure for name, figure in drawn.items() if answers[name]}


def json_of(figure: go.Figure) -> str:
    """JSON for a script element of HTML. Plotly's JSON cannot end the element."""
    return str(figure.to_json())


def _over_time(rows: Rows, unit: str) -> go.Figure:
    """Each bar spans its period, even if the next period has no row."""
    figure = go.Figure()
    spans = [_end_of(one["period"], unit) - one["period"] for one in rows]
    for column, name, color in _STATES:
        figure.add_bar(
            x=[one["period"].isoformat() for one in rows],
            width=[one / _MS for one in spans],
            offset=0,
            y=[one[column] / 60 for one in rows],
            name=name,
            marker_color=color,
        )
    figure.update_layout(barmode="stack", yaxis_title="partition-minutes")
    return _laid_out(figure, 300)


_STATES: Final = (
    ("unavailable_s", "unavailable", UNAVAILABLE),
    ("under_replicated_s", "under-replicated", UNDER_REPLICATED),
)


def _end_of(period: datetime, unit: str) -> datetime:
    if unit == "month":
        return (period + _MONTH_AT_MOST).replace(day=1)
    return period + timedelta(**{f"{unit}s": 1})


def _causes(rows: Rows) -> go.Figure:
    figure = go.Figure()
    for what, color in (("unavailable", UNAVAILABLE), ("under_replicated", UNDER_REPLICATED)):
        found = [one for one in rows if one["what"] == what]
        labels = _labels([in_words(one["cause"]) or "not known" for one in found])
        _add_bars(figure, labels, [one["seconds"] / 60 for one in found], what, color)
    figure.update_layout(barmode="group", xaxis_title="partition-minutes")
    return _laid_out(figure, _height(len({one["cause"] for one in rows}) * 1.4))


def _clusters(rows: Rows) -> go.Figure:
    figure = go.Figure()
    labels = _labels([one["cluster"] for one in rows])
    for column, name, color in _STATES:
        _add_bars(figure, labels, [one[column] / 60 for one in rows], name, color)
        # The cluster that a click selects; the label may be shortened.
        figure.data[-1].customdata = [one["cluster"] for one in rows]
    figure.update_layout(barmode="stack", xaxis_title="partition-minutes")
    return _laid_out(figure, _height(len(rows)))


def _durations(rows: Rows, name_of: Callable[[dict[str, Any]], str]) -> go.Figure:
    """The median, and the difference to the 99th percentile."""
    figure = go.Figure()
    labels = _labels([name_of(one) for one in rows])
    _add_bars(figure, labels, [one["p50"] for one in rows], "median", DURATION)
    beyond = [max(one["p99"] - one["p50"], 0) for one in rows]
    _add_bars(figure, labels, beyond, "to the 99th percentile", LIGHT_DURATION)
    figure.update_layout(barmode="stack", xaxis_title="seconds")
    return _laid_out(figure, _height(len(rows)))


def _add_bars(
    figure: go.Figure, labels: list[str], values: list[Any], name: str, color: str
) -> None:
    figure.add_bar(
        y=labels,
        x=values,
        name=name.replace("_", "-"),
        orientation="h",
        marker_color=color,
        hovertemplate="%{y}: %{x:,.3~f}",
    )


def _laid_out(figure: go.Figure, height: int) -> go.Figure:
    axis = {"gridcolor": "#e6e6e6", "zerolinecolor": "#c8c8c8", "automargin": True}
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis)
    if any(one.orientation == "h" for one in figure.data):
        figure.update_yaxes(autorange="reversed", type="category")
    figure.update_layout(
        template="none",
        height=height,
        margin={"l": 10, "r": 15, "t": 30, "b": 45},
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        font={"family": "system-ui, sans-serif", "size": 13, "color": "#333"},
        bargap=0.3,
        showlegend=True,
    )
    return figure


def _height(rows: float) -> int:
    return int(_HEAD_PX + _ROW_PX * max(rows, 2))


def _labels(names: list[str]) -> list[str]:
    """Names as labels, unchanged except for the end of long ones. Equal labels are numbered, since
    bars with the same label would be merged."""
    found: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        found.setdefault(_short_label(name), []).append(name)
    shown = {}
    for label, alike in found.items():
        for number, name in enumerate(alike, 1):
            shown[name] = f"{label} ({number})" if len(alike) > 1 else label
    # Plotly would show escaped quotes literally.
    return [escape(shown[name], quote=False) for name in names]


def _short_label(name: str) -> str:
    return name if len(name) <= _LABEL_CHARACTERS else name[: _LABEL_CHARACTERS - 1] + "…"
