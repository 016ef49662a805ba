"""What all jobs on Spark share: telling how far they are, and a clear line where Spark fails."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event
from typing import Final

from py4j.protocol import Py4JError
from pyspark import InheritableThread
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from replay.fleet.errors import FleetError

Progress = Callable[[str, int, int], None]
"""Told what is being done, and how many tasks are done of how many."""

_PROGRESS_S: Final = 0.5


@contextmanager
def telling(spark: SparkSession, progress: Progress | None) -> Iterator[Callable[[str], None]]:
    """What tells a step; a thread tells how far its tasks are, as Spark knows."""
    if progress is None:
        yield lambda step: None
        return
    step, is_over = "", Event()
    tracker = spark.sparkContext.statusTracker()

    def watch() -> None:
        with suppress(Py4JError, OSError):
            while not is_over.wait(_PROGRESS_S):
                look()

    def look() -> None:
        infos = [tracker.getStageInfo(one) for one in tracker.getActiveStageIds()]
        known = [one for one in infos if one is not None]
        done = sum(one.numCompletedTasks for one in known)
        progress(step, done, sum(one.numTasks for one in known))

    def tell(what: str) -> None:
        nonlocal step
        step = what
        progress(step, 0, 0)

    # Unlike others this thread closes its connection to Java at its end.
    watcher = InheritableThread(target=watch, name="progress", daemon=True)
    watcher.start()
    try:
        yield tell
    finally:
        is_over.set()
        watcher.join()


@contextmanager
def spark_errors(what: str) -> Iterator[None]:
    """Raises FleetError, which begins with `what` did not come about, in the place of Spark's."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise FleetError(f"{what}: {reason_in(str(error), error)}") from error


def reason_in(text: str, error: Exception) -> str:
    """The line of Spark's trace that says why."""
    lines = text.splitlines()
    told = [line for line in lines if "Error: " in line or "Exception: " in line]
    return (told or lines or [type(error).__name__])[-1].strip()
