"""Commands that are stopped by a signal leave no files."""

import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.replay.cli.command import REFOLD
from tests.replay.stock_clusters.zookeeper_log.samples import log_file
from tests.waiting import block_until_found
from tools.zookeeper_log.generated_history import transactions

LONG = 30_000
"""The import of this many transactions takes some seconds."""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A packed recording whose import takes long enough to be stopped."""
    folder = tmp_path_factory.mktemp("long")
    log_file(folder / "version-2", list(transactions(LONG, partitions=10)))
    with tarfile.open(folder / "long.tar", "w") as tar:
        tar.add(folder / "version-2", "version-2")
    return folder / "long.tar"


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["SIGTERM", "SIGINT"]
)
@pytest.mark.parametrize("command", ["import", "agree"])
def test_signal_leaves_no_files(
    archive: Path, tmp_path: Path, command: str, number: signal.Signals, status: int
) -> None:
    """The signals arrive while the log is being written."""
    temporary, log = tmp_path / "temporary", tmp_path / "log"
    temporary.mkdir()
    out = ["--out", str(log)] if command == "import" else []
    process = subprocess.Popen(
        [*REFOLD, command, str(archive), *out],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    block_until_found(lambda: any(tmp_path.rglob("*.refold")), "the log is begun", process=process)
    for _ in range(2):
        process.send_signal(number)
    output, errors = process.communicate(timeout=30)
    assert (process.returncode, output) == (status, "")
    assert "Traceback" not in errors
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
        "refold fleet ingest: stopped: the batch was already added; run again to see it",
    ]


LOST_INTERRUPT = """
import os, signal
from replay.cli.exit_status import interrupted_by_sigterm

class Ending:
    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)

with interrupted_by_sigterm("ending") as check:
    check()
    one = Ending()
    del one
    print("continues")
    try:
        check()
    except KeyboardInterrupt:
        print("interrupted")
"""


def test_interrupt_that_python_ignores_at_the_end_of_an_object_is_not_lost() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOST_INTERRUPT], capture_output=True, text=True, check=False
    )
    assert done.stdout.split("\n")[:2] == ["continues", "interrupted"]
    assert done.stderr.startswith("ending\n")
