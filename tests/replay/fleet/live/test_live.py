"""`refold fleet live` on a real topic, also when it is killed; the topic's records as a stream."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from eventstore.mirror.publishing import Publisher
from eventstore.mirror.topic import MirrorTopic
from replay.fleet import manifest
from replay.fleet.columns import RECORDS
from replay.fleet.ingest import ingest
from tests.lab.shared_cluster import shared_cluster
from tests.replay.fleet.live.job import (
    START_MAX_S,
    batches_begun,
    command,
    job,
    kafka_jars,
    log_rows,
    table,
)
from tests.replay.fleet.live.mirrored import counted
from tests.waiting import block_until_found
from tools.fleet.histories import GeneratedHistory, GrowingLog, write_log

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(600),
    # Spark's client leaves its sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

LAG_MAX_S = 10


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with shared_cluster(tmp_path_factory.mktemp("mirrored"), 1) as lab:
        yield lab.bootstrap


@pytest.fixture(scope="module")
def jars() -> str:
    return kafka_jars()


def publish(logs: Path, bootstrap: str, topic: str) -> None:
    where = MirrorTopic(topic, {"bootstrap_servers": bootstrap})
    anyio.run(Publisher(logs, where, lambda _: None).publish)


def test_killed_job_resumes_to_the_expected_health(
    short_history: GeneratedHistory, bootstrap: str, jars: str, tmp_path: Path
) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    write_log(tmp_path / "whole", short_history, "a", 1)
    plain = counted(tmp_path / "whole")
    start = command(bootstrap, "live", out, jars)
    with GrowingLog(logs / "run-1", short_history, "a", 1) as growing:
        growing.until(100)
        publish(logs, bootstrap, "live")
        with job(start) as process:
            block_until_found(
                lambda: log_rows(out) == {"run-1": ("controller", 100, None)},
                "the log is folded up to event 100",
                START_MAX_S,
                process=process,
            )
            assert table(out) == {"a": plain[100]}
            for seq in (140, 180):
                growing.until(seq)
                publish(logs, bootstrap, "live")
                block_until_found(
                    lambda last=seq: log_rows(out)["run-1"][1] == last,
                    f"the log is folded up to event {seq}",
                    LAG_MAX_S,
                    process=process,
                )
                assert table(out) == {"a": plain[seq]}
        for seq in (230, 280):
            # Spark has begun a batch; the table may or may not have it.
            begun = batches_begun(out)
            with job(start) as process:
                growing.until(seq)
                publish(logs, bootstrap, "live")
                block_until_found(
                    lambda before=begun: batches_begun(out) > before,
                    "a batch begins",
                    START_MAX_S,
                    process=process,
                )
        growing.until(400)
    publish(logs, bootstrap, "live")
    once = subprocess.run([*start, "--once"], capture_output=True, text=True, timeout=300)
    assert once.returncode == 0, once.stderr
    assert log_rows(out) == {"run-1": ("ended", 400, None)}
    assert table(out) == {"a": plain[400]}


def test_lost_checkpoint_repeats_all_messages_and_changes_nothing(
    short_history: GeneratedHistory, bootstrap: str, jars: str, tmp_path: Path
) -> None:
    """Two logs of one cluster; the checkpoint is deleted between two runs."""
    out = tmp_path / "out"
    for number in (1, 2):
        write_log(tmp_path / "logs" / f"run-{number}", short_history, "a", number)
    publish(tmp_path / "logs", bootstrap, "again")
    arguments = command(bootstrap, "again", out, jars, "--once", "--json")
    for _ in range(2):
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert {row[:2] for row in log_rows(out).values()} == {("ended", 400)}
        assert table(out) == {"a": counted(tmp_path / "logs" / "run-2")[-1]}
        for file in sorted((out / "checkpoint").rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()
    assert '"events":0' in done.stdout
    other = subprocess.run(
        command(bootstrap, "live", out, jars), capture_output=True, text=True, timeout=300
    )
    assert other.returncode == 2
    assert "belongs to topic again on Kafka cluster" in other.stderr
    assert "Traceback" not in other.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_the_job_with_status_ended(
    number: signal.Signals,
    short_history: GeneratedHistory,
    bootstrap: str,
    jars: str,
    tmp_path: Path,
) -> None:
    out, topic = tmp_path / "out", f"ended-by-{number.name}"
    write_log(tmp_path / "logs" / "run-1", short_history, "a", 1)
    publish(tmp_path / "logs", bootstrap, topic)
    with job(command(bootstrap, topic, out, jars)) as process:
        block_until_found(lambda: log_rows(out), "a log is folded", START_MAX_S, process=process)
        process.send_signal(number)
        _, output = process.communicate(timeout=60)
        assert process.returncode == 0
        assert json.loads((out / "status.json").read_text())["state"] == "ended"
        assert output.count(f" started, reads topic {topic} at ") == 1, output
        assert "Traceback" not in output


def test_job_that_ends_by_itself_says_when_and_its_rows_join_with_those_of_ingest(
    spark: SparkSession, short_history: GeneratedHistory, bootstrap: str, jars: str, tmp_path: Path
) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    write_log(logs / "run-1", short_history, "joined", 1)
    publish(logs, bootstrap, "once")
    begun = datetime.now(UTC)
    arguments = command(bootstrap, "once", out, jars, "--once")
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    status = json.loads((out / "status.json").read_text())
    assert (status["state"], status["trouble"]) == ("ended", None)
    as_of, looked = (datetime.fromisoformat(status[one]) for one in ("as_of", "looked"))
    assert begun < as_of <= looked < datetime.now(UTC)
    ingest(spark, [str(logs)], tmp_path / "table")
    segments = manifest.segments(spark, tmp_path / "table")
    ingested = {(one.cluster, one.log, one.folder) for one in segments.collect()}
    [followed] = parquet.read_table(out / "logs").to_pylist()
    assert {(followed["cluster"], followed["log"], followed["folder"])} == ingested
    health = spark.read.parquet(str(out / "health"))
    assert health.join(segments, ["cluster", "log"], "left_semi").count() == health.count() > 0


def test_missing_topic_is_an_error(bootstrap: str, jars: str, tmp_path: Path) -> None:
    arguments = command(bootstrap, "nothing", tmp_path / "out", jars)
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "there is no such topic" in done.stderr
    assert not (tmp_path / "out").exists()


def test_missing_connector_is_an_error_with_its_coordinates(
    short_history: GeneratedHistory, bootstrap: str, tmp_path: Path
) -> None:
    write_log(tmp_path / "logs" / "run-1", short_history, "a", 1)
    publish(tmp_path / "logs", bootstrap, "bare")
    arguments = command(bootstrap, "bare", tmp_path / "out", "")
    done = subprocess.run(arguments[:-2], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert "spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:" in done.stderr
    assert "Traceback" not in done.stderr


def test_records_of_the_topic_equal_those_of_the_data_source(
    short_history: GeneratedHistory, spark: SparkSession, bootstrap: str, jars: str, tmp_path: Path
) -> None:
    """Except for the columns that only the log itself contains."""
    for cluster in "ab":
        write_log(tmp_path / cluster / f"run-{cluster}", short_history, cluster, 1)
        publish(tmp_path / cluster, bootstrap, "streamed")
    streamed = str(tmp_path / "streamed")
    job = [sys.executable, "-m", "tests.replay.fleet.live.streamed"]
    subprocess.run([*job, bootstrap, "streamed", jars, streamed], check=True, timeout=300)
    found = spark.read.parquet(streamed)
    expected = spark.read.format("refold").load(f"{tmp_path / 'a'},{tmp_path / 'b'}")
    assert found.columns == expected.columns == RECORDS.names
    clocks = ["time", "wall_ns", "mono_ns"]
    for record, other in (("event", ["log"]), ("command", ["log", *clocks])):
        mine, theirs = (one.where(f"record = '{record}'") for one in (found, expected))
        assert mine.count() == theirs.count() > 0
        assert mine.drop(*other).exceptAll(theirs.drop(*other)).isEmpty()
    assert {row.log for row in found.select("log").distinct().collect()} == {"run-a", "run-b"}
    exact = expected.where("record = 'command'").selectExpr("cluster", "seq", "wall_ns as ns")
    off = found.where("record = 'command'").join(exact, ["cluster", "seq"])
    assert off.where("abs(ns - wall_ns) >= 1000000 or wall_ns is null").isEmpty()
