"""Kafka's command line tools, run as bin/kafka-*.sh run them."""

import asyncio
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import anyio.to_thread

from tools.lab.server import LabError
from tools.setup.jars import fetch
from tools.setup.java import find_java

SECONDS_MAX = 90.0

MAIN_CLASSES: Mapping[str, tuple[str, ...]] = {
    "kafka-acls": ("kafka.admin.AclCommand",),
    "kafka-cluster": ("org.apache.kafka.tools.ClusterTool", "kafka.tools.ClusterTool"),
    "kafka-configs": ("kafka.admin.ConfigCommand",),
    "kafka-console-consumer": (
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        "kafka.tools.ConsoleConsumer",
    ),
    "kafka-console-producer": ("kafka.tools.ConsoleProducer",),
    "kafka-features": ("org.apache.kafka.tools.FeatureCommand", "kafka.admin.FeatureCommand"),
    "kafka-leader-election": (
        "org.apache.kafka.tools.LeaderElectionCommand",
        "kafka.admin.LeaderElectionCommand",
    ),
    "kafka-log-dirs": ("org.apache.kafka.tools.LogDirsCommand", "kafka.admin.LogDirsCommand"),
    "kafka-reassign-partitions": (
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
        "kafka.admin.ReassignPartitionsCommand",
    ),
    "kafka-topics": ("org.apache.kafka.tools.TopicCommand", "kafka.admin.TopicCommand"),
}
"""The main classes of each tool, the newest first; a version uses the first one in its jars."""

_LOGGING = Path(__file__).with_name("tools_log4j.properties")


class ToolResult(NamedTuple):
    """The exit status of a tool, its standard output and its standard error (`problems`)."""

    status: int
    output: str
    problems: str


class KafkaTools:
    """The tools of one Kafka version; `java_options` are those of each tool."""

    def __init__(self, kafka: str, *java_options: str) -> None:
        self._kafka = kafka
        self._java_options = java_options

    async def run(self, tool: str, *arguments: str, given: str = "") -> ToolResult:
        """Run a tool with the standard input `given`.

        Raises LabError if there is no such tool, TimeoutError after SECONDS_MAX.
        """
        jars = await anyio.to_thread.run_sync(_jars, self._kafka)
        main_class = _main_class(jars, tool)
        return await _run_java(jars, self._java_options, main_class, arguments, given)


async def run_main_class(
    kafka: str,
    main_class: str,
    *arguments: str,
    given: str = "",
    java_options: Sequence[str] = (),
) -> ToolResult:
    """Run any class of a Kafka version with the standard input `given`. Raises TimeoutError after
    SECONDS_MAX."""
    jars = await anyio.to_thread.run_sync(_jars, kafka)
    return await _run_java(jars, java_options, main_class, arguments, given)


async def _run_java(
    jars: Path, options: Sequence[str], main_class: str, arguments: Sequence[str], given: str
) -> ToolResult:
    process = await asyncio.create_subprocess_exec(
        str(find_java()),
        *("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *options),
        f"-Dlog4j.configuration={_LOGGING.as_uri()}",
        *("-cp", str(jars / "*"), main_class),
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(SECONDS_MAX):
            output, problems = await process.communicate(given.encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return ToolResult(process.returncode or 0, output.decode(), problems.decode())


@cache
def _jars(kafka: str) -> Path:
    """The jars of a version; their checksums are compared once per process."""
    return fetch(f"kafka-{kafka}")


@cache
def _main_class(jars: Path, tool: str) -> str:
    for main_class in MAIN_CLASSES.get(tool, ()):
        if f"{main_class.replace('.', '/')}.class" in _tool_classes(jars):
            return main_class
    raise LabError(f"{jars} contains no {tool}")


@cache
def _tool_classes(jars: Path) -> frozenset[str]:
    """The names of all classes in the jars that contain tools."""
    names: set[str] = set()
    for pattern in ("kafka_*.jar", "kafka-tools-*.jar"):
        for jar in jars.glob(pattern):
            with zipfile.ZipFile(jar) as opened:
                names.update(opened.namelist())
    return frozenset(names)
