"""The queries of a report, over an analysis that the test writes."""

import re
import shlex
import shutil
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from replay.fleet.errors import FleetError
from replay.fleet.ingest import ingest
from replay.fleet.manifest import segments
from replay.fleet.replaying.results import DIVERGENCES, REPLAYED
from replay.fleet.report import queries
from replay.fleet.report.collect import collect_findings
from replay.fleet.report.page import page_of
from replay.fleet.report.queries import TABLES
from replay.fleet.report.write import check_target, write_report
from replay.fleet.set_aside import SetAsideInput, write_set_aside
from tools.fleet.histories import GeneratedHistory, write_log

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(400),
    # Spark's client leaves its sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

AT = datetime(2026, 9, 21, tzinfo=UTC)
TEXT, COUNT, SPAN = pa.string(), pa.int64(), pa.float64()
TIME, BROKERS = pa.timestamp("us", "UTC"), pa.list_(pa.int64())
TEXTS = pa.list_(TEXT)
COLUMNS: dict[str, dict[str, pa.DataType]] = {
    "logs": {
        **dict.fromkeys(("cluster", "log"), TEXT),
        "is_complete": pa.bool_(),
        **dict.fromkeys(("lacking", "warnings"), TEXTS),
        "not_understood": COUNT,
        "events": COUNT,
        "seconds": SPAN,
        "first_time": TIME,
        "last_time": TIME,
    },
    "failovers": {"cluster": TEXT, "log": TEXT},
    "failover_percentiles": {
        "by": TEXT,
        "value": TEXT,
        "step": TEXT,
        "failovers": COUNT,
        **dict.fromkeys(("p50", "p90", "p99", "max"), SPAN),
    },
    "outages": {
        **dict.fromkeys(("cluster", "log", "topic", "what", "cause"), TEXT),
        **dict.fromkeys(("partition", "broker", "seq", "ended_seq", "leader"), COUNT),
        **dict.fromkeys(("time", "ended_time"), TIME),
        "seconds": SPAN,
        "is_open": pa.bool_(),
        "isr": BROKERS,
        "replicas": BROKERS,
    },
    "outage_seconds": {
        **dict.fromkeys(("cluster", "what", "cause"), TEXT),
        "outages": COUNT,
        "partition_seconds": SPAN,
        "longest": SPAN,
    },
    "leader_churn": {
        **dict.fromkeys(("cluster", "topic"), TEXT),
        **dict.fromkeys(("partition", "changes", "leaders", "returns"), COUNT),
        "changes_per_hour": SPAN,
    },
    "reassignments": {**dict.fromkeys(("cluster", "log", "outcome"), TEXT), "seconds": SPAN},
    "flapping_brokers": {
        "cluster": TEXT,
        **dict.fromkeys(("broker", "times_gone", "most_in_window"), COUNT),
        "shortest_up_s": SPAN,
    },
    "races": {
        **dict.fromkeys(("first_what", "what", "verdict", "cluster", "log"), TEXT),
        "gap_s": SPAN,
        "seq": COUNT,
    },
    "reassignment_races": {
        **dict.fromkeys(("first_what", "what", "verdict", "cluster", "log"), TEXT),
        "gap_s": SPAN,
        "seq": COUNT,
    },
    "zombies": {
        **dict.fromkeys(("cluster", "log", "how"), TEXT),
        "controller": COUNT,
        "seconds_after": SPAN,
    },
}


def outage(log: str, what: str, partition: int, begin_s: float, seconds: float) -> dict[str, Any]:
    at = AT + timedelta(seconds=begin_s)
    return {
        "cluster": "a",
        "log": log,
        "topic": "topic-1",
        "partition": partition,
        "what": what,
        "cause": "broker_failure",
        "broker": 2,
        "seq": 100 + int(begin_s),
        "ended_seq": 100 + int(begin_s + seconds),
        "time": at,
        "ended_time": at + timedelta(seconds=seconds),
        "seconds": seconds,
        "is_open": False,
    }


