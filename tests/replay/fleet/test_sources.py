"""Spark's data sources give what refold's own readers give."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from eventstore.reader import LogReader
from replay.stock_clusters.zookeeper_log.source import open_source
from replay.stock_clusters.zookeeper_log.transactions import Multi
from tools.fleet.incidents import History, write_log

pytestmark = [
    pytest.mark.timeout(400),
    # Spark's client leaves its sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

RECORDING = Path(__file__).parents[2] / "recordings" / "topics-1.tar.xz"


@pytest.fixture(scope="module")
def logs(told: History, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    write_log(folder / "a", told, "a", 1)
    write_log(folder / "b", told, "b", 2, segment_bytes=200_000)
    return folder


def test_folder_of_logs(spark: SparkSession, logs: Path, told: History) -> None:
    assert len(LogReader(logs / "b").segments) > 1
    frame = spark.read.format("refold").load(str(logs))
    found = {
        (row.cluster, row.record): row["count"]
        for row in frame.groupBy("cluster", "record").count().collect()
    }
    of_each = {"event": 400, "command": len(told.commands)}
    assert found == {
        (cluster, record): count for cluster in "ab" for record, count in of_each.items()
    }
    assert frame.select("cluster", "log").distinct().count() == 2


def test_filters_and_columns_reach_the_log(spark: SparkSession, logs: Path) -> None:
    frame = spark.read.format("refold").option("columns", "seq, kind, cluster").load(str(logs))
    assert frame.columns == ["seq", "kind", "cluster"]
    wanted = frame.where("kind = 'watch_fired' and seq > 100 and cluster = 'a'")
    plan = wanted._jdf.queryExecution().executedPlan()
    assert "Filter (" not in plan.toString(), "Spark looks again"
    expected = [
        one.seq
        for one in LogReader(logs / "a").events()
        if one.kind == "watch_fired" and one.seq > 100
    ]
    assert sorted(row.seq for row in wanted.collect()) == expected
    assert expected
    came = plan.collectLeaves().apply(0).metrics().apply("numOutputRows").value()
    assert came == len(expected), "the source gave no more than what is wanted"


def test_large_segment_is_several_partitions(
    spark: SparkSession, logs: Path, told: History, monkeypatch: pytest.MonkeyPatch
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
    assert len(commands) == len(told.commands) == len(rows) - 400


def test_stock_clusters_transactions(spark: SparkSession) -> None:
    with open_source(RECORDING) as source:
        transactions = list(source.transactions())
    operations = sum(
        len(one.content.operations) if isinstance(one.content, Multi) else 1 for one in transactions
    )
    frame = spark.read.format("zookeeper-txnlog").load(str(RECORDING))
    assert frame.count() == operations
    middle = transactions[len(transactions) // 2]
    behind = frame.where(f"zxid > {middle.zxid}").select("zxid").distinct().count()
    assert behind == sum(one.zxid > middle.zxid for one in transactions)
    moment = datetime.fromtimestamp(middle.time_ms / 1000, UTC)
    early = frame.where(frame.time < moment).select("zxid").distinct().count()
    assert early == sum(one.time_ms < middle.time_ms for one in transactions)
    states = frame.where("leader is not null and topic is not null and partition is not null")
    assert states.where("array_contains(isr, leader)").count() > 0


@pytest.fixture
def setting(spark: SparkSession) -> Iterator[str]:
    """Which a user's own session does not have, unless the user gives it."""
    name = "spark.sql.python.filterPushdown.enabled"
    yield name
    spark.conf.set(name, "true")


def test_session_that_pushes_no_filters(spark: SparkSession, setting: str, logs: Path) -> None:
    """What is found is the same; only with the setting the sources are told what is wanted."""
    wanted = {
        ("refold", str(logs)): "seq > 100 and kind = 'watch_fired' and cluster = 'a'",
        ("zookeeper-txnlog", str(RECORDING)): "type = 'create' and zxid > 50",
    }
    for (source, path), where in wanted.items():
        found = []
        for is_pushed in (False, True):
            spark.conf.set(setting, str(is_pushed).lower())
            frame = spark.read.format(source).load(path).where(where)
            plan = frame._jdf.queryExecution().executedPlan().toString()
            is_wholly_pushed = is_pushed and source == "refold"
            assert ("Filter (" in plan) is not is_wholly_pushed, "Spark looks (again)"
            found.append(frame.count())
        assert found[0] == found[1] > 0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "name what to read"),
        ({"path": "/no/such/place"}, "is not there"),
        ({"path": "/proc/self/fdinfo"}, "holds no segment"),
        ({"path": "/", "columns": "seq, colour"}, "no column 'colour'"),
        ({"path": "/", "rowsPerPartition": "none"}, "rowsPerPartition"),
        ({"path": "/", "damaged": "maybe"}, "damaged is 'maybe'"),
    ],
)
def test_wrong_options_are_told(options: dict[str, str], reason: str, spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match=reason):
        spark.read.format("refold").options(**options).load().count()


def test_damaged_log_fails_by_name_or_is_left_out(
    spark: SparkSession, told: History, tmp_path: Path
) -> None:
    write_log(tmp_path / "good", told, "good", 1)
    segment = write_log(tmp_path / "cut", told, "cut", 2) / "00000000000000000001.refold"
    segment.write_bytes(segment.read_bytes()[:20_000])
    frame = spark.read.format("refold").load(str(tmp_path))
    with pytest.raises(PySparkException, match="replace the file with an intact copy"):
        frame.count()
    left = spark.read.format("refold").option("damaged", "skip").load(str(tmp_path))
    assert left.where("cluster = 'good' and record = 'event'").count() == 400
