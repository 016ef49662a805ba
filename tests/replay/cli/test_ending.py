"""Commands that are stopped by a signal leave no files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.replay.stock_clusters.zookeeper_log.samples import RECORDING

CRASH = RECORDING.with_name("broker-crash-2.tar.xz")
ENDED_AT_WORK = """
import os, signal
from replay.cli.main import main
from replay.stock_clusters.imports import importing

def end(*_):
    # The log is written, but for its last record.
    try:
        os.kill(os.getpid(), signal.{signal})
    finally:
        os.kill(os.getpid(), signal.{signal})

importing.clock_notes = end
main()
"""


@pytest.mark.parametrize(("name", "status"), [("SIGTERM", 143), ("SIGINT", 130)])
@pytest.mark.parametrize("command", ["import", "agree"])
def test_signal_leaves_no_files(tmp_path: Path, command: str, name: str, status: int) -> None:
    temporary, log = tmp_path / "temporary", tmp_path / "log"
    temporary.mkdir()
    out = ["--out", str(log)] if command == "import" else []
    done = subprocess.run(
        [sys.executable, "-c", ENDED_AT_WORK.format(signal=name), command, str(CRASH), *out],
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert (done.returncode, done.stdout) == (status, "")
    assert "Traceback" not in done.stderr
    assert [*temporary.iterdir()] == []
    assert not log.exists()


STOPPED_IN_SPARK = """
import os, signal
import typer
from replay.cli.fleet.options import fleet_errors

app = typer.Typer()

@app.command()
def work() -> None:
    with fleet_errors("analyse", "the analysis is as it was"):
        try:
            os.kill(os.getpid(), signal.{signal})
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

app()
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_fleet_reports_the_stop_at_once_and_then_the_result(name: str) -> None:
    code = STOPPED_IN_SPARK.format(signal=name)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "refold fleet analyse: stopping",
        "refold fleet analyse: stopped: the analysis is as it was",
    ]


STOPPED_AFTER_COMMIT = """
import os, signal, sys
from pathlib import Path
import typer
from replay.cli.fleet.options import fleet_errors

app = typer.Typer()

@app.command()
def work(folder: Path) -> None:
    with fleet_errors("ingest", into=folder):
        (folder / "batch=000002").mkdir()
        os.kill(os.getpid(), signal.SIGINT)

app()
"""


def test_stop_after_the_commit_reports_that_records_were_added(tmp_path: Path) -> None:
    (tmp_path / "batch=000001").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", STOPPED_AFTER_COMMIT, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "refold fleet ingest: stopping",
        "refold fleet ingest: stopped: all was added before that, run it again to see what",
    ]