@pytest.fixture(scope="module")
def folder(
    spark: SparkSession, short_history: GeneratedHistory, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """An analysis with three periods of a log: two unavailable, one under-replicated."""
    place = tmp_path_factory.mktemp("reported")
    write_log(place / "logs", short_history, "a", 1)
    ingest(spark, [str(place / "logs")], place / "table")
    [log] = [row.log for row in segments(spark, place / "table").select("log").collect()]
    rows = {
        "logs": [
            {
                "cluster": "a",
                "log": log,
                "is_complete": False,
                "lacking": ["events 3 to 7 are missing"],
                "warnings": [],
                "not_understood": 0,
                "events": 400,
                "first_time": AT,
                "last_time": AT,
            }
        ],
        "outages": [
            outage(log, "unavailable", 0, 0, 30),
            # It overlaps the end of the previous outage.
            outage(log, "unavailable", 1, 20, 30),
            outage(log, "unavailable", 2, 55, 5),
            # More than 10 s later.
            outage(log, "unavailable", 0, 71, 6),
            outage(log, "under_replicated", 3, 0, 100),
        ],
        "failover_percentiles": [
            {"by": "all", "step": "read states", "failovers": 1, "p50": 1.0, "p99": 2.0},
            # Failovers that were not completed have no duration.
            {"by": "all", "step": "elect leaders", "failovers": 0},
        ],
    }
    for name in TABLES:
        target = place / "table" / "analysis" / name
        target.mkdir(parents=True)
        schema = pa.schema(list(COLUMNS[name].items()))
        parquet.write_table(pa.Table.from_pylist(rows.get(name, []), schema), target / "1.parquet")
    (place / "table" / "analysis" / "analysis.json").write_text('{"made": "now"}')
    return place / "table"


def test_incidents_are_periods_without_a_pause(spark: SparkSession, folder: Path) -> None:
    found = collect_findings(spark, folder, 20).incidents
    actual = [
        (one.about["what"], one.about["partitions"], one.about["partition_seconds"])
        for one in found
    ]
    assert actual == [
        ("unavailable", 3, 65.0),
        ("unavailable", 1, 6.0),
        ("under_replicated", 1, 100),
    ]
    first = found[0]
    assert [one["partition"] for one in first.partitions] == [0, 1, 2]
    numbers = [one["seq"] for one in first.records]
    assert numbers == sorted(numbers) != []
    assert numbers[0] >= 90
    assert numbers[-1] <= 170
    assert {one["kind"] for one in first.records if one["record"] == "command"} <= {
        "write_znodes",
        "write_atomically",
    }


def test_events_about_the_incidents_partitions_are_preferred(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = collect_findings(spark, folder, 20).incidents[2]
    # Responses of the broker that caused it, and the one write of two that is about topic-1-3.
    about = [one["seq"] for one in every.records if one["broker"] == 2 or one["seq"] == 90]
    assert 90 in about
    assert 1 < len(about) < len(every.records) / 2
    fewer = queries.RECORDS.replace("<= 150", f"<= {len(about)}")
    monkeypatch.setattr(queries, "RECORDS", fewer)
    few = collect_findings(spark, folder, 20).incidents[2].records
    assert [one["seq"] for one in few] == about
    assert few[0]["of_all"] == len(every.records)


def test_first_divergence_is_reported_for_each_version_and_log(
    spark: SparkSession, folder: Path
) -> None:
    """Versions with the same name are distinguished by their code. Harmless divergences do not
    count."""
    [log] = {row.log for row in segments(spark, folder).select("log").collect()}
    key = {"cluster": "a", "log": log, "version": "working-tree"}
    found = [
        {**key, "code": code, "what": "changed", "rule": rule, "seq": seq, "time": AT,
         "is_first": True, "is_harmless": seq == 90, "explained": "", "partitions": [f"t-{seq}"],
         "differences": [{"part": "data.leader", "recorded": "1", "version": "2"}]}
        for code, seq, rule in [
            ("c0de1111ff", 90, "harmless"), ("c0de1111ff", 140, "one"), ("c0de1111ff", 120, "two"),
            ("c0de2222ff", 130, "three"),
        ]
    ]  # fmt: skip
    counts = {"decisions": 10, "agreed": 8, "divergences": 2}
    replayed = [{**key, **counts, "code": code} for code in ("c0de1111ff", "c0de2222ff")]
    for name, rows, schema in (
        ("logs", replayed, REPLAYED),
        ("divergences", found, DIVERGENCES),
    ):
        place = folder / "replays" / "batch=000001" / name
        place.mkdir(parents=True)
        parquet.write_table(pa.Table.from_pylist(rows, schema), place / "1.parquet")
    actual = collect_findings(spark, folder, 20)
    shutil.rmtree(folder / "replays")
    assert actual.replays is not None
    assert {(one["version"], one["decisions"]) for one in actual.replays["versions"]} == {
        ("working-tree (c0de1111)", 10), ("working-tree (c0de2222)", 10)
    }  # fmt: skip
    assert {one["rule"] for one in actual.replays["divergences"]} == {"one", "two", "three"}
    firsts = [
        (one.about["version"], one.about["seq"], one.about["of_all"]) for one in actual.divergences
    ]
    assert firsts == [("working-tree (c0de1111)", 120, 2), ("working-tree (c0de2222)", 130, 1)]
    numbers = [one["seq"] for one in actual.divergences[0].records]
    assert numbers
    assert set(numbers) <= set(range(110, 131))


def test_incomplete_logs_are_reported_before_the_totals_that_rest_on_them(
    spark: SparkSession, folder: Path
) -> None:
    entry = SetAsideInput("/logs/a.tar", "the archive is damaged")
    write_set_aside(folder, [entry])
    found = collect_findings(spark, folder, 20)
    write_set_aside(folder, [])
    assert found.totals["incomplete"] == 1
    assert found.answers["resting"] == [
        {"total": "outages", "rows": 5, "of_incomplete_logs": 5, "clusters": 1}
    ]
    assert (found.set_aside, found.examples) == (1, [entry])
    page = page_of(found)
    [section] = re.findall(r"<h2>Completeness</h2>.*?</section>", page, re.DOTALL)
    for text in ("events 3 to 7 are missing", "/logs/a.tar", "the archive is damaged", "outages"):
        assert text in section
    assert page.index(section) < page.index("unavailable, summed over partitions")


def test_command_of_an_incident_selects_decoded_records_from_any_folder(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    page = unescape(page_of(collect_findings(spark, Path(folder.name), 20)))
    commands = re.findall(r"<code>(spark-sql -e .*?)</code>", page)
    assert len(commands) == 3
    [_, _, query] = shlex.split(commands[0])
    monkeypatch.chdir("/")
    rows = spark.sql(query).collect()
    assert {row.seq for row in rows} == set(range(90, 171))
    assert any(row.record == "command" and row.rule for row in rows)


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, [("unavailable", 65)]),
        (2, [("unavailable", 65), ("under_replicated", 100)]),
        (3, [("unavailable", 65), ("unavailable", 6), ("under_replicated", 100)]),
    ],
)
def test_both_kinds_of_incidents_get_places(
    count: int, expected: list[tuple[str, int]], spark: SparkSession, folder: Path
) -> None:
    found = [one.about for one in collect_findings(spark, folder, count).incidents]
    assert [(one["what"], one["partition_seconds"]) for one in found] == expected


