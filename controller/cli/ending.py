"""SIGTERM for commands that have something to remove before they end."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_BY_SIGNAL: Final = 128


@contextmanager
def unwound_by_sigterm() -> Iterator[None]:
    """Let SIGTERM leave all that is open as an exception does, with the status that a shell gives
    it, 143; a second one does not disturb that."""
    before = signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(number: int, _frame: Any) -> None:
    signal.signal(number, signal.SIG_IGN)
    sys.exit(_BY_SIGNAL + number)
