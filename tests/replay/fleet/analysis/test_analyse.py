"""`refold fleet analyse` compared with a plain Python calculation over the same logs. One analysis
for all tests."""

import re
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from replay.fleet import manifest
from replay.fleet.analysis import analyse as run_analysis
from replay.fleet.analysis.analyse import Analysis, AnalysisOptions, analyse
from replay.fleet.errors import FleetError
from replay.fleet.ingest import ingest
from replay.stock_clusters.imports.importing import Selection, import_source
from tests.replay.fleet.analysis.problem_log import STATE, history_with_problems
from tests.replay.fleet.driver import rows_collected
from tests.replay.fleet.plain_count import PlainCount
from tests.replay.fleet.spark_settings import QUICK
from tools.fleet.histories import GeneratedHistory, write_log

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(900),
    # Spark's client leaves its sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

TESTS = Path(__file__).parents[3]
INCIDENTS = (
    "reassignment",
    "session-expiry",
    "controlled-shutdown",
    "topic-deletion",
    "unclean-election",
)
RECORDINGS = ("unclean-3", "reassign-cancel-6")


class AnalysisTables:
    """The tables of one analysis, its logs, and the number of rows that reached the driver."""

    def __init__(self, spark: SparkSession, table: Path, logs: dict[str, Path]) -> None:
        self.spark, self.table, self.logs = spark, table, logs
        self.plans: dict[str, str] = {}
        self.rows_collected: list[int] = []
        self.result: Analysis

    def rows(self, name: str, log: str | None = None) -> list[Any]:
        """The rows of a table, of all logs or of one."""
        found = self.spark.read.parquet(str(self.table / "analysis" / name))
        if log is not None:
            found = found.where(found.log == log)
        return found.collect()


