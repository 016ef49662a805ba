"""`refold run`, which writes down when its event loop was busy for long.

    python -m tools.bench.timed_daemon FILE run --zookeeper ...

FILE gets one JSON object per line. A `callback` ran for `ms` without a pause, a `timer` fired so
late; `ended_ns` is the monotonic clock then. A ping to ZooKeeper is as late as such a timer.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TextIO

from replay.cli.main import main as refold

MS_MIN: Final = 5.0
"""Shorter ones are not written."""
_TIMER_SECONDS: Final = 0.01

_RUN: Final = "_run"
_RUN_FOREVER: Final = "run_forever"
"""The methods that are replaced."""
_CALLBACK: Final = "_callback"

_UNNAMED: Final = "Task-"
"""How asyncio names a task that has no name."""


def _write(file: TextIO, kind: str, ms: float, what: str) -> None:
    if ms >= MS_MIN:
        line = {"kind": kind, "ms": round(ms, 1), "ended_ns": time.monotonic_ns(), "what": what}
        file.write(json.dumps(line) + "\n")
        file.flush()


def what_runs(handle: asyncio.Handle) -> str:
    """The name of the task that a callback continues, else of the callback: the same in each run
    of the daemon, other than its repr."""
    callback = getattr(handle, _CALLBACK)
    task = getattr(callback, "__self__", None)
    if not isinstance(task, asyncio.Task):
        return str(getattr(callback, "__qualname__", type(callback).__qualname__))
    if not task.get_name().startswith(_UNNAMED):
        return f"task {task.get_name()}"
    coroutine: Any = task.get_coro()
    return f"task {coroutine.__qualname__} ({Path(coroutine.cr_code.co_filename).name})"


def _time_callbacks(file: TextIO) -> None:
    """Time each callback of asyncio."""
    plain: Callable[[asyncio.Handle], Any] = getattr(asyncio.Handle, _RUN)

    def timed(handle: asyncio.Handle) -> None:
        begin_ns = time.perf_counter_ns()
        plain(handle)
        ms = (time.perf_counter_ns() - begin_ns) / 1e6
        if ms >= MS_MIN:
            _write(file, "callback", ms, what_runs(handle))

    setattr(asyncio.Handle, _RUN, timed)


def _time_timers(file: TextIO) -> None:
    """Keep one timer in each event loop, and note how late it fires."""
    plain: Callable[[asyncio.BaseEventLoop], None] = getattr(asyncio.BaseEventLoop, _RUN_FOREVER)

    def with_timer(loop: asyncio.BaseEventLoop) -> None:
        def fired(due: float) -> None:
            _write(file, "timer", (loop.time() - due) * 1e3, "")
            schedule_next()

        def schedule_next() -> None:
            loop.call_later(_TIMER_SECONDS, fired, loop.time() + _TIMER_SECONDS)

        schedule_next()
        plain(loop)

    setattr(asyncio.BaseEventLoop, _RUN_FOREVER, with_timer)


if __name__ == "__main__":
    with Path(sys.argv.pop(1)).open("a") as out:
        _time_callbacks(out)
        _time_timers(out)
        refold()
