"""How the worker processes of a search start, and how they end with the command."""

import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Final

_SIGNALS: Final = frozenset((signal.SIGINT, signal.SIGTERM))


@contextmanager
def signals_wait() -> Iterator[None]:
    """Handle SIGINT and SIGTERM at the end of the block only.

    A process that is started in the block gets neither until it calls `begin_worker`.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def begin_worker() -> None:
    """Called first in a worker. The main process handles Ctrl-C; the worker ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    Thread(target=_end_with_parent, daemon=True).start()


def how_ended(status: int | None) -> str:
    """How a process ended, by its exit code."""
    if status is not None and status < 0:
        return f"by signal {-status} ({signal.Signals(-status).name})"
    return f"with exit status {status}"


def _end_with_parent() -> None:
    """End this worker as soon as the main process has ended, also by SIGKILL."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
