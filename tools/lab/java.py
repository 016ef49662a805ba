"""The command line of a Java server of the lab, and its log4j configuration."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.lab.class_archives import options_with_archive
from tools.setup.java import find_java

_QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options for a small server that starts fast; a benchmark passes other options."""

_PATTERN = "[%d{ISO8601}] %-5p %m (%c)%n"


def java_command(
    jars: Path,
    main_class: str,
    argument: str,
    *,
    folder: Path,
    options: Sequence[str],
    quick_start: bool = True,
    traced: Mapping[str, str] | None = None,
) -> Sequence[str]:
    """Write the log4j configuration into `folder`, and return the `java` command with the jars. The
    server logs to server.log in `folder`.

    `traced` maps loggers to separate files that they write to at level TRACE.
    """
    quick = (*_QUICK_START, *options_with_archive(jars, main_class)) if quick_start else ()
    return (
        str(find_java()),
        *quick,
        *options,
        *_configure_logging(jars, folder, traced or {}),
        *("-cp", str(jars / "*"), main_class, argument),
    )


def _configure_logging(jars: Path, folder: Path, traced: Mapping[str, str]) -> Sequence[str]:
    """Write the log4j configuration of the version that the jars have, and return the JVM options
    that name it."""
    if any(jars.glob("log4j-core-2*.jar")):
        configuration = folder / "log4j2.properties"
        configuration.write_text(_log4j2(folder))
        return (f"-Dlog4j2.configurationFile={configuration.as_uri()}",)
    configuration = folder / "log4j.properties"
    loggers = {logger: ("TRACE", file) for logger, file in traced.items()}
    configuration.write_text(log4j1(folder, loggers))
    return (f"-Dlog4j.configuration={configuration.as_uri()}",)


def log4j1(folder: Path, loggers: Mapping[str, tuple[str, str]], pattern: str = _PATTERN) -> str:
    """A log4j 1 configuration that writes to files in `folder`.

    `loggers` maps a logger to its level and its file, without ".log". All other loggers write to
    server.log at level INFO.
    """
    lines = ["log4j.rootLogger=INFO, server", *_appender("server", folder, pattern)]
    for logger, (level, file) in loggers.items():
        lines += [
            f"log4j.logger.{logger}={level}, {file}",
            f"log4j.additivity.{logger}=false",
            *_appender(file, folder, pattern),
        ]
    return "\n".join(lines) + "\n"


def _appender(name: str, folder: Path, pattern: str) -> Sequence[str]:
    appender = f"log4j.appender.{name}"
    return (
        f"{appender}=org.apache.log4j.FileAppender",
        f"{appender}.File={folder / name}.log",
        f"{appender}.layout=org.apache.log4j.PatternLayout",
        f"{appender}.layout.ConversionPattern={pattern}",
    )


def _log4j2(folder: Path) -> str:
    return f"""\
appender.server.type=File
appender.server.name=server
appender.server.fileName={folder / "server.log"}
appender.server.layout.type=PatternLayout
appender.server.layout.pattern={_PATTERN}
rootLogger.level=info
rootLogger.appenderRef.server.ref=server
"""
