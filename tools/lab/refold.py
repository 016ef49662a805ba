"""The `refold` command as a separate process."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from tools.lab import guard
from tools.lab.ports import HOST, free_port

_STOP_SECONDS = 30.0


class Refold:
    """One `refold run`; its output is written to a file.

    It listens on a free port if no `listeners` are given. `program` is Python source to run instead
    of `refold`. `code` is the folder of another version of refold.
    """

    def __init__(
        self,
        connect: str,
        broker_id: int,
        log_dir: Path,
        *options: str,
        listeners: str | None = None,
        program: str | None = None,
        code: Path | None = None,
    ) -> None:
        self._code = code
        start = command() if program is None else [sys.executable, "-c", program]
        self._command = (
            *start,
            *("run", "--zookeeper", connect, "--broker-id", str(broker_id)),
            *("--log-dir", str(log_dir)),
            # Several daemons of one machine cannot have the default port. Options override it.
            *(() if code is not None else ("--metrics-address", "off")),
            # These override the listeners of a broker's server.properties in the options.
            *("--listeners", listeners or f"PLAINTEXT://{HOST}:{free_port()}"),
            *options,
        )
        self.log_dir = log_dir
        self._output = log_dir.parent / "refold.out"
        # Daemons with the same folder write to one file; this one's output begins here.
        self._begin: int | None = None
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the process."""
        self._output.parent.mkdir(parents=True, exist_ok=True)
        with self._output.open("ab") as output:
            if self._begin is None:
                self._begin = output.tell()
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdout=output,
                stderr=output,
                preexec_fn=guard.die_with_parent,
                **of_version(self._code),
            )

    def kill(self) -> None:
        """Send SIGKILL."""
        self.signal(signal.SIGKILL)

    def pause(self) -> None:
        """Send SIGSTOP."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Send SIGCONT."""
        self.signal(signal.SIGCONT)

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal that ends it cleanly, and wait; returns the exit status."""
        self.signal(number)
        return await self.ended()

    async def ended(self) -> int:
        """Wait until it exits; returns the exit status."""
        assert self._process is not None
        return await asyncio.wait_for(self._process.wait(), _STOP_SECONDS)

    async def kill_if_running(self) -> None:
        """Kill the process if it is running, paused or not."""
        if self.running:
            self.kill()
            await self.ended()

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def front(self) -> int:
        """The process id of the front process, which serves its endpoint."""
        pid = self.pid
        (front,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(front)

    @property
    def running(self) -> bool:
        """Whether the process is running."""
        return self._process is not None and self._process.returncode is None

    def messages(self) -> list[dict[str, Any]]:
        """The messages that the process logged so far. Lines that are not JSON are skipped."""
        found = []
        for line in self._own_output().splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return found

    def last_output(self) -> str:
        """The end of the process's output."""
        return self._own_output()[-2000:]

    def _own_output(self) -> str:
        return self._output.read_bytes()[self._begin or 0 :].decode(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal if the process is running."""
        assert self._process is not None
        if self.running:
            os.kill(self._process.pid, number)


def command(*arguments: str) -> list[str]:
    """The command line of `refold` with these arguments."""
    return [sys.executable, "-m", "replay.cli.main", *arguments]


def of_version(code: Path | None) -> dict[str, Any]:
    """How to start a process that runs the code in this folder; None: the code of the tests."""
    return {} if code is None else {"cwd": code, "env": os.environ | {"PYTHONPATH": str(code)}}


async def run(
    *arguments: str, code: Path | None = None, with_notes: bool = True, **environment: str
) -> tuple[int, str]:
    """Run a `refold` command; returns the exit status and its output. `code` is the folder of
    another version of refold. `with_notes`: the output includes standard error.

    Cancellation kills the command.
    """
    version = of_version(code)
    variables = version.pop("env", os.environ) | environment
    process = await asyncio.create_subprocess_exec(
        *command(*arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT if with_notes else asyncio.subprocess.DEVNULL,
        env=variables,
        **version,
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, output.decode()
