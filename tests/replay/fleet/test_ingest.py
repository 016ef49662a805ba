"""The table has each record once, also for logs that are copied, grown or damaged, and after
interruptions."""

import fcntl
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from eventstore.folders import segments_in
from replay.fleet import decoding, manifest
from replay.fleet import ingest as ingesting
from replay.fleet import table as tables
from replay.fleet.errors import FleetError
from replay.fleet.ingest import IngestResult, ingest
from tests.replay.fleet.driver import rows_collected
from tests.replay.fleet.replaying.logs import write_rolled
from tests.waiting import SPARK_SECONDS, block_until_found
from tools.fleet.histories import GeneratedHistory, simulated_history, write_log

pytestmark = [
    pytest.mark.timeout(400),
    # Spark's client leaves its sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

RECORDING = Path(__file__).parents[2] / "recordings" / "topics-1.tar.xz"


@pytest.fixture
def logs(short_history: GeneratedHistory, tmp_path: Path) -> Path:
    """A closed log of one cluster, and a growing one of another."""
    folder = tmp_path / "logs"
    write_log(folder / "a" / "run-1", short_history, "cluster a/ä", 1)
    write_log(folder / "b" / "run-1", short_history, "b", 2, until=150, is_closed=False)
    return folder


def counts(spark: SparkSession, out: Path) -> dict[tuple[str, str], tuple[int, int]]:
    """By cluster and kind of record: the number of records, and the number of distinct ones."""
    key = "struct(log, seq, if(record = 'event', null, ordinal))"
    rows = tables.records(spark, out).groupBy("cluster", "record")
    found = rows.agg(sql.count("*").alias("rows"), sql.expr(f"count(distinct {key})").alias("keys"))
    return {(row.cluster, row.record): (row.rows, row["keys"]) for row in found.collect()}


@pytest.mark.lab
@pytest.mark.ci
def test_grown_copied_and_damaged_logs_are_in_the_table_once(
    spark: SparkSession, short_history: GeneratedHistory, logs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "table"
    first = ingest(spark, [str(logs)], out)
    assert (first.logs, first.clusters, first.events, first.set_aside) == (2, 2, 550, 0)
    assert ingest(spark, [str(logs)], out).batch is None

    # One log grew, one was copied, a new one is cut, and an archive contains the first two.
    shutil.rmtree(logs / "b")
    write_log(logs / "b" / "run-1", short_history, "b", 2)
    shutil.copytree(logs / "a" / "run-1", logs / "a" / "copy")
    cut = write_log(logs / "c" / "run-1", short_history, "c", 3) / "00000000000000000001.refold"
    with tarfile.open(logs / "all.tar.gz", "w:gz") as tar:
        tar.add(logs / "a", "a")
        tar.add(logs / "b", "b")
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    second = ingest(spark, [str(logs / "*")], out)
    assert second.set_aside == 1
    assert second.examples[0].path == str(cut)
    assert "c/run-1" in (out / "set_aside.jsonl").read_text()
    commands = len(short_history.commands)
    assert counts(spark, out) == {
        ("cluster a/ä", "event"): (400, 400),
        ("cluster a/ä", "command"): (commands, commands),
        ("b", "event"): (400, 400),
        ("b", "command"): (commands, commands),
    }

    # A sound copy replaces the damaged log.
    shutil.rmtree(logs / "c")
    write_log(logs / "c" / "run-1", short_history, "c", 3)
    third = ingest(spark, [str(logs)], out)
    assert (third.events, third.set_aside) == (400, 0)
    assert manifest.segments(spark, out).groupBy("log").count().count() == 3


@pytest.mark.long
def test_longest_of_several_copies_is_ingested(
    spark: SparkSession,
    short_history: GeneratedHistory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The folder of the table is given as a relative path."""
    for name, until in (("a", 50), ("b", 150), ("c", 100)):
        write_log(tmp_path / "logs" / name, short_history, "c", 1, until=until, is_closed=False)
    with tarfile.open(tmp_path / "logs" / "later.tar", "w") as tar:
        log = write_log(tmp_path / "later", short_history, "c", 1, until=250, is_closed=False)
        tar.add(log, "log")
    (tmp_path / "logs" / "README").write_text("a file that is not a log")
    monkeypatch.chdir(tmp_path)
    first = ingest(spark, ["logs/*"], Path("table"))
    assert (first.events, first.segments, first.set_aside) == (150, 1, 0)
    # A glob does not look into archives that it does not match.
    second = ingest(spark, ["logs"], Path("table"))
    assert (second.events, second.segments, second.set_aside) == (100, 1, 0)
    assert counts(spark, tmp_path / "table")["c", "event"] == (250, 250)
    rows = tables.records(spark, tmp_path / "table").count()
    assert manifest.count_records(tmp_path / "table") == rows > 250


@pytest.mark.long
def test_log_with_the_header_of_another_one_is_set_aside(
    spark: SparkSession, short_history: GeneratedHistory, tmp_path: Path
) -> None:
    other = simulated_history(400, 1_790_000_000_000, seed=2)
    write_log(tmp_path / "logs" / "a", short_history, "c", 1)
    write_log(tmp_path / "logs" / "b", other, "c", 1, until=300, is_closed=False)
    done = ingest(spark, [str(tmp_path / "logs")], tmp_path / "table")
    assert (done.events, done.set_aside) == (400, 1)
    assert "but other records" in done.examples[0].reason


@pytest.mark.long
def test_changed_copy_does_not_hide_a_sound_one(
    spark: SparkSession, short_history: GeneratedHistory, tmp_path: Path
) -> None:
    """In the order of paths the changed copy of one log comes first, of the other one last."""
    logs = tmp_path / "logs"
    for cluster, changed in (("c", "a"), ("d", "b")):
        for name in "ab":
            log = write_log(logs / cluster / name, short_history, cluster, 1)
            if name == changed:
                change(log / "00000000000000000001.refold")
    alone = shutil.copytree(logs / "c" / "a", tmp_path / "alone")
    out = tmp_path / "table"
    first = ingest(spark, [str(alone)], out)
    assert (first.events, first.set_aside) == (0, 1)
    second = ingest(spark, [str(logs)], out)
    assert (second.events, second.logs) == (800, 2)
    assert [one.path for one in second.examples] == [
        str(logs / "c" / "a" / "00000000000000000001.refold")
    ]
    assert ingest(spark, [str(logs)], out).set_aside == 0
    found = counts(spark, out)
    assert (found["c", "event"], found["d", "event"]) == ((400, 400), (400, 400))


def change(segment: Path) -> None:
    connection = sqlite3.connect(segment)
    connection.execute("update events set payload = x'00' where seq = 222")
    connection.commit()
    connection.close()


@pytest.mark.long
def test_log_keeps_its_name_when_it_is_moved_and_its_first_segments_are_deleted(
    spark: SparkSession, short_history: GeneratedHistory, tmp_path: Path
) -> None:
    segments = segments_in(write_rolled(tmp_path / "whole", short_history, "c", 4))
    out = tmp_path / "table"
    for name, kept in (("day-1", segments[:2]), ("day-2", segments[2:3]), ("day-3", segments[2:])):
        (tmp_path / name).mkdir()
        for segment in kept:
            shutil.copy(segment, tmp_path / name)
        assert ingest(spark, [str(tmp_path / name)], out).set_aside == 0
    assert counts(spark, out)["c", "event"] == (400, 400)
    [log] = manifest.logs(manifest.segments(spark, out)).collect()
    assert (log.folder, log.lacking) == ("day-1", [])
    gone = ingest(spark, [str(tmp_path / "day-3")], tmp_path / "other")
    assert gone.incomplete == 1
    assert "events 1 to " in gone.logs_with_notes[0].lacking[0]


@pytest.mark.lab
def test_ctrl_c_ends_without_output_of_spark(
    short_history: GeneratedHistory, tmp_path: Path
) -> None:
    for number in range(30):
        write_log(tmp_path / "logs" / str(number), short_history, "c", number)
    out = tmp_path / "table"
    command = [
        sys.executable,
        "-m",
        "replay.cli.main",
        "fleet",
        "ingest",
        str(tmp_path / "logs"),
    ]
    process = subprocess.Popen(
        [*command, "--out", str(out), "--master", "local[1]"], stderr=subprocess.PIPE, text=True
    )
    block_until_found(
        lambda: list(out.glob("staging/*/inputs.parquet")),
        "the ingest writes its list of inputs",
        SPARK_SECONDS,
        process=process,
    )
    process.send_signal(signal.SIGINT)
    _, output = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "stopped: nothing was added; run the command again" in output
    assert "Traceback" not in output
    assert not list(out.glob("staging/*"))


@pytest.mark.long
def test_stock_cluster_is_in_the_table_once(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "table"
    copy = tmp_path / "copy.tar.xz"
    shutil.copy(RECORDING, copy)
    first = ingest(spark, [str(RECORDING), str(copy)], out)
    assert (first.logs, first.segments, first.set_aside) == (1, 1, 0)
    rows = decoding.records(spark, out)
    assert rows.where("kind = 'observed' and rule = 'election'").count() > 0
    assert rows.count() == rows.select("log", "seq").distinct().count() == first.events
    os.utime(copy)
    again = ingest(spark, [str(RECORDING), str(copy)], out)
    assert (again.batch, again.set_aside) == (None, 0)


@pytest.mark.lab
def test_driver_receives_only_sums(
    spark: SparkSession,
    short_history: GeneratedHistory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each log has its own files here. Inputs that are set aside would be listed on the driver."""
    for number in range(12):
        write_log(tmp_path / "logs" / str(number), short_history, "many", number, until=20)
    with tarfile.open(tmp_path / "all.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "logs", "logs")
    rows = rows_collected(monkeypatch, spark)
    done = ingest(spark, [str(tmp_path / "all.tar.gz")], tmp_path / "table")
    assert (done.segments, done.events, done.set_aside) == (12, 240, 0)
    assert len(list((tmp_path / "table").rglob("cluster=many/date=*/*.parquet"))) >= 12
    assert rows
    assert max(rows) == 1


class Killed(BaseException):
    """Ends an ingest immediately."""


@pytest.mark.lab
@pytest.mark.parametrize("step", ["survey", "choose", "read", "commit", "write_set_aside"])
def test_ingest_stopped_at_any_step_can_be_repeated(
    step: str,
    spark: SparkSession,
    logs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "table"

    def stop(*_: object) -> IngestResult:
        raise Killed

    place = ingesting if step == "write_set_aside" else ingesting.Ingest
    with monkeypatch.context() as patched:
        patched.setattr(place, step, stop)
        with pytest.raises(Killed):
            ingest(spark, [str(logs)], out)
    ingest(spark, [str(logs)], out)
    found = counts(spark, out)
    assert {key: one for key, one in found.items() if key[1] == "event"} == {
        ("cluster a/ä", "event"): (400, 400),
        ("b", "event"): (150, 150),
    }
    assert all(rows == different for rows, different in found.values())
    assert not (out / "staging").exists()


@pytest.mark.lab
def test_ingest_killed_while_writing_can_be_repeated(
    spark: SparkSession, short_history: GeneratedHistory, logs: Path, tmp_path: Path
) -> None:
    """The process group is killed when the first files exist."""
    out = tmp_path / "table"
    for number in range(10, 40):
        write_log(logs / "many" / str(number), short_history, "many", number)
    command = [sys.executable, "-m", "replay.cli.main", "fleet", "ingest", str(logs)]
    process = subprocess.Popen(
        [*command, "--out", str(out), "--master", "local[2]"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        block_until_found(
            lambda: list(out.glob("staging/*/records/cluster=*")),
            "the ingest writes records",
            SPARK_SECONDS,
            process=process,
        )
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert list(out.glob("records/*")) == []
    ingest(spark, [str(logs)], out)
    found = counts(spark, out)
    assert found["many", "event"] == (12_000, 12_000)
    assert all(rows == different for rows, different in found.values())


def test_folder_that_is_not_a_table_is_an_error(
    spark: SparkSession, logs: Path, tmp_path: Path
) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "letters.txt").write_text("mine")
    with pytest.raises(FleetError, match="contains other files"):
        ingest(spark, [str(logs)], foreign)
    newer = tmp_path / "newer"
    newer.mkdir()
    (newer / "refold-fleet.json").write_text('{"layout": 4}')
    with pytest.raises(FleetError, match="layout 4, not 3"):
        ingest(spark, [str(logs)], newer)
    with pytest.raises(FleetError, match="is not a table"):
        tables.records(spark, tmp_path)


def test_missing_or_empty_source_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for source, reason in (("empty", "contains nothing to read"), ("gone", "does not exist")):
        with pytest.raises(FleetError, match=reason):
            ingest(spark, [str(tmp_path / source)], tmp_path / "table")
    with pytest.raises(FleetError, match="does not exist"):
        ingest(spark, [str(tmp_path / "no*thing")], tmp_path / "table")
    assert not (tmp_path / "table").exists()


def test_second_ingest_into_a_table_is_refused(
    spark: SparkSession, logs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "table"
    with tables.open_table(out), pytest.raises(FleetError, match="another ingest is using"):
        ingest(spark, [str(logs)], out)
    with (out / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_folder_of_a_stopped_ingest_can_be_used_again_while_spark_still_writes_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "table"
    remove = shutil.rmtree

    def spark_writes_again(folder: Path, **options: bool) -> None:
        remove(folder, **options)
        (out / "staging" / "units" / "_temporary").mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(shutil, "rmtree", spark_writes_again)
    with pytest.raises(KeyboardInterrupt), tables.open_table(out):
        raise KeyboardInterrupt
    monkeypatch.undo()
    with tables.open_table(out):
        assert [one.name for one in (out / "staging").glob("*/*")] == ["records"]
