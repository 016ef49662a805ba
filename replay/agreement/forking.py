"""Runs a function in a copy of this process, so that it changes nothing here."""

import gc
import os
import pickle
import signal
import traceback
import warnings
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")


def run_forked(work: Callable[[], Answer]) -> Answer:
    """Call a function in a forked process, and return its result, which must be picklable.

    The function must use no open file. Raises RuntimeError with the traceback if it fails.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # No other thread of refold holds a lock that the function needs.
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if process == 0:
        _run_and_exit(work, writing)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as stream:
            data = stream.read()
    except BaseException:
        os.kill(process, signal.SIGKILL)
        raise
    finally:
        os.waitpid(process, 0)
    if not data:
        raise RuntimeError("a forked process of refold ended early: is there too little memory?")
    answer, failure = pickle.loads(data)
    if failure:
        raise RuntimeError(failure)
    return answer  # type: ignore[no-any-return]


def _run_and_exit(work: Callable[[], Answer], writing: int) -> None:
    """Run the function and end this process."""
    try:
        # Ctrl-C and a service manager signal all processes; the parent decides what happens.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        # Collecting would copy the memory that both processes share.
        gc.disable()
        try:
            data = pickle.dumps((work(), ""))
        except Exception:
            data = pickle.dumps((None, traceback.format_exc()))
        with os.fdopen(writing, "wb") as stream:
            stream.write(data)
    finally:
        os._exit(0)
