"""The command line of a Java server of the lab, and where its log4j writes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.setup.java import find_java

_QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""A small server that starts fast; a benchmark passes its own options instead."""

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
    """`java` with the jars, logging to server.log in `folder`.

    `traced` names loggers that write everything to a file of their own: logger to file name.
    """
    return (
        str(find_java()),
        *(_QUICK_START if quick_start else ()),
        *options,
        *_logging(jars, folder, traced or {}),
        *("-cp", str(jars / "*"), main_class, argument),
    )


def _logging(jars: Path, folder: Path, traced: Mapping[str, str]) -> Sequence[str]:
    if any(jars.glob("log4j-core-2*.jar")):
        configuration = folder / "log4j2.properties"
        configuration.write_text(_log4j2(folder))
        return (f"-Dlog4j2.configurationFile={configuration.as_uri()}",)
    configuration = folder / "log4j.properties"
    configuration.write_text(_log4j1(folder, traced))
    return (f"-Dlog4j.configuration={configuration.as_uri()}",)


def _log4j1(folder: Path, traced: Mapping[str, str]) -> str:
    lines = ["log4j.rootLogger=INFO, server", *_appender("server", folder / "server.log")]
    for logger, file in traced.items():
        lines += [
            f"log4j.logger.{logger}=TRACE, {file}",
            f"log4j.additivity.{logger}=false",
            *_appender(file, folder / f"{file}.log"),
        ]
    return "\n".join(lines) + "\n"


def _appender(name: str, file: Path) -> Sequence[str]:
    appender = f"log4j.appender.{name}"
    return (
        f"{appender}=org.apache.log4j.FileAppender",
        f"{appender}.File={file}",
        f"{appender}.layout=org.apache.log4j.PatternLayout",
        f"{appender}.layout.ConversionPattern={_PATTERN}",
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
