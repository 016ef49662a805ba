"""`refold fleet` from the command line; its work on logs is tested in tests/replay/fleet."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from replay.cli.fleet.analysis import print_analysis
from replay.cli.fleet.commands import app, print_ingested
from replay.fleet.analysis.analyse import Analysis, AnalysisOptions
from replay.fleet.analysis.summary import SummaryTable
from replay.fleet.ingest import IngestResult
from replay.fleet.inputs import PassedOverFiles
from replay.fleet.manifest import INGESTED, LogCompleteness
from replay.fleet.set_aside import SetAsideInput
from tests.replay.cli.command import refold
from tests.replay.diff.versions import ROOT
from tests.waiting import SPARK_SECONDS, block_until_found
from tools.fleet.histories import simulated_history, write_log

COMMANDS = ("ingest", "decode", "replay", "divergences", "analyse", "report", "live")
HISTORY = simulated_history(60, 1_790_000_000_000, 1)
NO_JAVA = {"JAVA_HOME": "/none"}
LOCAL = ("--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=1")


def new_process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "replay.cli.main", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize(
    "arguments", [["--help"], ["fleet", "--help"], ["fleet", "ingest", "--help"]]
)
def test_help_needs_no_spark(arguments: list[str]) -> None:
    code = (
        "import sys; sys.modules |= dict.fromkeys(('pyspark', 'py4j', 'pyarrow'))\n"
        "from replay.cli.main import main\n"
        f"sys.argv = ['refold', *{arguments!r}]\n"
        "main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr
    assert "fleet" in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_missing_java_is_an_error(command: str, tmp_path: Path) -> None:
    result = refold(*_arguments(command, tmp_path), environment=NO_JAVA)
    assert_one_line(
        result, f"refold fleet {command}: Spark needs Java, and /none/bin/java cannot be"
    )


@pytest.mark.parametrize(
    ("command", "master"),
    [*((one, "lokal") for one in COMMANDS), ("ingest", "spark://127.0.0.1:1")],
)
def test_invalid_master_option_is_an_error(command: str, master: str, tmp_path: Path) -> None:
    result = refold(*_arguments(command, tmp_path), "--master", master)
    assert_one_line(result, f"refold fleet {command}: --master {master}")


@pytest.mark.parametrize("command", ["decode", "replay", "divergences", "analyse", "report"])
def test_folder_without_a_table_or_records_is_an_error(command: str, tmp_path: Path) -> None:
    result = refold(*_arguments(command, tmp_path, table=False))
    assert_one_line(
        result, f"refold fleet {command}: {tmp_path} is not a table: create one with `refold"
    )
    (tmp_path / "refold-fleet.json").write_text('{"layout": 3}')
    result = refold(*_arguments(command, tmp_path, table=False))
    assert_one_line(
        result,
        f"refold fleet {command}: {tmp_path} contains no records: add logs with `refold fleet in",
    )
    (tmp_path / "refold-fleet.json").write_text('{"layout": 4}')
    result = refold(*_arguments(command, tmp_path, table=False))
    assert_one_line(
        result, "created by another version of refold (layout 4, not 3): use that version"
    )


def test_divergences_of_a_table_without_a_replay_are_an_error(tmp_path: Path) -> None:
    result = refold("fleet", "divergences", str(_table(tmp_path)))
    assert_one_line(result, "was not replayed: run `refold fleet replay` first")


def test_missing_source_is_an_error(tmp_path: Path) -> None:
    result = refold("fleet", "ingest", str(tmp_path / "gone"), "--out", str(tmp_path / "table"))
    assert_one_line(result, "gone does not exist: name a folder, a log or an archive")
    assert not (tmp_path / "table").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["ingest", "s3a://bucket/logs", "--out", "table"],
        ["ingest", ".", "--out", "s3a://bucket/table"],
        ["ingest", ".", "--out", "table", "--replace", "hdfs://name/logs"],
        ["analyse", "s3a://bucket/table"],
        ["report", "table", "-o", "gs://bucket/fleet.html"],
        ["live", "--bootstrap-server", "127.0.0.1:1", "--out", "s3a://bucket/live"],
    ],
)
def test_uri_is_refused_and_no_folder_is_created(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "00000000000000000001.refold").touch()
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert " is a URI: " in " ".join(result.output.split())
    assert [one.name for one in tmp_path.iterdir()] == ["00000000000000000001.refold"]


def test_ingest_without_source_is_an_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["ingest", "--out", str(tmp_path / "table")])
    assert result.exit_code == 2
    assert "name at least one source" in result.output


def test_empty_source_does_not_start_spark(tmp_path: Path) -> None:
    """The command starts no Spark either for a table without undecoded records."""
    result = refold(
        "fleet", "ingest", str(tmp_path), "--out", str(tmp_path / "t"), environment=NO_JAVA
    )
    assert_one_line(result, "contains nothing to read: no segment (.refold), no archive")
    for name in ("some.zip", "controller.log"):
        (tmp_path / name).touch()
    result = refold(
        "fleet", "ingest", str(tmp_path), "--out", str(tmp_path / "t"), environment=NO_JAVA
    )
    logs = f"1 controller.log ({tmp_path}/controller.log)"
    text = f"(log.ZXID); passed over: 1 .zip ({tmp_path}/some.zip), {logs}. Brokers' logs are"
    assert_one_line(result, text)
    table = _table(tmp_path / "table")
    (table / "decoded" / "batch=000001").mkdir(parents=True)
    result = refold("fleet", "decode", str(table), "--json", environment=NO_JAVA)
    assert result.returncode == 0
    assert json.loads(result.stdout)["batches"] == 0


def test_unreachable_kafka_is_an_error(tmp_path: Path) -> None:
    result = refold(*_arguments("live", tmp_path))
    assert_one_line(
        result, "refold fleet live: topic refold-log at 127.0.0.1:1: KafkaConnectionErr"
    )


@pytest.mark.lab
@pytest.mark.timeout(400)
def test_truncated_file_of_a_table_is_reported(tmp_path: Path) -> None:
    """Spark's error is reduced to its reason; other logs are replayed."""
    for name in "ab":
        write_log(tmp_path / "logs" / name, simulated_history(60, 1_790_000_000_000, 1), name, 1)
    table = tmp_path / "table"
    done = new_process("fleet", "ingest", str(tmp_path / "logs"), "--out", str(table), *LOCAL)
    assert done.returncode == 0, done.stderr
    [file] = table.glob("records/batch=*/cluster=a/date=*/*.parquet")
    file.write_bytes(file.read_bytes()[:2000])
    result = new_process("fleet", "analyse", str(table), *LOCAL)
    assert_one_line(
        result, f"refold fleet analyse: {table}: Spark failed; the previous analysis is kept"
    )
    assert f"{file.name} cannot be decoded: Parquet magic bytes not found" in result.stderr
    result = new_process("fleet", "replay", str(table), "--versions", str(ROOT), *LOCAL)
    assert result.returncode == 1
    assert "failed: cluster a, log " in result.stdout
    assert "failed: cluster b" not in result.stdout
    assert "Traceback" not in result.stderr + result.stdout


