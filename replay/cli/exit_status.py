"""How a command ends: exit codes, errors in one line instead of a traceback, SIGTERM and Ctrl-C."""

import os
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from tempfile import mkstemp
from typing import Any, Final

import typer

from eventstore.errors import LogCorrupt, LogError
from replay.errors import ReplayError

DAMAGED: Final = 1
UNUSABLE: Final = 2
INTERNAL_ERROR: Final = 70
"""EX_SOFTWARE of sysexits.h: no command has another meaning for it."""

_BY_SIGNAL: Final = 128


@contextmanager
def errors_in_one_line(command: str, damaged: int = UNUSABLE) -> Iterator[None]:
    """Print a LogError or ReplayError in one line on standard error, and exit with UNUSABLE.

    `damaged` is the exit code for a damaged log.
    """
    try:
        yield
    except (LogError, ReplayError) as error:
        typer.echo(f"refold {command}: {error}", err=True)
        raise typer.Exit(damaged if isinstance(error, LogCorrupt) else UNUSABLE) from None


def report_internal_error(error: Exception) -> None:
    """Say in one line that an unexpected exception ended the command, which is a bug of refold. The
    traceback is in a file, because not every command can be repeated."""
    trace = "".join(traceback.format_exception(error))
    where = "The traceback is below:"
    with suppress(OSError):
        descriptor, path = mkstemp(prefix="refold-traceback-", suffix=".txt")
        with os.fdopen(descriptor, "w", errors="backslashreplace") as file:
            file.write(f"{shlex.join(['refold', *sys.argv[1:]])}\n{trace}")
        where, trace = f"The traceback is in {path}", ""
    name = type(error).__name__
    message = " ".join(str(error).split())
    typer.echo(
        f"refold: internal error ({name}: {message}). This is a bug of refold: please report it. "
        f"{where}",
        err=True,
    )
    typer.echo(trace, err=True, nl=False)


@contextmanager
def unwound_by_sigterm() -> Iterator[None]:
    """Let SIGTERM raise SystemExit, so that open resources are closed. The exit code is 143, which
    shells use for SIGTERM. A second SIGTERM is ignored."""
    with _installed_handlers({signal.SIGTERM: _exit}):
        yield


def _exit(number: int, _frame: Any) -> None:
    signal.signal(number, signal.SIG_IGN)
    sys.exit(_BY_SIGNAL + number)


@contextmanager
def interrupted_by_sigterm(message: str) -> Iterator[Callable[[], None]]:
    """Let SIGTERM raise KeyboardInterrupt, as Ctrl-C does. A second SIGTERM is ignored.

    The line `message` is written to standard error at once, because the clean-up may take long.
    The block gets a function that raises KeyboardInterrupt if a signal has arrived. Long work calls
    it now and then: the first exception may have been raised where Python ignores exceptions, such
    as the end of a coroutine.
    """
    has_come = False

    def interrupt(*_: Any) -> None:
        nonlocal has_come
        has_come = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        # Not through sys.stderr: the signal may have interrupted a write to it.
        with suppress(OSError):
            os.write(2, f"{message}\n".encode())
        raise KeyboardInterrupt

    def check() -> None:
        if has_come:
            raise KeyboardInterrupt

    with _installed_handlers({signal.SIGINT: interrupt, signal.SIGTERM: interrupt}):
        yield check


@contextmanager
def _installed_handlers(handlers: Mapping[int, Callable[..., None]]) -> Iterator[None]:
    """Install signal handlers, and restore the previous ones at the end."""
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
