"""Commands that are ended while they are at work leave nothing behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.replay.zookeeper_log.samples import RECORDING

CRASH = RECORDING.with_name("broker-crash-2.tar.xz")
ENDED_AT_WORK = """
import os, signal
from controller.cli.main import main
from replay.imports import importing

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
def test_signal_leaves_nothing_behind(tmp_path: Path, command: str, name: str, status: int) -> None:
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
