"""Starting Spark: its settings, this code for executors, and checks of Java and the master."""

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
from replay.fleet.jobs import JAVA_ENDED, has_java_ended
from replay.fleet.log_source import LogSource
from replay.fleet.zookeeper_source import ZooKeeperSource

LOCAL: Final = "local[*]"
DRIVER_MEMORY: Final = "1g"
"""The heap of the driver's JVM; in local mode it runs the tasks as well."""

_BRIEF: Final = {
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
    ),
}
"""JVM settings for short jobs: thorough JIT compilation takes longer than it saves. Without tiered
compilation the JVM's code cache defaults to 48 MiB, and an analysis needs more."""

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
    # A speculative second attempt would read all of a unit again.
    "spark.speculation": "false",
    # Files are for this user only; for local files, Hadoop sets their modes itself.
    "spark.hadoop.fs.permissions.umask-mode": "077",
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
    """Start Spark with refold's data sources, and stop it at the end.

    `settings` override the defaults. `is_brief` says that the job is short, or that most of its
    work is done in Python. Raises FleetError if there is no Java, or if the master is invalid or
    unreachable.
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
        except (Py4JError, ConnectionError) as error:
            if has_java_ended(error):
                raise FleetError(f"Spark failed: {JAVA_ENDED}") from error
            raise
        finally:
            if is_interrupted:
                _stop_in_thread(spark)
            else:
                # If Java was killed there is nothing to stop.
                with suppress(Py4JError, ConnectionError):
                    spark.stop()


def _stop_in_thread(spark: SparkSession) -> None:
    """Stop Spark from another thread, which has its own connection to the JVM. After an interrupted
    call, the connection of this thread still expects a response."""

    def stop() -> None:
        with suppress(PySparkException, Py4JError, OSError):
            for query in spark.streams.active:
                query.stop()
            spark.stop()

    stopping = Thread(target=stop, name="stop", daemon=True)
    stopping.start()
    stopping.join(_STOP_S)


def package(target: Path) -> Path:
    """Write this code as an archive for executors (--py-files). Its dependencies (msgspec, pyarrow,
    ...) have to be installed on the executors: see docs/fleet-sizing.md."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for one in _PACKAGES:
            root = Path(str(one.__file__)).parent
            for file in files_of(root):
                archive.write(file, file.relative_to(root.parent))
    return target


def files_of(root: Path) -> list[Path]:
    """The files of a package without Python's caches."""
    found = sorted(root.rglob("*"))
    return [file for file in found if file.is_file() and "__pycache__" not in file.parts]


def check_java() -> None:
    """Check that there is a Java that Spark supports. Raises FleetError."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    advice = f"install Java {_JAVA_MIN} or 21, or set JAVA_HOME"
    if java is None:
        raise FleetError(f"Spark needs Java, and java is not on PATH: {advice}")
    try:
        lines = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise FleetError(
            f"Spark needs Java, and {java} cannot be executed ({error}): {advice}"
        ) from None
    found = re.search(r'version "(\d+)', lines.stderr)
    if found is not None and int(found[1]) < _JAVA_MIN:
        raise FleetError(f"Spark needs Java {_JAVA_MIN}, {java} is {found[1]}: {advice}")


def check_master(master: str) -> None:
    """Check that a master is valid, reachable and has its configuration. Raises FleetError."""
    if not _MASTER.fullmatch(master):
        raise FleetError(
            f"--master {master} is invalid: use local[N], spark://HOST:PORT, yarn or k8s://URL"
        )
    if master == "yarn" and not any(os.environ.get(one) for one in _HADOOP_SETTINGS):
        raise FleetError(
            "--master yarn: set HADOOP_CONF_DIR (or YARN_CONF_DIR) to the folder of the cluster's"
            " settings (core-site.xml, yarn-site.xml)"
        )
    for address in re.findall(r"spark://(.+)", master):
        if not any(map(_answers, address.split(","))):
            raise FleetError(
                f"--master {master}: no Spark master answers; check that it is running"
            )


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
        # Both also raise what they log.
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_raised)
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    options = f"-Dlog4j2.configurationFile={_QUIET}"
    given = settings.get("spark.driver.extraJavaOptions", "")
    builder = SparkSession.builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.driver.extraJavaOptions", f"{options} {given}".strip())
    with _deferred_interrupt() as received:
        try:
            spark = builder.getOrCreate()
        except (Py4JError, PySparkException, RuntimeError, OSError) as error:
            if received:
                raise KeyboardInterrupt from None
            lines = str(error).strip().splitlines()
            first = lines[0] if lines else ""
            text = next((line for line in lines if "Exception: " in line), first).strip()
            raise FleetError(f"Spark does not start with --master {master}: {text}") from None
    if received:
        spark.stop()
        raise KeyboardInterrupt
    _print_no_end_of_java(spark)
    return spark


def _print_no_end_of_java(spark: SparkSession) -> None:
    """PySpark's server for accumulators prints a traceback if Java is killed. The error of the
    calls says it."""
    server = getattr(spark.sparkContext, "_accumulatorServer", None)
    if server is None:
        return
    print_error = server.handle_error

    def handle_error(request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], EOFError | ConnectionError):
            print_error(request, client_address)

    server.handle_error = handle_error


@contextmanager
def _deferred_interrupt() -> Iterator[list[int]]:
    """Yields a list that the first Ctrl-C or SIGTERM is added to, instead of raising
    KeyboardInterrupt. A JVM that is still starting does not notice that its parent is gone, and
    keeps running. A second signal is not deferred."""
    received: list[int] = []
    if current_thread() is not main_thread():
        yield received
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def defer(number: int, frame: Any) -> None:
        received.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        handler = before[signal.Signals(number)]
        with suppress(KeyboardInterrupt):
            if callable(handler):
                handler(number, frame)

    for number, handler in before.items():
        if callable(handler):
            signal.signal(number, defer)
    try:
        yield received
    finally:
        # Spark installs a handler that calls the JVM, even in the middle of another call.
        for number, handler in before.items():
            signal.signal(
                number, signal.SIG_IGN if received and number == signal.SIGTERM else handler
            )


def _is_not_raised(record: logging.LogRecord) -> bool:
    """Filter out records of errors that py4j raises as well: interrupts, and a Java process that
    was killed. It logs their tracebacks to the root logger."""
    return not record.getMessage().startswith(
        ("KeyboardInterrupt while", "Exception while sending command")
    )
