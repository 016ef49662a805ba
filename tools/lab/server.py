"""One server process of the lab: start, kill, stop, pause, resume. Its output is kept."""

import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Literal

import anyio

from tools.lab import guard
from tools.lab.ports import HOST

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.05


class LabError(Exception):
    """A server of the lab failed; the message names it and its log."""


class Server(ABC):
    """A server process that ends with this process.

    `start`, `stop` and `restart` are awaited; `kill`, `pause` and `resume` are complete on return.
    """

    def __init__(self, name: str, folder: Path, port: int) -> None:
        self.name = name
        self.folder = folder
        self.port = port
        self._guard: subprocess.Popen[str] | None = None
        self._pid: int | None = None
        self._paused = False

    @property
    def connect(self) -> str:
        """host:port of the server."""
        return f"{HOST}:{self.port}"

    @property
    def log(self) -> Path:
        """The standard output and error of the process, from all its starts."""
        return self.folder / "console.log"

    @property
    def pid(self) -> int:
        """The process id of the server. Raises LabError if it is not running."""
        if not self.running or self._pid is None:
            raise LabError(f"{self.name} is not running")
        return self._pid

    @property
    def running(self) -> bool:
        """Whether the process is running, paused or not."""
        if self._guard is not None and self._guard.poll() is not None:
            self._forget(self._guard)
        return self._guard is not None

    @property
    def state(self) -> Literal["running", "paused", "down"]:
        """The state of the process; a paused process was stopped by SIGSTOP."""
        if not self.running:
            return "down"
        return "paused" if self._paused else "running"

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """The command line. Files that it names are written here."""

    @abstractmethod
    async def _answers(self) -> bool:
        """Whether the server serves requests."""

    async def start(self, *, wait: bool = True) -> None:
        """Start the process and wait until it serves requests.

        Raises LabError if it exits, or if it is not ready after START_SECONDS_MAX.
        """
        if self.running:
            raise LabError(f"{self.name} is running already")
        self._spawn()
        if wait:
            await self.ready()

    def _spawn(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-IS", guard.__file__, str(self.log), *self._command()]
        self._guard = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C at a terminal ends the lab, which ends its servers
        )
        assert self._guard.stdout is not None
        with self._guard.stdout as output:
            line = output.readline()
        if not line:
            raise LabError(f"{self.name} could not be started: {' '.join(command)}")
        self._pid = int(line)
        self._paused = False

    async def ready(self) -> None:
        """Wait until the server serves requests. Raises LabError as `start` does."""

        async def answers() -> bool:
            if not self.running:
                raise LabError(f"{self.name} exited while it started: {self._last_error()}")
            return await self._answers()

        await self._wait_until(answers, START_SECONDS_MAX, "is not ready")

    def kill(self) -> None:
        """Kill the process with SIGKILL; it does not exist any more on return."""
        self._signal(signal.SIGKILL)
        assert self._guard is not None
        try:
            self._guard.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired as error:
            raise LabError(f"{self.name} (pid {self._pid}) could not be killed") from error
        self._forget(self._guard)

    async def stop(self) -> None:
        """Send SIGTERM and wait until the process exits; a broker does a controlled shutdown.

        Raises LabError if it is still running after STOP_SECONDS_MAX.
        """
        self._signal(signal.SIGTERM)
        await self.ended(STOP_SECONDS_MAX)

    async def ended(self, seconds: float) -> None:
        """Wait until the process exits. Raises LabError if it is still running after `seconds`."""

        async def gone() -> bool:
            return not self.running

        await self._wait_until(gone, seconds, "is still running")

    def pause(self) -> None:
        """Pause the process with SIGSTOP: its connections stay open, without responses."""
        self._signal(signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        """Resume a paused process (SIGCONT)."""
        self._signal(signal.SIGCONT)
        self._paused = False

    async def restart(self) -> None:
        """Stop the process if it is running, and start it again on the same port and data."""
        if self.state == "paused":
            self.resume()
        if self.running:
            await self.stop()
        await self.start()

    def close(self) -> None:
        """Kill the process if it is running."""
        if self.running:
            self.kill()

    async def _wait_until(
        self, reached: Callable[[], Awaitable[bool]], seconds: float, otherwise: str
    ) -> None:
        """Poll until `reached` is true. Raises LabError with `otherwise` after `seconds`."""
        deadline = time.monotonic() + seconds
        while not await reached():
            if time.monotonic() > deadline:
                raise LabError(f"{self.name} {otherwise} after {seconds:g} s, see {self.folder}")
            await anyio.sleep(_POLL_SECONDS)

    def _signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def _forget(self, ended: "subprocess.Popen[str]") -> None:
        assert ended.stdin is not None
        ended.stdin.close()
        self._guard = None

    def _last_error(self) -> str:
        """The last error in the logs with its exception, and the folder of the logs."""
        lines = [
            line
            for log in (self.folder / "server.log", self.log)
            if log.exists()
            for line in log.read_text(errors="replace").splitlines()
        ]
        errors = [at for at, line in enumerate(lines) if " ERROR " in line or " FATAL " in line]
        first = errors[-1] if errors else len(lines) - 1
        return f"{': '.join(lines[max(first, 0) : first + 2])} (see {self.folder})"
