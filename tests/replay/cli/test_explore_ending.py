"""`refold explore` with several workers that ends early: Ctrl-C, and processes that are killed."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from replay.explore.generators.scenarios import generic
from tests.replay.cli.command import REFOLD

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

_ENDS_S = 10.0
"""2 s on a machine that does nothing else."""
_WORKERS = 2


class Exploring:
    """The running command, in a separate process group."""

    def __init__(self, folder: Path) -> None:
        scenario = folder / "scenario.json"
        scenario.write_bytes(msgspec.json.encode(structs.replace(generic(), active_ms=9_000)))
        given = ("--scenario", str(scenario), "--out", str(folder / "out"))
        self.process = subprocess.Popen(
            [*REFOLD, "explore", "--workers", str(_WORKERS), "--seed", "5", *given],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.workers = self._await_workers()

    def _await_workers(self) -> list[int]:
        while True:
            assert self.process.poll() is None, self.process.communicate()
            children = [
                int(id)
                for id, parent, command in _processes()
                if int(parent) == self.process.pid and "spawn_main" in command
            ]
            if len(children) == _WORKERS:
                return children
            time.sleep(0.05)

    def ended(self) -> tuple[int, str, str]:
        """Exit status, output and errors of the command, which ends in time without workers."""
        began = time.monotonic()
        output, errors = self.process.communicate(timeout=60)
        assert time.monotonic() - began < _ENDS_S
        while _running(self.workers):
            assert time.monotonic() - began < _ENDS_S
            time.sleep(0.05)
        return self.process.returncode, output, errors


def _processes() -> Iterator[list[str]]:
    """The id, the parent's id and the command of each process."""
    columns = ("-o", "pid=", "-o", "ppid=", "-o", "stat=", "-o", "args=")
    listed = subprocess.run(
        ["ps", "-A", "-ww", *columns], capture_output=True, text=True, check=True
    )
    for line in listed.stdout.splitlines():
        id, parent, state, command = line.split(maxsplit=3)
        if not state.startswith("Z"):
            yield [id, parent, command]


def _running(processes: list[int]) -> bool:
    return any(int(id) in processes for id, _, _ in _processes())


@pytest.fixture
def exploring(tmp_path: Path) -> Iterator[Exploring]:
    found = Exploring(tmp_path)
    yield found
    if found.process.poll() is None:
        os.killpg(found.process.pid, signal.SIGKILL)
        found.process.communicate()


def _to_main(process: subprocess.Popen[str], number: signal.Signals) -> None:
    process.send_signal(number)


def _to_group(process: subprocess.Popen[str], number: signal.Signals) -> None:
    os.killpg(process.pid, number)


@pytest.mark.parametrize(
    ("send", "number"),
    [
        pytest.param(_to_group, signal.SIGINT, id="ctrl-c"),
        pytest.param(_to_main, signal.SIGINT, id="SIGINT-to-the-main-process"),
        pytest.param(_to_main, signal.SIGTERM, id="SIGTERM-to-the-main-process"),
    ],
)
def test_interrupted_command_ends_its_workers_and_prints_the_verdict(
    exploring: Exploring,
    send: Callable[[subprocess.Popen[str], signal.Signals], None],
    number: signal.Signals,
) -> None:
    send(exploring.process, number)
    status, output, errors = exploring.ended()
    assert status == 0
    assert f"with {_WORKERS} workers, interrupted, seed 5\n" in output
    assert "not checked: " in output
    assert errors == "refold explore: ending\n"


def test_workers_end_with_a_killed_command(exploring: Exploring) -> None:
    exploring.process.kill()
    status, _, errors = exploring.ended()
    assert status == -signal.SIGKILL
    assert "Traceback" not in errors


def test_killed_worker_is_reported(exploring: Exploring) -> None:
    os.kill(exploring.workers[0], signal.SIGKILL)
    status, output, errors = exploring.ended()
    assert (status, output) == (2, "seed 5\n")
    assert errors.startswith("refold explore: a worker process ended by signal 9 (SIGKILL)")
    assert errors.count("\n") == 1
