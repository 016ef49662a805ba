"""Pushed filters select the same rows as Spark's own evaluation."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from eventstore.reader import LogReader
from eventstore.segment import open_segment
from replay.fleet.columns import RECORDS, Batches, Origin
from replay.fleet.pushdown import push
from replay.fleet.segments import command_batches, event_batches
from tools.fleet.histories import GeneratedHistory, write_log

Row = dict[str, Any]


@pytest.fixture(scope="module")
def segment(short_history: GeneratedHistory, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return LogReader(
        write_log(tmp_path_factory.mktemp("logs") / "log", short_history, "c", 1)
    ).segments[0]


def rows(path: Path, *filters: Filter) -> tuple[list[Row], list[Filter]]:
    pushed, left = push(filters)
    batches = Batches(RECORDS, Origin("c", "l"))
    wanted = pushed.conditions
    with open_segment(path) as segment:
        made = [
            *event_batches(segment, batches, wanted.events, wanted.parameters),
            *command_batches(segment, batches, wanted.commands, wanted.parameters),
        ]
    return pa.Table.from_batches(made, RECORDS).to_pylist(), left


CASES: list[tuple[Filter, Callable[[Row], bool]]] = [
    (EqualTo(("seq",), 7), lambda row: row["seq"] == 7),
    (Not(EqualTo(("seq",), 7)), lambda row: row["seq"] != 7),
    (GreaterThan(("seq",), 390), lambda row: row["seq"] > 390),
    (GreaterThanOrEqual(("cause",), 390), lambda row: (row["cause"] or 0) >= 390),
    (LessThan(("term",), 1), lambda row: row["term"] < 1),
    (LessThanOrEqual(("seq",), 3), lambda row: row["seq"] <= 3),
    (EqualTo(("record",), "command"), lambda row: row["record"] == "command"),
    (
        In(("kind",), ("watch_fired", "notice")),
        lambda row: row["kind"] in ("watch_fired", "notice"),
    ),
    (IsNull(("channel",)), lambda row: row["channel"] is None),
    (IsNotNull(("channel",)), lambda row: row["channel"] is not None),
    (Not(EqualTo(("channel",), "session")), lambda row: row["channel"] not in (None, "session")),
    (EqualNullSafe(("origin",), None), lambda row: row["origin"] is None),
    (StringStartsWith(("kind",), "znodes"), lambda row: row["kind"].startswith("znodes")),
    (StringEndsWith(("kind",), "_isr"), lambda row: row["kind"].endswith("_isr")),
    (StringContains(("target",), "roker"), lambda row: "roker" in (row["target"] or "")),
]


@pytest.mark.parametrize(
    ("wanted", "lets_through"), CASES, ids=[str(wanted) for wanted, _ in CASES]
)
def test_filter_is_pushed_completely(
    wanted: Filter, lets_through: Callable[[Row], bool], segment: Path
) -> None:
    everything, _ = rows(segment)
    found, left = rows(segment, wanted)
    assert found == [row for row in everything if lets_through(row)]
    assert 0 < len(found) < len(everything)
    assert left == []


def test_time_filter_excludes_events_and_is_evaluated_again(segment: Path) -> None:
    everything, _ = rows(segment)
    moment: datetime = everything[200]["time"]
    wanted = GreaterThanOrEqual(("time",), moment)
    found, left = rows(segment, wanted)
    events = [row for row in found if row["record"] == "event"]
    assert events == [
        row for row in everything if row["record"] == "event" and row["time"] >= moment
    ]
    assert 0 < len(events) < 400
    assert left == [wanted]
    assert moment.astimezone(UTC) == moment


def test_filter_that_cannot_be_converted_is_left_to_spark() -> None:
    filters = [EqualTo(("topic",), "t"), EqualTo(("isr", "element"), 1), EqualTo(("mono_ns",), 1)]
    _, left = push(filters)
    assert left == filters


def test_log_of_another_cluster_does_not_match() -> None:
    pushed, left = push([EqualTo(("cluster",), "a"), IsNotNull(("cluster",))])
    assert left == []
    assert pushed.may_match("a", "l")
    assert not pushed.may_match("b", "l")
