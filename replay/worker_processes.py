"""How the worker processes of a search start, and how they end with the command."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from threading import Thread
from typing import Final, ParamSpec, TypeVar

from replay.errors import ReplayError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

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


class WorkerPool:
    """Worker processes, which run functions of modules."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool

    def submit(
        self,
        function: Callable[Parameters, Result],
        *args: Parameters.args,
        **named: Parameters.kwargs,
    ) -> Future[Result]:
        """Run a function in a worker."""
        with signals_wait():
            return self._pool.submit(function, *args, **named)


@contextmanager
def worker_pool(workers: int) -> Iterator[WorkerPool]:
    """New processes, which end with the block; what they still run is given up. Raises ReplayError
    if one ends before."""
    others = multiprocessing.active_children()
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, spawn, initializer=begin_worker)
    try:
        yield WorkerPool(pool)
    except BrokenProcessPool as ended:
        raise ReplayError(
            "a worker process ended; is there enough memory? Run again, perhaps with fewer "
            "--workers"
        ) from ended
    finally:
        for process in multiprocessing.active_children():
            if process not in others:
                process.kill()
                process.join()
        # Waits for the thread of the pool: Python's own end would use a pipe that it closes.
        pool.shutdown(cancel_futures=True)


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
