"""The decoded columns of the records, as a table next to the table of records.

    DIR/decoded/batch=000001/cluster=C/date=D/*.parquet     (columns.DECODED)

This table can be deleted at any time: each file is derived from one file of records, and missing
batches are decoded before the table is used. Each batch is put into place by one rename.
"""

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

from replay.fleet.batches import batches
from replay.fleet.columns import DECODED, decode_batch
from replay.fleet.day_files import records_writer
from replay.fleet.errors import FleetError, converting_os_errors
from replay.fleet.jobs import no_step, reporting_steps, spark_errors
from replay.fleet.locking import deleting_folder, in_turn
from replay.fleet.table import check_table, folder_of_records, records_in
from replay.garbage_collection import paused_garbage_collection
from replay.progress import Progress, unreported

_DECODED: Final = "decoded"
_MAKING: Final = "_making"
_LOCK: Final = "_lock"
_ROWS: Final = 16 << 10
_TASK_BYTES: Final = 32 << 20
_TASKS_A_CORE: Final = 4
_TASKS_MAX: Final = 10_000


class DecodingResult(Struct):
    """The result of a decoding: the folder of the table, and how many batches were decoded."""

    table: str
    batches: int
    seconds: float


def nothing_to_decode(folder: Path) -> DecodingResult | None:
    """The result if all batches are decoded already; None if some are not. Raises FleetError."""
    start = time.monotonic()
    check_table(folder)
    source = folder_of_records(folder)
    into = source.with_name(_DECODED)
    return (
        None
        if _not_decoded(source, into)
        else DecodingResult(str(into), 0, time.monotonic() - start)
    )


def decode_table(
    spark: SparkSession, folder: Path, progress: Progress = unreported
) -> DecodingResult:
    """Run `decode` and report its progress. Raises FleetError."""
    start = time.monotonic()
    failed = spark_errors(f"{folder}: Spark failed; the batches that were decoded before are kept")
    with failed, reporting_steps(spark, progress) as report_step:
        made = decode(spark, folder, report_step)
    return DecodingResult(str(folder / _DECODED), made, time.monotonic() - start)


def records(
    spark: SparkSession, folder: Path | str, report_step: Callable[[str], None] = no_step
) -> DataFrame:
    """The records of a table with the columns of DECODED, `batch`, `cluster` and `date`. Batches
    that are not decoded yet are decoded first. Raises FleetError."""
    decode(spark, folder, report_step)
    into = Path(folder) / _DECODED
    return records_in(spark, into, [str(batch) for batch in batches(into)], DECODED)


def decode(
    spark: SparkSession, folder: Path | str, report_step: Callable[[str], None] = no_step
) -> int:
    """Decode the batches that are not decoded yet and return their number.

    One process at a time decodes a table; others wait. Raises FleetError, and Spark's errors if an
    executor fails.
    """
    check_table(Path(folder))
    # Executors have a different working directory.
    source = folder_of_records(folder).absolute()
    into = source.with_name(_DECODED)
    if not _not_decoded(source, into):
        return 0
    with converting_os_errors(into), _locked_folder(into):
        missing = _not_decoded(source, into)
        for batch in missing:
            report_step("decoding")
            made = into / _MAKING / batch.name
            made.mkdir(parents=True)
            _decode(spark, batch, made)
            made.rename(into / batch.name)
    return len(missing)


def _not_decoded(source: Path, into: Path) -> list[Path]:
    there = {batch.name for batch in batches(into)}
    return [batch for batch in batches(source) if batch.name not in there]


@contextmanager
def _locked_folder(into: Path) -> Iterator[None]:
    into.mkdir(exist_ok=True)
    with in_turn(into / _LOCK), deleting_folder(into / _MAKING):
        yield


def _decode(spark: SparkSession, batch: Path, made: Path) -> None:
    sizes = {str(file): file.stat().st_size for file in batch.glob("cluster=*/date=*/*.parquet")}
    if not sizes:
        return
    context = spark.sparkContext
    tasks = max(context.defaultParallelism * _TASKS_A_CORE, sum(sizes.values()) // _TASK_BYTES)
    tasks = min(tasks, _TASKS_MAX, len(sizes))
    # Files are dealt by size, so that no task gets all of the large ones.
    largest_first = sorted(sizes, key=lambda file: (-sizes[file], file))
    dealt = [file for task in range(tasks) for file in largest_first[task::tasks]]
    work = partial(_decode_files, source=batch, made=made)
    context.parallelize(dealt, tasks).foreachPartition(work)


def _decode_files(files: Iterable[str], source: Path, made: Path) -> None:
    with paused_garbage_collection():
        for file in map(Path, files):
            target = made / file.relative_to(source)
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                _decode_file(file, target)
            except (OSError, pa.ArrowException) as error:
                raise FleetError(f"{file} cannot be decoded: {error}") from error


def _decode_file(file: Path, target: Path) -> None:
    # A retried task and its first attempt may both write the file; either result is complete.
    aside = target.with_name(f".{uuid.uuid4().hex}")
    content = parquet.ParquetFile(file)
    with records_writer(aside, DECODED) as writer:
        for group in range(content.num_row_groups):
            rows = content.iter_batches(_ROWS, row_groups=[group])
            made = [part for batch in rows for part in decode_batch(batch)]
            writer.write_table(pa.Table.from_batches(made, DECODED))
    aside.replace(target)