@pytest.fixture(scope="module")
def fast_spark(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark for many small tables."""
    before = {name: spark.conf.get(name) for name in QUICK}
    for name, value in QUICK.items():
        spark.conf.set(name, value)
    yield spark
    for name, was in before.items():
        spark.conf.set(name, was or "")


@pytest.fixture(scope="module")
def analysed(
    fast_spark: SparkSession,
    short_history: GeneratedHistory,
    tmp_path_factory: pytest.TempPathFactory,
) -> AnalysisTables:
    folder = tmp_path_factory.mktemp("fleet")
    logs = {}
    for name in INCIDENTS:
        with tarfile.open(TESTS / "incidents" / name / "log.tar.xz") as tar:
            tar.extractall(folder / "logs" / name, filter="data")
        logs[name] = folder / "logs" / name / "log"
    for name in RECORDINGS:
        logs[name] = folder / "logs" / name / "log"
        import_source(TESTS / "recordings" / f"{name}.tar.xz", logs[name], Selection())
    logs["short"] = write_log(folder / "logs" / "short", short_history, "short", 1)
    logs["made up"] = write_log(folder / "logs" / "made-up", history_with_problems(), "made up", 2)
    table = folder / "table"
    ingested = ingest(fast_spark, [str(folder / "logs")], table)
    assert ingested.set_aside == 0
    found = AnalysisTables(fast_spark, table, logs)
    with pytest.MonkeyPatch.context() as patch:
        _watch(patch, found, fast_spark)
        found.result = analyse(fast_spark, table, AnalysisOptions())
    names = {}
    for row in manifest.segments(fast_spark, table).collect():
        names[Path(row.path).parent.relative_to(folder / "logs").parts[0]] = row.log
    found.logs = {names[path.relative_to(folder / "logs").parts[0]]: path for path in logs.values()}
    return found


def _watch(patch: pytest.MonkeyPatch, found: AnalysisTables, spark: SparkSession) -> None:
    """Record the plan of each table, and how many rows reach the driver at once."""
    write = run_analysis.AnalysisRun.write

    def storing_plans(self: Any, name: str, frame: DataFrame) -> DataFrame:
        # `explain` prints, and several tables are computed at the same time.
        found.plans[name] = frame._jdf.queryExecution().toString()
        return write(self, name, frame)

    patch.setattr(run_analysis.AnalysisRun, "write", storing_plans)
    found.rows_collected = rows_collected(patch, spark)


@pytest.fixture(scope="module")
def expected_counts(analysed: AnalysisTables) -> dict[str, PlainCount]:
    return {log: PlainCount(path) for log, path in analysed.logs.items()}


def test_plans_are_sql_and_no_records_are_collected(analysed: AnalysisTables) -> None:
    assert set(analysed.plans) >= set(analysed.result.tables)
    for name, plan in analysed.plans.items():
        assert re.search(r"Parquet|FileScan", plan), name
        assert not re.search(r"EvalPython|InPandas|InArrow|PythonUDF|ExistingRDD", plan), name
    assert analysed.rows_collected
    assert max(analysed.rows_collected) <= 20


def test_all_tables_are_stored(analysed: AnalysisTables) -> None:
    stored = {path.name for path in (analysed.table / "analysis").iterdir() if path.is_dir()}
    assert stored == set(analysed.result.tables)
    assert {row.log for row in analysed.rows("logs")} == set(analysed.logs)
    assert [path.name for path in analysed.table.glob("analysis.*")] == ["analysis.lock"]


def test_failovers_equal_the_expected_ones(
    analysed: AnalysisTables, expected_counts: dict[str, PlainCount]
) -> None:
    for log, counted in expected_counts.items():
        done = [row for row in analysed.rows("failovers", log) if row.outcome == "done"]
        assert {row.term: round(row.seconds * 1e6) for row in done} == counted.failovers
        steps: Counter[int] = Counter()
        for row in analysed.rows("failover_steps", log):
            steps[row.term] += round(row.seconds * 1e6)
        assert steps == Counter(counted.failovers)
    durations = sorted(
        micros for one in expected_counts.values() for micros in one.failovers.values()
    )
    [whole] = [
        row
        for row in analysed.rows("failover_percentiles")
        if row.by == "all" and row.step == "total"
    ]
    assert (whole.failovers, round(whole.max * 1e6)) == (len(durations), durations[-1])
    middle = len(durations) // 2
    median = (durations[middle] + durations[~middle]) / 2
    assert whole.p50 == pytest.approx(median / 1e6)


def test_outages_equal_the_expected_ones(
    analysed: AnalysisTables, expected_counts: dict[str, PlainCount]
) -> None:
    for log, counted in expected_counts.items():
        found: Counter[tuple[str, int, str]] = Counter()
        for row in analysed.rows("outages", log):
            found[row.topic, row.partition, row.what] += round(row.seconds * 1e6)
        assert +found == +counted.outages, log
    sums = sum(row.partition_seconds for row in analysed.rows("outage_seconds"))
    assert sums == pytest.approx(
        sum(sum(one.outages.values()) for one in expected_counts.values()) / 1e6
    )


def test_outages_have_the_cause_of_their_incident(
    analysed: AnalysisTables, expected_counts: dict[str, PlainCount]
) -> None:
    causes = {
        (path.parent.name, row.cause)
        for log, path in analysed.logs.items()
        for row in analysed.rows("outages", log)
    }
    assert ("controlled-shutdown", "controlled_shutdown") in causes
    assert ("unclean-election", "broker_failure") in causes
    assert ("controlled-shutdown", "broker_failure") not in causes


def test_leader_changes_equal_the_expected_ones(
    analysed: AnalysisTables, expected_counts: dict[str, PlainCount]
) -> None:
    for log, counted in expected_counts.items():
        rows = analysed.rows("leader_changes", log)
        assert Counter((row.topic, row.partition) for row in rows) == counted.leader_changes, log
    churn = sum(row.changes for row in analysed.rows("leader_churn"))
    assert churn == sum(sum(one.leader_changes.values()) for one in expected_counts.values())
    assert churn > 50


def test_reassignments_equal_the_expected_ones(
    analysed: AnalysisTables, expected_counts: dict[str, PlainCount]
) -> None:
    outcomes: Counter[str] = Counter()
    for log, counted in expected_counts.items():
        rows = analysed.rows("reassignments", log)
        outcomes.update(row.outcome for row in rows)
        found = {
            (
                row.topic,
                row.partition,
                row.seq,
                row.ended_seq,
                row.outcome.replace("stuck", "ongoing"),
            )
            for row in rows
        }
        assert found == set(counted.moves), log
    assert outcomes["stuck"] == 1
    assert outcomes["completed"] > 2
    assert min(outcomes["cancelled"], outcomes["replaced"]) > 0


def test_broker_changes_equal_the_expected_ones(
    analysed: AnalysisTables, expected_counts: dict[str, PlainCount]
) -> None:
    for log, counted in expected_counts.items():
        rows = analysed.rows("broker_changes", log)
        gone = Counter(row.broker for row in rows if row.change == "gone")
        assert gone == counted.brokers.departures, log
    flapping = {(row.log, row.broker): row.times_gone for row in analysed.rows("flapping_brokers")}
    [actual] = [log for log, path in analysed.logs.items() if path.name == "short"]
    assert flapping
    for (log, broker), times in flapping.items():
        assert log == actual
        assert times == expected_counts[log].brokers.departures[broker] >= 3


def test_each_problem_of_the_made_up_log_is_found(analysed: AnalysisTables) -> None:
    [log] = [log for log, path in analysed.logs.items() if path.name == "made-up"]
    [race] = analysed.rows("races", log)
    assert (race.subject, race.broker, race.first_what, race.what) == (
        "broker",
        2,
        "isr_proposed",
        "broker_gone",
    )
    assert (race.first_seq, race.seq, race.gap_s) == (6, 7, 0.5)
    assert (race.verdict, race.decision_seq, race.decision_isr) == ("missed", 7, [1, 2])
    acts = {(row.how, row.seq, row.zombie_term, row.path) for row in analysed.rows("zombies", log)}
    assert acts == {("fenced_write", 10, 1, STATE), ("stale_request", 11, 1, STATE)}
    [moved] = analysed.rows("reassignments", log)
    assert (moved.outcome, moved.from_replicas, moved.to_replicas) == ("stuck", [1, 2], [1, 3])
    assert moved.seconds == 989
    lags = [row for row in analysed.rows("outages", log) if row.what == "under_replicated"]
    assert [(row.cause, row.broker, row.seq, row.is_open) for row in lags] == [
        ("broker_failure", 2, 9, True)
    ]


def test_options_that_match_no_log_are_an_error(analysed: AnalysisTables) -> None:
    with pytest.raises(FleetError, match=r"--cluster none is unknown; known names: .*, made up"):
        analyse(analysed.spark, analysed.table, AnalysisOptions(clusters=("none",)))
    with pytest.raises(FleetError, match="contains no log of these clusters and times"):
        analyse(analysed.spark, analysed.table, AnalysisOptions(end=1))
    # The previous analysis is kept.
    assert analysed.rows("failovers")
