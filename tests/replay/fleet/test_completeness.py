"""Each command reports the records that a table lacks, until a sound copy repairs the table."""

import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from replay.fleet import manifest
from replay.fleet.analysis.analyse import AnalysisOptions, analyse
from replay.fleet.errors import FleetError
from replay.fleet.ingest import ingest
from replay.fleet.replaying.divergence_list import DivergenceFilter, list_divergences
from replay.fleet.replaying.results import DIVERGENCES, REPLAYED, by_rule
from replay.fleet.replaying.summary import summary
from replay.fleet.replaying.versions import ShippedVersion
from tests.replay.fleet.spark_settings import QUICK
from tests.replay.fleet.stock_table import unpacked
from tools.fleet.histories import GeneratedHistory, write_log

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(900),
    # Spark's client leaves its sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

CLUSTER = "mPC-pFxJRw6WRxwOlzxfAg"
VERSION = ShippedVersion("v1", "c0de", "core", "1.0", None)


@pytest.fixture(scope="module")
def fast_spark(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark for many small tables."""
    before = {name: spark.conf.get(name) for name in QUICK}
    for name, value in QUICK.items():
        spark.conf.set(name, value)
    yield spark
    for name, was in before.items():
        spark.conf.set(name, was or "")


@pytest.fixture
def table_of_one_log(
    fast_spark: SparkSession, short_history: GeneratedHistory, tmp_path: Path
) -> tuple[Path, str]:
    """A table with one log, and the name of the log."""
    table = tmp_path / "table"
    write_log(tmp_path / "log", short_history, CLUSTER, 1)
    ingest(fast_spark, [str(tmp_path / "log")], table)
    [log] = [row.log for row in manifest.segments(fast_spark, table).collect()]
    return table, log


def add_replays(
    table: Path, log: str, rules: Sequence[str] = ("election",), rule: str = "election"
) -> None:
    """The results of a replay: of ten decisions by each rule, one by `rule` differs."""
    count = 10 * len(rules)
    whose = {"cluster": CLUSTER, "log": log, "version": "v1", "code": "c0de", "core": "core"}
    replayed = {**whose, "code_version": "1.0", "decisions": count, "agreed": count - 1,
                "divergences": 1,
                "rules": [{"rule": one, "decisions": 10, "agreed": 10 - (one == rule)}
                          for one in rules]}  # fmt: skip
    found = {**whose, "rule": rule, "first_rule": rule, "counted_rule": rule,
             **dict.fromkeys(("what", "kind", "target"), "x"), "seq": 7, "first_seq": 7,
             "partitions": [], "differences": [], "details": [], "explained": "",
             "time": datetime(2026, 11, 21, tzinfo=UTC), "is_first": True,
             "is_harmless": False}  # fmt: skip
    for name, row, schema in (
        ("logs", replayed, REPLAYED),
        ("divergences", found, DIVERGENCES),
    ):
        place = table / "replays" / "batch=000001" / name
        place.mkdir(parents=True)
        parquet.write_table(pa.Table.from_pylist([row], schema), place / "1.parquet")


def test_damage_is_in_the_results_until_a_sound_copy_repairs_it(
    fast_spark: SparkSession, short_history: GeneratedHistory, tmp_path: Path
) -> None:
    source, table = unpacked("chaos-9120556", tmp_path / "sound"), tmp_path / "table"
    damaged = tmp_path / "fleet" / "damaged"
    shutil.copytree(source, damaged)
    file = damaged / "zookeeper" / "version-2" / "log.9f"
    content = bytearray(file.read_bytes())
    content[20_000] ^= 1
    file.write_bytes(content)
    (damaged / "more.zip").write_bytes(b"PK")
    write_log(tmp_path / "fleet" / "daemon", short_history, "other", 1)
    cut = write_log(tmp_path / "fleet" / "cut", short_history, "cut", 2)
    segment = cut / "00000000000000000001.refold"
    segment.write_bytes(segment.read_bytes()[:20_000])

    done = ingest(fast_spark, [str(tmp_path / "fleet")], table)
    assert (done.logs, done.incomplete, done.set_aside) == (2, 1, 1)
    [state] = [one for one in done.logs_with_notes if one.lacking]
    assert state.cluster == CLUSTER
    assert "log.9f ends at offset" in state.lacking[0]
    [packed] = [one for one in done.passed_over if one.kind == ".zip"]
    assert (packed.files, packed.names) == (1, [str(damaged / "more.zip")])
    # Inputs that are named next do not make the table complete.
    again = ingest(fast_spark, [str(tmp_path / "fleet" / "daemon")], table)
    assert (again.incomplete, again.set_aside, again.batch) == (1, 1, None)

    found = analyse(fast_spark, table, AnalysisOptions())
    assert (found.incomplete, found.set_aside) == (1, 1)
    first, resting = found.summaries[:2]
    assert first.title == "incomplete logs"
    assert [row[:2] for row in first.rows] == [[CLUSTER, state.log]]
    assert {row[0]: row[2] for row in resting.rows}["failovers"] > 0
    rows = {row.cluster: row for row in fast_spark.read.parquet(f"{table}/analysis/logs").collect()}
    assert not rows[CLUSTER].is_complete
    assert rows["other"].is_complete
    assert rows["other"].folder == "daemon"

    add_replays(table, state.log)
    result = summary(fast_spark, table, [VERSION], 0, None, 0.0)
    [of_version] = result.versions
    assert (of_version.incomplete, of_version.decisions_of_incomplete) == (1, 10)
    assert (result.incomplete, result.set_aside) == (1, 1)

    shutil.rmtree(cut)
    write_log(tmp_path / "copy" / "cut", short_history, "cut", 2)
    sources = [str(source), str(tmp_path / "copy"), str(tmp_path / "fleet")]
    repaired = ingest(fast_spark, sources, table)
    assert (repaired.incomplete, repaired.set_aside, repaired.replaced) == (0, 0, 1)
    segments = manifest.segments(fast_spark, table).where(f"cluster = '{CLUSTER}'").collect()
    assert [(row.first_zxid, row.last_zxid) for row in segments] == [(1, 0x154)]
    # Any Parquet reader counts each record once, and nothing else.
    files = [str(one) for one in (table / "records").rglob("*") if one.is_file()]
    counted = sum(parquet.ParquetFile(one).metadata.num_rows for one in files)
    assert counted == manifest.count_records(table)
    after = analyse(fast_spark, table, AnalysisOptions())
    assert (after.incomplete, after.set_aside, after.summaries[0].rows) == (0, 0, [])
    assert fast_spark.read.parquet(f"{table}/analysis/logs").where("not is_complete").count() == 0


def test_unknown_names_are_errors_that_list_the_known_ones(
    fast_spark: SparkSession, table_of_one_log: tuple[Path, str]
) -> None:
    table, log = table_of_one_log
    with pytest.raises(FleetError, match=f"--cluster mPC is unknown; .*[Kk]nown names: {CLUSTER}"):
        analyse(fast_spark, table, AnalysisOptions(clusters=("mPC",)))
    add_replays(table, log)
    for name, known in (
        ("version", "v1"),
        ("cluster", CLUSTER),
        ("log", log),
        ("rule", "election"),
    ):
        wrong = DivergenceFilter(**{name: "typo"})
        with pytest.raises(FleetError, match=f"--{name} typo is unknown; known names: {known}$"):
            list_divergences(fast_spark, table, wrong, 20)
    right = DivergenceFilter("v1", "election", CLUSTER, log)
    assert list_divergences(fast_spark, table, right, 20)[0] == 1


def test_rules_that_differ_in_the_id_of_a_broker_are_one_rule(
    fast_spark: SparkSession, table_of_one_log: tuple[Path, str]
) -> None:
    table, log = table_of_one_log
    of_brokers = ["remove 2 from ISR", "remove 3 from ISR"]
    add_replays(table, log, [*of_brokers, "KIP-236: roll back"], of_brokers[0])
    rows = {row.rule: row for row in by_rule(fast_spark, table).collect()}
    assert rows.keys() == {"remove N from ISR", "KIP-236: roll back"}
    row = rows["remove N from ISR"]
    assert (row.logs, row.decisions, row.agreed, row.divergences) == (1, 20, 19, 1)
    for rule, count in (("remove N from ISR", 1), (of_brokers[0], 1), (of_brokers[1], 0)):
        assert list_divergences(fast_spark, table, DivergenceFilter(rule=rule), 20)[0] == count, (
            rule
        )
