"""`refold fleet live` as a separate process, and the content of its folder."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from pyarrow import parquet

from tests.replay.fleet.live.mirrored import State
from tools.setup.jars import SPARK_KAFKA, fetch

START_MAX_S = 180


def kafka_jars() -> str:
    """The jars of Spark's Kafka source, for --conf spark.jars."""
    return ",".join(str(jar) for jar in sorted(fetch(SPARK_KAFKA).glob("*.jar")))


def table(out: Path) -> dict[str, list[State]]:
    """The health of partitions by cluster."""
    found = {}
    for file in out.glob("health/cluster=*/health.parquet"):
        rows = parquet.read_table(file, partitioning=None).to_pylist()
        found[file.parent.name.removeprefix("cluster=")] = [
            (one["topic"], one["partition"], one["health"], one["leader"], tuple(one["isr"]))
            for one in rows
        ]
    return found


def log_rows(out: Path) -> dict[str, tuple[str, int, str | None]]:
    """For each folder of a log its state, last event and trouble."""
    return {
        one["folder"]: (one["state"], one["seq"], one["trouble"])
        for file in out.glob("logs/cluster=*/logs.parquet")
        for one in parquet.read_table(file, partitioning=None).to_pylist()
    }


def batches_begun(out: Path) -> int:
    return len(list(out.glob("checkpoint/offsets/*")))


def command(bootstrap: str, topic: str, out: Path, jars: str, *more: str) -> list[str]:
    arguments = ["fleet", "live", "--bootstrap-server", bootstrap, "--topic", topic]
    spark = ["--master", "local[2]", "--conf", f"spark.jars={jars}"]
    program = [sys.executable, "-m", "replay.cli.main"]
    return [*program, *arguments, "--out", str(out), *spark, *more]


@contextmanager
def job(
    arguments: list[str], output: int | IO[bytes] = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[str]]:
    """A running process. At the end it is killed with all its children. `output` receives its
    standard output."""
    process = subprocess.Popen(
        arguments,
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
