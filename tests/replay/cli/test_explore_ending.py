"""`refold explore` with several workers that ends early: Ctrl-C, and processes that are killed."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from replay.explore.generators.scenarios import generic
from tests.replay.cli.with_workers import WORKERS, CommandWithWorkers, to_group, to_main

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture
def exploring(tmp_path: Path) -> Iterator[CommandWithWorkers]:
    scenario = tmp_path / "scenario.json"
    scenario.write_bytes(msgspec.json.encode(structs.replace(generic(), active_ms=9_000)))
    given = ("--scenario", str(scenario), "--out", str(tmp_path / "out"))
    found = CommandWithWorkers("explore", "--seed", "5", *given)
    yield found
    found.kill_all()


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("send", "number"),
    [
        pytest.param(to_group, signal.SIGINT, id="ctrl-c"),
        pytest.param(to_main, signal.SIGINT, id="SIGINT-to-the-main-process"),
        pytest.param(to_main, signal.SIGTERM, id="SIGTERM-to-the-main-process"),
    ],
)
def test_interrupted_command_ends_its_workers_and_prints_the_verdict(
    exploring: CommandWithWorkers,
    send: Callable[[subprocess.Popen[str], signal.Signals], None],
    number: signal.Signals,
) -> None:
    send(exploring.process, number)
    status, output, errors = exploring.ended()
    assert f"with {WORKERS} workers, interrupted, seed 5\n" in output
    assert "not checked: " in output
    if "no violation in 0 runs" in output:
        assert status == 2
        assert errors.splitlines() == [
            "refold explore: ending",
            "refold explore: no run has ended, so nothing was checked",
        ]
    else:
        assert (status, errors) == (0, "refold explore: ending\n")


def test_workers_end_with_a_killed_command(exploring: CommandWithWorkers) -> None:
    exploring.process.kill()
    status, _, errors = exploring.ended()
    assert status == -signal.SIGKILL
    assert "Traceback" not in errors


def test_killed_worker_is_reported(exploring: CommandWithWorkers) -> None:
    os.kill(exploring.workers[0], signal.SIGKILL)
    status, output, errors = exploring.ended()
    assert (status, output) == (2, "seed 5\n")
    assert errors.startswith("refold explore: a worker process ended by signal 9 (SIGKILL)")
    assert errors.count("\n") == 1
