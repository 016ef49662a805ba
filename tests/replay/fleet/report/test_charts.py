"""The labels and widths of charts, without a browser."""

from datetime import datetime
from typing import Any

import pytest
from msgspec.structs import replace

from replay.fleet.report.charts import charts_of
from tests.replay.fleet.report.samples import duration_row, findings

IDS = ["RQi8oyKXSzCy_pp3UpAR3g", "RQi8oyKXSzCy pp3UpAR3g"]


@pytest.fixture(scope="module")
def drawn() -> dict[str, Any]:
    actual = findings()
    of_clusters = [
        {"cluster": one, "unavailable_s": 60.0, "under_replicated_s": 120.0, "outages": 1}
        for one in IDS
    ]
    slow = [duration_row(one, 1.0) for one in IDS]
    answers = {**actual.answers, "clusters": of_clusters, "failovers_by_cluster": slow}
    return charts_of(replace(actual, answers=answers))


def test_cluster_names_are_shown_unchanged(drawn: dict[str, Any]) -> None:
    """Axis and hover text have the same label."""
    for chart in ("clusters", "failovers_by_cluster"):
        for bars in drawn[chart].data:
            assert list(bars.y) == IDS
            assert bars.hovertemplate.startswith("%{y}: ")
    assert all(list(bars.customdata) == IDS for bars in drawn["clusters"].data)


def test_long_names_with_equal_beginnings_have_separate_bars() -> None:
    actual = findings()
    names = [f"kafka-production-europe-west-{place}" for place in "abc"]
    slow = [duration_row(one, 1.0) for one in [*names, "kafka-production-asia-south"]]
    chart = charts_of(replace(actual, answers={**actual.answers, "failovers_by_cluster": slow}))
    for bars in chart["failovers_by_cluster"].data:
        *alike, other = bars.y
        assert alike == [f"kafka-production-europe… ({number})" for number in (1, 2, 3)]
        assert other == "kafka-production-asia-s…"


def test_causes_and_steps_are_shown_as_words(drawn: dict[str, Any]) -> None:
    causes = {label for bars in drawn["causes"].data for label in bars.y}
    assert causes == {"broker failure", "no eligible replica", "follower lag", "reassignment"}
    assert list(drawn["failover_steps"].data[0].y) == ["read partition states", "elect leaders"]


@pytest.mark.parametrize(
    ("unit", "month", "days"),
    [("hour", 2, 1 / 24), ("day", 2, 1), ("week", 2, 7), ("month", 1, 31), ("month", 2, 28)],
)
def test_bar_has_the_width_of_its_period(unit: str, month: int, days: float) -> None:
    """Also if the next period is far away."""
    far = [
        {"period": datetime(year, month, 1), "unavailable_s": 1.0, "under_replicated_s": 1.0}
        for year in (2026, 2027)
    ]
    actual = findings()
    sparse = replace(actual, period=unit, answers={**actual.answers, "over_time": far})
    for bars in charts_of(sparse)["over_time"].data:
        assert list(bars.width) == [days * 24 * 3_600_000] * 2
        assert bars.offset == 0
