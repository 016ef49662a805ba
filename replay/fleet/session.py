"""Starting Spark: its settings, this code for its executors, and what can be wrong with it."""

import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread, current_thread, main_thread
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import controller
import eventstore
import replay
from replay.fleet.errors import FleetError
from replay.fleet.log_source import LogSource
from replay.fleet.zookeeper_source import ZooKeeperSource

LOCAL: Final = "local[*]"
DRIVER_MEMORY: Final = "1g"
"""Of the driver's Java process; in local mode it runs the tasks as well."""

_BRIEF: Final = {
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
    ),
}
"""To compile thoroughly what is in Java takes longer than to run it. Java that does not do so keeps
48 MiB of what it compiled, else, and then compiles nothing any more: an analysis has more."""

_MASTER: Final = re.compile(r"local(\[(\d+|\*)(, *\d+)?\])?|yarn|(spark|k8s)://.+")
_HADOOP_SETTINGS: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_JAVA_MIN: Final = 17
_CONNECT_S: Final = 5.0
_STOP_S: Final = 20.0
_PACKAGES: Final = (controller, eventstore, replay)
_QUIET: Final = Path(__file__).with_name("log4j2.properties")

_SETTINGS: Final = {
    "spark.app.name": "refold fleet",
    "spark.driver.memory": DRIVER_MEMORY,
    "spark.driver.maxResultSize": "128m",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # A second attempt beside the first would read all of a unit again.
    "spark.speculation": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@contextmanager
def spark_session(
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    *,
    is_brief: bool = False,
) -> Iterator[SparkSession]:
    """Spark with refold's data sources, ended at the end. `settings` go before those of here;
    `is_brief`: what is to be done is soon done, or Python does it.

    Raises FleetError if there is no Java, or no such master.
    """
    master = master or os.environ.get("MASTER") or LOCAL
    check_java()
    check_master(master)
    with TemporaryDirectory(prefix="refold-fleet-") as folder:
        brief = _BRIEF if is_brief else {}
        spark = _start(master, {**_SETTINGS, **brief, **(settings or {})})
        is_interrupted = False
        try:
            if not master.startswith("local"):
                spark.sparkContext.addPyFile(str(package(Path(folder) / "refold.zip")))
            spark.dataSource.register(LogSource)
            spark.dataSource.register(ZooKeeperSource)
            yield spark
        except KeyboardInterrupt:
            is_interrupted = True
            raise
        finally:
            if is_interrupted:
                _stop_from_beside(spark)
            else:
                spark.stop()


def _stop_from_beside(spark: SparkSession) -> None:
    """Where a question to Java was interrupted, its answer is still on its way to this thread:
    another one has a connection of its own."""

    def stop() -> None:
        with suppress(PySparkException, Py4JError, OSError):
            for query in spark.streams.active:
                query.stop()
            spark.stop()

    stopping = Thread(target=stop, name="stop", daemon=True)
    stopping.start()
    stopping.join(_STOP_S)


def package(target: Path) -> Path:
    """Write this code as an archive for executors (--py-files); what it needs beside the standard
    library (msgspec, pyarrow, ...) they must have: docs/fleet-sizing.md."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for one in _PACKAGES:
            root = Path(str(one.__file__)).parent
            for file in files_of(root):
                archive.write(file, file.relative_to(root.parent))
    return target


def files_of(root: Path) -> list[Path]:
    """The files of a package, without what Python makes of them."""
    found = sorted(root.rglob("*"))
    return [file for file in found if file.is_file() and "__pycache__" not in file.parts]


def check_java() -> None:
    """Raises FleetError where there is no Java that Spark runs on."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    advice = f"install Java {_JAVA_MIN} or 21, or set JAVA_HOME"
    if java is None:
        raise FleetError(f"Spark needs Java, and there is no java on PATH: {advice}")
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise FleetError(
            f"Spark needs Java, and {java} cannot be run ({error}): {advice}"
        ) from None
    found = re.search(r'version "(\d+)', told.stderr)
    if found is not None and int(found[1]) < _JAVA_MIN:
        raise FleetError(f"Spark needs Java {_JAVA_MIN}, {java} is {found[1]}: {advice}")


def check_master(master: str) -> None:
    """Raises FleetError for what is no master, one that nobody answers at, or that is not told."""
    if not _MASTER.fullmatch(master):
        raise FleetError(
            f"--master {master} is none of local[N], spark://HOST:PORT, yarn, k8s://URL"
        )
    if master == "yarn" and not any(os.environ.get(one) for one in _HADOOP_SETTINGS):
        raise FleetError(
            "--master yarn: set HADOOP_CONF_DIR (or YARN_CONF_DIR) to the folder of the cluster's"
            " settings (core-site.xml, yarn-site.xml)"
        )
    for address in re.findall(r"spark://(.+)", master):
        if not any(map(_answers, address.split(","))):
            raise FleetError(f"--master {master}: no Spark master answers there; is it running?")


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        return False
    try:
        with socket.create_connection((host, int(port)), _CONNECT_S):
            return True
    except (OSError, OverflowError):
        return False


def _start(master: str, settings: Mapping[str, str]) -> SparkSession:
    for name in ("py4j", "DataFrameQueryContextLogger"):
        # What they tell comes as an exception, too.
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_no_interrupt)
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    options = f"-Dlog4j2.configurationFile={_QUIET}"
    mine = settings.get("spark.driver.extraJavaOptions", "")
    builder = SparkSession.builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.driver.extraJavaOptions", f"{options} {mine}".strip())
    with _interrupt_held_back() as came:
        try:
            spark = builder.getOrCreate()
        except (Py4JError, PySparkException, RuntimeError, OSError) as error:
            if came:
                raise KeyboardInterrupt from None
            told = str(error).strip().splitlines()
            first = told[0] if told else ""
            text = next((line for line in told if "Exception: " in line), first).strip()
            raise FleetError(f"Spark does not start with --master {master}: {text}") from None
    if came:
        spark.stop()
        raise KeyboardInterrupt
    return spark


@contextmanager
def _interrupt_held_back() -> Iterator[list[int]]:
    """Gives the first Ctrl-C or SIGTERM that comes, instead of raising KeyboardInterrupt: Java that
    has not answered yet does not notice that nobody waits for it any more, and stays. A second one
    is not held back."""
    came: list[int] = []
    if current_thread() is not main_thread():
        yield came
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def hold_back(number: int, frame: Any) -> None:
        came.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        handler = before[signal.Signals(number)]
        with suppress(KeyboardInterrupt):
            if callable(handler):
                handler(number, frame)

    for number, handler in before.items():
        if callable(handler):
            signal.signal(number, hold_back)
    try:
        yield came
    finally:
        # Spark puts a handler of its own there, which asks Java in the middle of another question.
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if came and number == signal.SIGTERM else handler)


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """py4j tells the root logger of a KeyboardInterrupt, with its trace, and passes it on."""
    return not record.getMessage().startswith("KeyboardInterrupt while")
