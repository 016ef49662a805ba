"""Shared by all Spark jobs: progress, one-line errors, and settings for small queries."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from subprocess import Popen, TimeoutExpired
from threading import Event
from typing import Final

import pyarrow.compute as pc
from py4j.protocol import Py4JError, Py4JNetworkError
from pyarrow import dataset
from pyspark import InheritableThread, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from replay.fleet.errors import FleetError
from replay.progress import Progress, unreported

JAVA_ENDED: Final = (
    "its Java process ended unexpectedly (it was killed, or had too little memory): run it again,"
    " with --conf spark.driver.memory=2g if that repeats"
)

_JAVA_ENDS_S: Final = 1.0
"""A process exits a moment after its connections are closed."""
_PROGRESS_S: Final = 0.5
_ROWS_A_PARTITION: Final = 50_000

_FEW_ROWS: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
"""For a small query, code generation, adaptive planning and broadcast joins take longer than the
query itself."""


def no_step(_: str) -> None:
    """Ignore a step."""


@contextmanager
def reporting_steps(spark: SparkSession, progress: Progress) -> Iterator[Callable[[str], None]]:
    """Yields a function that reports the current step. A thread reports the progress of Spark's
    tasks."""
    if progress is unreported:
        yield no_step
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

    def report_step(what: str) -> None:
        nonlocal step
        step = what
        progress(step, 0, None)

    # When an InheritableThread ends it closes its connection to the JVM.
    watcher = InheritableThread(target=watch, name="progress", daemon=True)
    watcher.start()
    try:
        yield report_step
    finally:
        is_over.set()
        watcher.join()


@contextmanager
def spark_errors(what: str) -> Iterator[None]:
    """Convert Spark's errors to a FleetError that begins with `what`."""
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise FleetError(f"{what}: {reason_in(str(error), error)}") from error


def has_java_ended(error: Exception) -> bool:
    """Whether an error is the end of Spark's Java process. If a class was looked up meanwhile, Py4J
    raises the same error as for a class that does not exist; the process shows which it is."""
    if isinstance(error, (Py4JNetworkError, ConnectionError)):
        return True
    process: Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    if type(error) is not Py4JError or process is None:
        return False
    with suppress(TimeoutExpired):
        process.wait(_JAVA_ENDS_S)
    return process.returncode is not None


def reason_in(text: str, error: Exception) -> str:
    """The line of a Spark stack trace that names the cause."""
    if has_java_ended(error):
        return JAVA_ENDED
    lines = text.splitlines()
    causes = [line for line in lines if "Error: " in line or "Exception: " in line]
    if causes:
        return causes[-1].strip()
    return next((line.strip() for line in lines if line.strip()), type(error).__name__)


def for_few_rows(spark: SparkSession, rows: int) -> SparkSession:
    """A new session of the same application for queries of about `rows` rows."""
    session = spark.newSession()
    for name, value in _FEW_ROWS.items():
        session.conf.set(name, value)
    partitions = max(spark.sparkContext.defaultParallelism, rows // _ROWS_A_PARTITION)
    session.conf.set("spark.sql.shuffle.partitions", str(partitions))
    return session


def rows_in(folder: str, condition: pc.Expression | None = None) -> int:
    """The number of rows of Parquet files, from their metadata where there is no condition; no
    Spark job runs."""
    rows: int = dataset.dataset(folder, format="parquet").count_rows(filter=condition)
    return rows
