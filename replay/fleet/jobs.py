"""What all jobs on Spark share: telling how far they are, a clear line where Spark fails, and what
keeps small queries short."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event
from typing import Final

import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyarrow import dataset
from pyspark import InheritableThread
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from replay.fleet.errors import FleetError
from replay.progress import Progress, unreported

_PROGRESS_S: Final = 0.5
_ROWS_A_PARTITION: Final = 50_000

_FEW_ROWS: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
"""To compile such a query, to plan it again after each stage, and a job for each side of a join
take longer than to run it."""


@contextmanager
def telling(spark: SparkSession, progress: Progress) -> Iterator[Callable[[str], None]]:
    """What tells a step; a thread tells how far its tasks are, as Spark knows."""
    if progress is unreported:
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
        progress(step, done, sum(one.numTasks for one in known) or None)

    def tell(what: str) -> None:
        nonlocal step
        step = what
        progress(step, 0, None)

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


def for_few_rows(spark: SparkSession, rows: int) -> SparkSession:
    """A session beside `spark` for queries of about so many rows."""
    session = spark.newSession()
    for name, value in _FEW_ROWS.items():
        session.conf.set(name, value)
    partitions = max(spark.sparkContext.defaultParallelism, rows // _ROWS_A_PARTITION)
    session.conf.set("spark.sql.shuffle.partitions", str(partitions))
    return session


def rows_in(folder: str, condition: pc.Expression | None = None) -> int:
    """How many rows Parquet files have, as they tell it themselves: without a job."""
    rows: int = dataset.dataset(folder, format="parquet").count_rows(filter=condition)
    return rows
