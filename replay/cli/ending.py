"""SIGTERM and Ctrl-C for commands that have something to do before they end."""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

_BY_SIGNAL: Final = 128


@contextmanager
def unwound_by_sigterm() -> Iterator[None]:
    """Let SIGTERM leave all that is open as an exception does, with the status that a shell gives
    it, 143; a second one does not disturb that."""
    with _handled({signal.SIGTERM: _end}):
        yield


def _end(number: int, _frame: Any) -> None:
    signal.signal(number, signal.SIG_IGN)
    sys.exit(_BY_SIGNAL + number)


@contextmanager
def interrupted_by_sigterm(told: str) -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt, as Ctrl-C does; a second one does not disturb what comes
    of that. `told` is a line for standard error, written at once: the end may take its time."""

    def interrupt(*_: Any) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        # Not by sys.stderr, at which the program itself may just be writing.
        with suppress(OSError):
            os.write(2, f"{told}\n".encode())
        raise KeyboardInterrupt

    with _handled({signal.SIGINT: interrupt, signal.SIGTERM: interrupt}):
        yield


@contextmanager
def _handled(handlers: Mapping[int, Callable[..., None]]) -> Iterator[None]:
    """The handlers of before come back."""
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
