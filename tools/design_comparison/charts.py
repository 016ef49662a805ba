"""The charts of docs/design-comparison.md, as SVG.

Mermaid's xychart has neither a legend nor bars side by side nor a logarithmic axis.
"""

from collections.abc import Callable, Mapping, Sequence
from math import ceil, floor, log10
from typing import Final
from xml.sax.saxutils import escape

from replay.world.scheduler import SECOND
from tools.design_comparison.broker_failure import CASES, TITLES, BrokerFailure, seconds
from tools.design_comparison.comparison import DESIGNS, DesignComparison
from tools.design_comparison.scenarios import FAULTS
from tools.design_comparison.tables import all_failures, is_time_known

COLOURS: Final = ("#c2410c", "#1d4ed8", "#0f766e")
_LEGENDS: Final = ("0.8 design", "controller")
_WIDTH: Final = 760
_LEFT: Final = 230
_BAR: Final = 14


def charts(compared: DesignComparison) -> dict[str, str]:
    """All charts by the name of their file."""
    both = [compared.designs[one] for one in DESIGNS]
    failures = {
        TITLES[case]: [one for one in all_failures(compared.failures) if one.case == case]
        for case in CASES
    }
    return {
        "unavailable": bar_chart(
            "Unavailable partition-seconds, by the last fault",
            _totals([one.gaps for one in both]),
        ),
        "commit": bar_chart(
            "Partition-seconds until acks all succeeds again, by the last fault",
            _totals([one.commit_gaps for one in both]),
        ),
        "lost": bar_chart(
            "Acknowledged records that are lost, per million",
            {
                f"acks {acks}": [
                    1e6 * one.lost.get(acks, 0) / max(1, one.acknowledged.get(acks, 0))
                    for one in both
                ]
                for acks in ("0", "1", "all")
            },
        ),
        "two-leaders": bar_chart(
            "Partition-seconds with two leaders, by the last fault",
            _totals([one.overlaps for one in both]),
        ),
        "failover": _by_partitions(
            "Seconds from the end of the session until the last partition has a leader",
            failures,
            lambda one: one.elected_ms / 1000 if is_time_known(one, compared.failures) else 0,
        ),
        "operations": _by_partitions(
            "Znodes read and written after one broker's failure",
            failures,
            lambda one: one.operations.reads + one.operations.writes,
        ),
        "watches": _by_partitions(
            "Watches set, and watch events, after one broker's failure",
            failures,
            lambda one: one.operations.watches + one.operations.events,
        ),
        "time": _by_partitions(
            "Seconds that one ZooKeeper needs for these operations", failures, seconds
        ),
    }


def _by_partitions(
    title: str,
    failures: Mapping[str, Sequence[BrokerFailure]],
    value: Callable[[BrokerFailure], float],
) -> str:
    """A line for each case. A value of 0 is left out."""
    points = {
        case: [(one.partitions, value(one)) for one in of_case]
        for case, of_case in failures.items()
    }
    return lines(title, "partitions in the cluster of five brokers", points)


def _totals(both: Sequence[Mapping[str, Sequence[int]]]) -> dict[str, list[float]]:
    """Partition-seconds by the kinds of faults that any of both designs has times for."""
    kinds = [kind for kind in FAULTS if any(one.get(kind) for one in both)]
    return {kind: [sum(one.get(kind, ())) / SECOND for one in both] for kind in kinds}


def bar_chart(title: str, groups: Mapping[str, Sequence[float]]) -> str:
    """Horizontal bars, one for each design in a group."""
    highest = max((one for values in groups.values() for one in values), default=0) or 1
    scale = (_WIDTH - _LEFT - 90) / highest
    parts, y = _head(title, _LEGENDS), 70
    for name, values in groups.items():
        middle = y + _BAR * len(values) / 2 + 4
        parts.append(_text(_LEFT - 8, middle, name, "end"))
        for colour, value in zip(COLOURS, values, strict=False):
            width = max(1.0, value * scale)
            parts.append(
                f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR - 2}" '
                f'fill="{colour}"/>'
            )
            parts.append(_text(_LEFT + width + 5, y + _BAR - 4, _number(value), "start"))
            y += _BAR
        y += 10
    return _svg(y + 6, parts)


def lines(title: str, x_title: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Lines with logarithmic axes."""
    left, top, right, bottom = 80, 90, _WIDTH - 30, 400
    points = [one for of_case in series.values() for one in of_case if one[1] > 0] or [(1, 1)]
    x_low, x_high = _decades([one[0] for one in points])
    y_low, y_high = _decades([one[1] for one in points])

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            left + (log10(x) - x_low) / (x_high - x_low) * (right - left),
            bottom - (log10(y) - y_low) / (y_high - y_low) * (bottom - top),
        )

    parts = _head(title, list(series))
    for exponent in range(x_low, x_high + 1):
        x, _ = place(10**exponent, 10**y_low)
        parts.append(_line(x, top, x, bottom))
        parts.append(_text(x, bottom + 18, _number(10**exponent), "middle"))
    for exponent in range(y_low, y_high + 1):
        _, y = place(10**x_low, 10**exponent)
        parts.append(_line(left, y, right, y))
        parts.append(_text(left - 8, y + 4, _number(10**exponent), "end"))
    for colour, of_case in zip(COLOURS, series.values(), strict=False):
        places = [place(*one) for one in of_case if one[1] > 0]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in places]
    parts.append(_text((left + right) / 2, bottom + 40, x_title, "middle"))
    return _svg(bottom + 56, parts)


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    return low, max(high, low + 1)


def _head(title: str, legends: Sequence[str]) -> list[str]:
    parts = [f'<text x="16" y="26" font-size="15" font-weight="bold">{escape(title)}</text>']
    x = 16.0
    for colour, legend in zip(COLOURS, legends, strict=False):
        parts.append(f'<rect x="{x}" y="40" width="12" height="12" fill="{colour}"/>')
        parts.append(_text(x + 17, 50, legend, "start"))
        x += 40 + 7 * len(legend)
    return parts


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>'


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _svg(height: float, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" '
        f'width="{_WIDTH}" height="{height:.0f}" font-family="sans-serif" font-size="12">'
    )
    background = '<rect width="100%" height="100%" fill="white"/>'
    return "\n".join([head, background, *parts, "</svg>"]) + "\n"
