"""The command `refold` in another process."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from threading import Thread
from types import MappingProxyType
from typing import IO

from tests.replay.cli.fork_server import ForkServer

REFOLD = [sys.executable, "-m", "replay.cli.main"]
CANNOT_WRITE = "refold: cannot write the output: No space left on device\n"


@cache
def _server() -> ForkServer:
    return ForkServer()


def refold(
    *arguments: str | Path,
    stdin: bytes | None = None,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.CompletedProcess[str]:
    """The ended command with its output as text. `environment` overrides variables."""
    given = [*map(str, arguments)]
    with ExitStack() as stack:
        if stdin is None:
            standard_input = stack.enter_context(Path("/dev/null").open("rb"))
        else:
            standard_input = stack.enter_context(_piped(stdin))
        output, errors = (stack.enter_context(TemporaryFile()) for _ in range(2))
        status = _server().run(
            given,
            (standard_input, output, errors),
            {**os.environ, **environment},
        )
        output.seek(0)
        errors.seek(0)
        text = (output.read().decode(errors="replace"), errors.read().decode())
    return subprocess.CompletedProcess(given, status, *text)


@contextmanager
def _piped(content: bytes) -> Iterator[IO[bytes]]:
    """The end of a pipe that a thread writes to."""
    read_end, write_end = os.pipe()

    def write() -> None:
        with suppress(BrokenPipeError), os.fdopen(write_end, "wb") as file:
            file.write(content)

    thread = Thread(target=write)
    thread.start()
    try:
        with os.fdopen(read_end, "rb") as file:
            yield file
    finally:
        thread.join()


def on_a_full_disk(*arguments: str | Path) -> tuple[int, str]:
    """Exit status and standard error of a command whose output goes to a full disk."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*REFOLD, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    return done.returncode, done.stderr


def unread(*arguments: str | Path) -> tuple[int, str]:
    """Exit status and standard error of a command whose output pipe is closed."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [*REFOLD, *arguments], stdout=write_end, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write_end)
    return done.returncode, done.stderr
