"""`refold what-if --invariant` with several workers that ends early."""

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.replay.cli.with_workers import CommandWithWorkers, to_group, to_main

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

UNCLEAN = Path(__file__).parents[2] / "incidents" / "unclean-election"


@pytest.fixture
def searching() -> Iterator[CommandWithWorkers]:
    condition = ("--invariant", "orders-3 offline", "--branches", "100000", "--seed", "5")
    found = CommandWithWorkers("what-if", str(UNCLEAN), *condition)
    yield found
    found.kill_all()


@pytest.mark.parametrize(
    ("send", "number"),
    [
        pytest.param(to_group, signal.SIGINT, id="ctrl-c"),
        pytest.param(to_main, signal.SIGTERM, id="SIGTERM-to-the-main-process"),
    ],
)
def test_interrupted_command_ends_its_workers_and_prints_the_curve(
    searching: CommandWithWorkers,
    send: Callable[[subprocess.Popen[str], signal.Signals], None],
    number: signal.Signals,
) -> None:
    send(searching.process, number)
    status, output, errors = searching.ended()
    assert status in (0, 1)
    assert ", interrupted, seed 5\n" in output
    assert re.search(
        r"^interrupted: only [0-9]+ of at least [0-9]+ moments were tried", output, re.M
    )
    assert "it does not change" not in output
    assert errors == "refold what-if: ending\n"


def test_workers_end_with_a_killed_command(searching: CommandWithWorkers) -> None:
    searching.process.kill()
    status, _, errors = searching.ended()
    assert status == -signal.SIGKILL
    assert "Traceback" not in errors


def test_command_ends_with_an_error_if_a_worker_is_killed(searching: CommandWithWorkers) -> None:
    os.kill(searching.workers[0], signal.SIGKILL)
    status, _, errors = searching.ended()
    assert status == 2
    assert "a worker process ended" in errors
