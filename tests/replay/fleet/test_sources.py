"""Spark's data sources return what refold's readers return."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from eventstore.reader import LogReader
from replay.stock_clusters.zookeeper_log.source import open_source
from replay.stock_clusters.zookeeper_log.transactions import Multi
from tools.fleet.histories import GeneratedHistory, write_log

pytestmark = [
    pytest.mark.timeout(400),
    # Spark's client leaves its sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

RECORDING = Path(__file__).parents[2] / "recordings" / "topics-1.tar.xz"


@pytest.fixture(scope="module")
def logs(short_history: GeneratedHistory, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    write_log(folder / "a", short_history, "a", 1)
    write_log(folder / "b", short_history, "b", 2, segment_bytes=200_000)
    return folder


@pytest.mark.long
def test_folder_of_logs_has_the_records_of_each_log(
    spark: SparkSession, logs: Path, short_history: GeneratedHistory
) -> None:
    assert len(LogReader(logs / "b").segments) > 1
    frame = spark.read.format("refold").load(str(logs))
    found = {
        (row.cluster, row.record): row["count"]
        for row in frame.groupBy("cluster", "record").count().collect()
    }
    of_each = {"event": 400, "command": len(short_history.commands)}
    assert found == {
        (cluster, record): count for cluster in "ab" for record, count in of_each.items()
    }
    assert frame.select("cluster", "log").distinct().count() == 2


@pytest.mark.long
def test_filters_and_columns_reach_the_log(spark: SparkSession, logs: Path) -> None:
    frame = spark.read.format("refold").option("columns", "seq, kind, cluster").load(str(logs))
    assert frame.columns == ["seq", "kind", "cluster"]
    selected = frame.where("kind = 'watch_fired' and seq > 100 and cluster = 'a'")
    plan = selected._jdf.queryExecution().executedPlan()
    assert "Filter (" not in plan.toString(), "Spark evaluates the filter again"
    expected = [
        one.seq
        for one in LogReader(logs / "a").events()
        if one.kind == "watch_fired" and one.seq > 100
    ]
    assert sorted(row.seq for row in selected.collect()) == expected
    assert expected
    returned = plan.collectLeaves().apply(0).metrics().apply("numOutputRows").value()
    assert returned == len(expected), "the source returned more rows than match"


def test_large_segment_is_several_partitions(
    spark: SparkSession,
    logs: Path,
    short_history: GeneratedHistory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from pyspark.sql.types import StructType

    from replay.fleet import log_source
    from replay.fleet.columns import RECORDS
    from replay.fleet.schemas import spark_schema

    monkeypatch.setattr(log_source, "LARGE_BYTES", 1)
    options = {"path": str(logs / "a"), "rowsPerPartition": "150"}
    schema: StructType = spark_schema(RECORDS)
    reader = log_source.LogSourceReader(options, schema)
    partitions = reader.partitions()
    assert len(partitions) == 3
    rows = [row for one in partitions for batch in reader.read(one) for row in batch.to_pylist()]
    assert sorted(row["seq"] for row in rows if row["record"] == "event") == [*range(1, 401)]
    commands = {(row["seq"], row["ordinal"]) for row in rows if row["record"] == "command"}
    assert len(commands) == len(short_history.commands) == len(rows) - 400


def test_each_operation_of_a_stock_cluster_is_a_row(spark: SparkSession) -> None:
    with open_source(RECORDING) as source:
        transactions = list(source.transactions())
    operations = sum(
        len(one.content.operations) if isinstance(one.content, Multi) else 1 for one in transactions
    )
    frame = spark.read.format("zookeeper-txnlog").load(str(RECORDING))
    assert frame.count() == operations
    middle = transactions[len(transactions) // 2]
    later = frame.where(f"zxid > {middle.zxid}").select("zxid").distinct().count()
    assert later == sum(one.zxid > middle.zxid for one in transactions)
    moment = datetime.fromtimestamp(middle.time_ms / 1000, UTC)
    early = frame.where(frame.time < moment).select("zxid").distinct().count()
    assert early == sum(one.time_ms < middle.time_ms for one in transactions)
    states = frame.where("leader is not null and topic is not null and partition is not null")
    assert states.where("array_contains(isr, leader)").count() > 0


@pytest.fixture
def setting(spark: SparkSession) -> Iterator[str]:
    """The setting that a user's session does not have by default."""
    name = "spark.sql.python.filterPushdown.enabled"
    yield name
    spark.conf.set(name, "true")


@pytest.mark.long
def test_session_without_filter_pushdown_returns_the_same_rows(
    spark: SparkSession, setting: str, logs: Path
) -> None:
    """Only with the setting are filters passed to the sources."""
    selected = {
        ("refold", str(logs)): "seq > 100 and kind = 'watch_fired' and cluster = 'a'",
        ("zookeeper-txnlog", str(RECORDING)): "type = 'create' and zxid > 50",
    }
    for (source, path), where in selected.items():
        found = []
        for is_pushed in (False, True):
            spark.conf.set(setting, str(is_pushed).lower())
            frame = spark.read.format(source).load(path).where(where)
            plan = frame._jdf.queryExecution().executedPlan().toString()
            is_wholly_pushed = is_pushed and source == "refold"
            assert ("Filter (" in plan) is not is_wholly_pushed, "Spark evaluates the filter"
            found.append(frame.count())
        assert found[0] == found[1] > 0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "no path is given"),
        ({"path": "/no/such/place"}, "does not exist"),
        ({"path": "/proc/self/fdinfo"}, "contains no segment"),
        ({"path": "/", "columns": "seq, colour"}, "unknown column 'colour'"),
        ({"path": "/", "rowsPerPartition": "none"}, "rowsPerPartition"),
        ({"path": "/", "damaged": "maybe"}, "damaged is 'maybe'"),
    ],
)
def test_wrong_option_is_an_error(
    options: dict[str, str], reason: str, spark: SparkSession
) -> None:
    with pytest.raises(PySparkException, match=reason) as raised:
        spark.read.format("refold").options(**options).load().count()
    assert "Traceback" not in str(raised.value)


def test_wrong_path_to_zookeeper_data_is_an_error_in_one_line(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="/no/such/place does not exist") as raised:
        spark.read.format("zookeeper-txnlog").load("/no/such/place").count()
    assert "Traceback" not in str(raised.value)


def test_damaged_log_fails_or_is_skipped(
    spark: SparkSession, short_history: GeneratedHistory, tmp_path: Path
) -> None:
    write_log(tmp_path / "good", short_history, "good", 1)
    segment = write_log(tmp_path / "cut", short_history, "cut", 2) / "00000000000000000001.refold"
    segment.write_bytes(segment.read_bytes()[:20_000])
    frame = spark.read.format("refold").load(str(tmp_path))
    with pytest.raises(PySparkException, match="replace the file with an intact copy"):
        frame.count()
    left = spark.read.format("refold").option("damaged", "skip").load(str(tmp_path))
    assert left.where("cluster = 'good' and record = 'event'").count() == 400
