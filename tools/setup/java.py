"""Finds the Java that runs ZooKeeper, Kafka and Spark: version 17 or 21, from JAVA_HOME or PATH.

Only the standard library is imported: `make setup` runs this before anything is installed.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

SUPPORTED = (17, 21)
_WANTED = " or ".join(str(version) for version in SUPPORTED)
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


class JavaError(Exception):
    """No usable Java was found; the message is one line that says what to do."""


def find_java() -> Path:
    """The `java` to run: JAVA_HOME's if it is set, else the first on PATH.

    Raises JavaError if there is none, or if its version is not supported.
    """
    java = _candidate()
    version = _major_version(java)
    if version not in SUPPORTED:
        raise JavaError(
            f"{java} is Java {version}, but Java {_WANTED} is needed; set JAVA_HOME to one"
        )
    return java


def _candidate() -> Path:
    if home := os.environ.get("JAVA_HOME"):
        java = Path(home) / "bin" / "java"
        if not os.access(java, os.X_OK):
            raise JavaError(
                f"JAVA_HOME is {home}, but there is no bin/java; Java {_WANTED} is needed"
            )
        return java
    found = shutil.which("java")
    if found is None:
        raise JavaError(f"no java on PATH and JAVA_HOME is not set; install Java {_WANTED}")
    return Path(found)


def _major_version(java: Path) -> int:
    try:
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaError(f"{java} -version failed: {error}; Java {_WANTED} is needed") from error
    match = _VERSION.search(shown.stderr + shown.stdout)
    if shown.returncode != 0 or match is None:
        raise JavaError(f"{java} -version shows no version; Java {_WANTED} is needed")
    return int(match[1])


def main() -> int:
    """Print the Java that was found, or the line that says what is missing (exit code 1)."""
    try:
        sys.stdout.write(f"{find_java()}\n")
    except JavaError as error:
        sys.stderr.write(f"setup: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
