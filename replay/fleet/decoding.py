"""The records with what they are about, in columns: a table beside that of the records.

    DIR/decoded/batch=000001/cluster=C/date=D/*.parquet     (columns.DECODED)

Nothing of it is needed to keep: each file is one of the records' files, read, and a batch that is
not there is decoded before the table is used. It comes into its place by one rename.
"""

import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
from msgspec import Struct
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

from replay.collector import paused_collector
from replay.fleet.batches import batches
from replay.fleet.columns import DECODED, decoded
from replay.fleet.day_files import records_writer
from replay.fleet.errors import FleetError, usable
from replay.fleet.jobs import spark_errors, telling
from replay.fleet.locking import in_turn
from replay.fleet.table import check_table, folder_of_records, records_in
from replay.progress import Progress, unreported

_DECODED: Final = "decoded"
_MAKING: Final = "_making"
_LOCK: Final = "_lock"
_ROWS: Final = 16 << 10
_TASK_BYTES: Final = 32 << 20
_TASKS_A_CORE: Final = 4
_TASKS_MAX: Final = 10_000


class Decoded(Struct):
    """What decoding came to: the folder of the table, and how many batches were not decoded."""

    table: str
    batches: int
    seconds: float


def nothing_to_decode(folder: Path) -> Decoded | None:
    """What there is to tell where all of a table is decoded; None where it is not. Raises
    FleetError."""
    start = time.monotonic()
    check_table(folder)
    source = folder_of_records(folder)
    into = source.with_name(_DECODED)
    return None if _lacking(source, into) else Decoded(str(into), 0, time.monotonic() - start)


def decode_table(spark: SparkSession, folder: Path, progress: Progress = unreported) -> Decoded:
    """`decode`, with its progress told. Raises FleetError."""
    start = time.monotonic()
    failed = spark_errors(f"{folder}: Spark failed, it is decoded as far as it was")
    with failed, telling(spark, progress) as tell:
        made = decode(spark, folder, tell)
    return Decoded(str(folder / _DECODED), made, time.monotonic() - start)


def records(
    spark: SparkSession, folder: Path | str, tell: Callable[[str], None] = lambda step: None
) -> DataFrame:
    """The records of a table with the columns of DECODED, and `batch`, `cluster` and `date`; what
    was ingested since they were last asked for is decoded first. Raises FleetError."""
    decode(spark, folder, tell)
    into = Path(folder) / _DECODED
    return records_in(spark, into, [str(batch) for batch in batches(into)], DECODED)


def decode(
    spark: SparkSession, folder: Path | str, tell: Callable[[str], None] = lambda step: None
) -> int:
    """Decode the batches of a table that are not; how many. One process at a time: another one
    waits. Raises FleetError, and Spark's where an executor fails."""
    check_table(Path(folder))
    # Executors work in another folder.
    source = folder_of_records(folder).absolute()
    into = source.with_name(_DECODED)
    if not _lacking(source, into):
        return 0
    with usable(into), _alone(into):
        lacking = _lacking(source, into)
        for batch in lacking:
            tell("decoding")
            made = into / _MAKING / batch.name
            made.mkdir(parents=True)
            _decode(spark, batch, made)
            made.rename(into / batch.name)
    return len(lacking)


def _lacking(source: Path, into: Path) -> list[Path]:
    there = {batch.name for batch in batches(into)}
    return [batch for batch in batches(source) if batch.name not in there]


@contextmanager
def _alone(into: Path) -> Iterator[None]:
    into.mkdir(exist_ok=True)
    with in_turn(into / _LOCK):
        # Of one that was killed.
        shutil.rmtree(into / _MAKING, ignore_errors=True)
        try:
            yield
        finally:
            shutil.rmtree(into / _MAKING, ignore_errors=True)


def _decode(spark: SparkSession, batch: Path, made: Path) -> None:
    sizes = {str(file): file.stat().st_size for file in batch.glob("cluster=*/date=*/*.parquet")}
    if not sizes:
        return
    context = spark.sparkContext
    tasks = max(context.defaultParallelism * _TASKS_A_CORE, sum(sizes.values()) // _TASK_BYTES)
    tasks = min(tasks, _TASKS_MAX, len(sizes))
    # Dealt out by their sizes, so that no task has all that are large.
    largest_first = sorted(sizes, key=lambda file: (-sizes[file], file))
    dealt = [file for task in range(tasks) for file in largest_first[task::tasks]]
    work = partial(_decode_files, source=batch, made=made)
    context.parallelize(dealt, tasks).foreachPartition(work)


def _decode_files(files: Iterable[str], source: Path, made: Path) -> None:
    with paused_collector():
        for file in map(Path, files):
            target = made / file.relative_to(source)
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                _decode_file(file, target)
            except (OSError, pa.ArrowException) as error:
                raise FleetError(f"{file} cannot be decoded: {error}") from error


def _decode_file(file: Path, target: Path) -> None:
    # Of a task that is tried again, or by two executors at once, either is the whole.
    aside = target.with_name(f".{uuid.uuid4().hex}")
    content = parquet.ParquetFile(file)
    with records_writer(aside, DECODED) as writer:
        for group in range(content.num_row_groups):
            rows = content.iter_batches(_ROWS, row_groups=[group])
            made = [part for batch in rows for part in decoded(batch)]
            writer.write_table(pa.Table.from_batches(made, DECODED))
    aside.replace(target)
