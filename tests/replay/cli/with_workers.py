"""A running command with worker processes, which a test interrupts or kills."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.replay.cli.command import REFOLD
from tests.waiting import block_until_found

WORKERS = 2
_ENDS_S = 30.0
"""2 s on a machine that does nothing else."""


class CommandWithWorkers:
    """The running command, in a separate process group, with WORKERS workers."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*REFOLD, *arguments, "--workers", str(WORKERS)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.workers = self._await_workers()

    def _await_workers(self) -> list[int]:
        def begun() -> list[int]:
            children = [
                int(id)
                for id, parent, command in _processes()
                if int(parent) == self.process.pid and "spawn_main" in command
            ]
            are_complete = len(children) == WORKERS and all(map(_has_begun, children))
            return children if are_complete else []

        return block_until_found(begun, f"{WORKERS} workers begin", _ENDS_S, process=self.process)

    def ended(self) -> tuple[int, str, str]:
        """Exit status, output and errors of the command, which ends in time without workers."""
        began = time.monotonic()
        output, errors = self.process.communicate(timeout=60)
        assert time.monotonic() - began < _ENDS_S
        left_s = began + _ENDS_S - time.monotonic()
        block_until_found(lambda: not _running(self.workers), "the workers exit", left_s)
        return self.process.returncode, output, errors

    def kill_all(self) -> None:
        """Kill the command and its workers, if it still runs."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()


def _processes() -> Iterator[Sequence[str]]:
    """The id, the parent's id and the command of each process."""
    columns = ("-o", "pid=", "-o", "ppid=", "-o", "stat=", "-o", "args=")
    listed = subprocess.run(
        ["ps", "-A", "-ww", *columns], capture_output=True, text=True, check=True
    )
    for line in listed.stdout.splitlines():
        id, parent, state, command = line.split(maxsplit=3)
        if not state.startswith("Z"):
            yield [id, parent, command]


def _has_begun(worker: int) -> bool:
    """Whether a worker has read what it needs of the main process, and has imported refold: a
    worker whose main process is killed before that prints a traceback of multiprocessing."""
    try:
        return "msgspec" in Path(f"/proc/{worker}/maps").read_text()
    except OSError:
        return False


def _running(processes: list[int]) -> bool:
    return any(int(id) in processes for id, _, _ in _processes())


def to_main(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Send a signal to the main process."""
    process.send_signal(number)


def to_group(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Send a signal to all processes of the command, as a terminal does."""
    os.killpg(process.pid, number)