def test_page_is_written_completely(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    size, incomplete, set_aside = write_report(spark, folder, tmp_path / "fleet.html", 20)
    assert (incomplete, set_aside) == (1, 0)
    text = (tmp_path / "fleet.html").read_text()
    assert len(text.encode()) == size
    assert text.startswith("<!doctype html>")
    assert text.count('class="incident"') == 3
    assert [one.name for one in tmp_path.iterdir()] == ["fleet.html"]


def test_missing_analysis_and_unusable_target_are_errors(
    spark: SparkSession, folder: Path, short_history: GeneratedHistory, tmp_path: Path
) -> None:
    write_log(tmp_path / "logs", short_history, "a", 1)
    ingest(spark, [str(tmp_path / "logs")], tmp_path / "table")
    with pytest.raises(FleetError, match="run `refold fleet analyse` first"):
        collect_findings(spark, tmp_path / "table", 20)
    with pytest.raises(FleetError, match="is not a table"):
        collect_findings(spark, tmp_path, 20)
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(FleetError, match="is a folder"):
        check_target(tmp_path / "folder.html")
    with pytest.raises(FleetError, match=r"fleet\.txt: the page is HTML"):
        check_target(tmp_path / "fleet.txt")
    with pytest.raises(FleetError, match="there is no folder"):
        check_target(tmp_path / "none" / "fleet.html")