@pytest.mark.lab
@pytest.mark.timeout(400)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_during_the_start_leaves_no_java_process(
    number: signal.Signals, tmp_path: Path
) -> None:
    write_log(tmp_path / "logs", simulated_history(60, 1_790_000_000_000, 1), "a", 1)
    command = [sys.executable, "-m", "replay.cli.main", "fleet", "ingest"]
    command += [str(tmp_path / "logs"), "--out", str(tmp_path / "table"), *LOCAL]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    block_until_found(
        lambda: any("SparkSubmit" in one for one in of_session(process.pid)),
        "the command starts Java",
        SPARK_SECONDS,
        process=process,
    )
    process.send_signal(number)
    _, output = process.communicate(timeout=120)
    assert process.returncode == 2
    assert output.startswith("refold fleet ingest: stopping\n")
    assert output.endswith(
        "refold fleet ingest: stopped: nothing was added; run the command again\n"
    )
    assert "Exception" not in output
    assert not (tmp_path / "table").exists()
    block_until_found(lambda: not of_session(process.pid), "every process of the command exits")


@pytest.mark.lab
@pytest.mark.timeout(400)
@pytest.mark.parametrize("reached", ["inputs.parquet", "written/**/*.parquet"])
def test_java_that_is_killed_is_an_error_in_one_line(reached: str, tmp_path: Path) -> None:
    for number in range(30):
        write_log(tmp_path / "logs" / str(number), HISTORY, "a", number)
    out = tmp_path / "table"
    command = [sys.executable, "-m", "replay.cli.main", "fleet", "ingest", str(tmp_path / "logs")]
    process = subprocess.Popen(
        [*command, "--out", str(out), *LOCAL],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    block_until_found(
        lambda: list(out.glob(f"staging/*/{reached}")),
        f"the ingest writes {reached}",
        SPARK_SECONDS,
        process=process,
    )
    [java] = [pid for pid, args in processes_of(process.pid) if "SparkSubmit" in args]
    os.kill(java, signal.SIGKILL)
    _, output = process.communicate(timeout=120)
    assert process.returncode == 2
    lines = [one for one in output.splitlines() if "incubator modules" not in one]
    assert len(lines) == 1, output
    assert "Spark failed, nothing was added: its Java process ended unexpectedly" in lines[0]
    assert not out.exists()


def of_session(leader: int) -> list[str]:
    """The commands of the running processes of a session."""
    return [args for _, args in processes_of(leader)]


def processes_of(leader: int) -> list[tuple[int, str]]:
    """The processes of a session, with their commands."""
    listed = subprocess.run(
        ["ps", "-ww", "-e", "-o", "sid=,pid=,args="], capture_output=True, text=True
    )
    rows = [line.split(maxsplit=2) for line in listed.stdout.splitlines()]
    return [(int(pid), args) for sid, pid, args in rows if sid == str(leader)]


@pytest.mark.lab
@pytest.mark.timeout(400)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_analysis_leaves_no_results(number: signal.Signals, tmp_path: Path) -> None:
    write_log(tmp_path / "logs", simulated_history(60, 1_790_000_000_000, 1), "a", 1)
    table = tmp_path / "table"
    done = new_process("fleet", "ingest", str(tmp_path / "logs"), "--out", str(table), *LOCAL)
    assert done.returncode == 0, done.stderr
    there = sorted(table.iterdir())
    command = [sys.executable, "-m", "replay.cli.main", "fleet", "analyse", str(table), *LOCAL]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    block_until_found(
        lambda: any((table / "analysis.partial").glob("*")),
        "the analysis writes its first result",
        SPARK_SECONDS,
        process=process,
    )
    process.send_signal(number)
    _, output = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "refold fleet analyse: stopping\nrefold fleet analyse: stopped: the analysis" in output
    assert "Traceback" not in output
    assert not (table / "analysis").exists()
    assert {*table.iterdir()} - {*there} == {table / "analysis.lock", table / "decoded"}


@pytest.mark.parametrize("command", ["analyse", "report"])
@pytest.mark.parametrize(("events", "is_brief"), [(1_000_000, True), (1_000_001, False)])
def test_small_table_is_read_with_a_quickly_started_java(
    command: str, events: int, is_brief: bool, tmp_path: Path
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/arguments\nexit 0\n')
    java.chmod(0o755)
    table = _table(tmp_path / "table")
    manifest = table / "ingested" / "batch=000001"
    manifest.mkdir(parents=True)
    counts = pa.Table.from_pylist([{"events": events, "commands": 0, "token": "1"}], INGESTED)
    parquet.write_table(counts, manifest / "1.parquet")
    output = ["-o", str(tmp_path / "fleet.html")] if command == "report" else []
    result = refold("fleet", command, str(table), *output, environment={"JAVA_HOME": str(tmp_path)})
    assert (result.returncode, result.stdout) == (2, "")
    assert f"refold fleet {command}: Spark does not start" in result.stderr
    started = (tmp_path / "arguments").read_text()
    assert ("-XX:TieredStopAtLevel=1" in started) is is_brief


def test_line_about_a_log_set_aside_has_its_file_once(capsys: pytest.CaptureFixture[str]) -> None:
    counts = dict.fromkeys(("inputs", "unchanged", "segments", "logs", "clusters"), 0)
    examples = [
        SetAsideInput("/l/1.refold", "/l/1.refold: the file is damaged"),
        SetAsideInput("/l\n/2.refold", "no record"),
        SetAsideInput("/l\n/3.refold", "/l /3.refold: is no log"),
    ]
    packed = [f"/l/{one}.zip" for one in range(7)]
    states = [LogCompleteness("c", "l1", ["log.1 ends\nat offset 7"], ["line 3 is unfit"], 4)]
    ingested = IngestResult(
        table="/t", **counts, events=0, commands=0, replaced=0, set_aside=3, examples=examples,
        incomplete=3, logs_with_notes=states, passed_over=[PassedOverFiles(".zip", 7, packed)],
        batch=None, seconds=1,
    )  # fmt: skip
    print_ingested(ingested)
    assert capsys.readouterr().out.splitlines() == [
        "set aside: /l/1.refold: the file is damaged",
        r"set aside: /l\n/2.refold: no record",
        r"set aside: /l\n/3.refold: is no log",
        r"incomplete: cluster c, log l1: log.1 ends\nat offset 7",
        "warning: cluster c, log l1: line 3 is unfit",
        "warning: cluster c, log l1: 4 lines were not understood",
        "incomplete: 2 more logs",
        "passed over: .zip, 7 files: /l/0.zip, /l/1.zip, /l/2.zip, /l/3.zip, /l/4.zip and 2 more",
        "/t: nothing new; 0 inputs, 0 unchanged, 3 set aside, 3 logs incomplete; 1.0 s",
    ]


def test_cluster_name_with_a_line_break_stays_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    outages = SummaryTable("outages", ["cluster", "seconds"], [["a\nb[i]", 1.5]])
    analysis = Analysis("/t", "now", AnalysisOptions(), {"logs": 1}, 0, 0, [], [outages], 1)
    print_analysis(analysis)
    shown = capsys.readouterr().out.replace("│", " ").splitlines()
    assert [r"a\nb[i]", "1.500"] in [line.split() for line in shown]


@pytest.mark.lab
@pytest.mark.timeout(400)
def test_damaged_log_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    """By each command. The name of the other log's cluster stays in one line."""
    good = write_log(tmp_path / "logs" / "good", HISTORY, "a\nb[i]", 1)
    damaged = tmp_path / "logs" / "damaged" / "00000000000000000001.refold"
    damaged.parent.mkdir()
    damaged.write_bytes(next(good.glob("*.refold")).read_bytes()[:5000])
    table = str(tmp_path / "table")
    for command in (
        ["ingest", str(tmp_path / "logs"), "--out", table],
        ["analyse", table],
        ["replay", table, "--versions", str(ROOT)],
    ):
        done = new_process("fleet", *command, *LOCAL)
        assert done.returncode == 1, done.stderr
        first, *lines, last = done.stdout.splitlines()
        assert first.startswith(f"set aside: {damaged}: the file is damaged (")
        assert last.startswith(f"{table}")
        if command[0] != "ingest":
            assert any(r"│ a\nb[i] " in line for line in lines)


def test_setting_without_a_value_is_an_error(tmp_path: Path) -> None:
    arguments = ["fleet", "ingest", str(tmp_path), "--out", str(tmp_path / "t")]
    result = refold(*arguments, "--conf", "spark.executor.memory")
    assert result.returncode == 2
    assert "is not NAME=VALUE" in result.stderr


def test_missing_pyspark_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "pyspark.py").write_text("raise ModuleNotFoundError('gone', name='pyspark')")
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    arguments = ["fleet", "ingest", str(tmp_path), "--out", str(tmp_path / "t")]
    result = new_process(*arguments, PYTHONPATH=path)
    assert result.returncode == 2
    assert "pip install 'refold[fleet]'" in result.stderr


def assert_one_line(result: subprocess.CompletedProcess[str], text: str) -> None:
    """Asserts that the error is one line, apart from the Java machine's messages."""
    assert result.returncode == 2
    lines = [one for one in result.stderr.splitlines() if "incubator modules" not in one]
    assert len(lines) == 1, result.stderr
    assert text in lines[0]


def _arguments(command: str, folder: Path, *, table: bool = True) -> list[str]:
    """A complete command line, with the files that it needs."""
    of_table = folder if not table else _table(folder / "table")
    more = {
        "ingest": [str(folder), "--out", str(folder / "new")],
        "replay": [str(of_table), "--versions", str(ROOT)],
        "divergences": [str(of_table)],
        "decode": [str(of_table)],
        "analyse": [str(of_table)],
        "report": [str(of_table), "-o", str(folder / "fleet.html")],
        "live": ["--bootstrap-server", "127.0.0.1:1", "--out", str(folder / "live")],
    }
    if command == "ingest":
        (folder / "00000000000000000001.refold").touch()
    if command == "divergences" and table:
        (of_table / "replays" / "batch=000001").mkdir(parents=True)
    return ["fleet", command, *more[command]]


def _table(folder: Path) -> Path:
    """A table with one batch without records."""
    (folder / "records" / "batch=000001").mkdir(parents=True)
    (folder / "refold-fleet.json").write_text('{"layout": 3}')
    return folder
