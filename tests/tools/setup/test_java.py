"""The choice of Java, and the errors if there is none."""

from pathlib import Path

import pytest

from tools.setup import java
from tools.setup.java import JavaError, find_java


def fake_java(home: Path, version: str) -> Path:
    """A JAVA_HOME whose java reports `version`."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return home


@pytest.mark.parametrize("version", ["17.0.15", "21", "21.0.2"])
def test_supported_java_of_java_home_is_used(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, version)))
    assert find_java() == tmp_path / "bin" / "java"


@pytest.mark.parametrize(
    ("version", "major"), [("1.8.0_292", "8"), ("11.0.2", "11"), ("18", "18"), ("25.0.1", "25")]
)
def test_unsupported_java_is_an_error_with_its_version(
    version: str, major: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, version)))
    with pytest.raises(JavaError, match=rf"bin/java is Java {major}, but Java 17 or 21 is needed"):
        find_java()


def test_without_java_home_the_first_java_on_path_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    home = fake_java(tmp_path, "17")
    monkeypatch.setenv("PATH", f"{home / 'bin'}:/usr/bin:/bin")
    assert find_java() == home / "bin" / "java"


def test_missing_java_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert java.main() == 1
    shown = capsys.readouterr().err
    assert shown == "setup: no java on PATH and JAVA_HOME is not set; install Java 17 or 21\n"


def test_java_home_without_java_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaError, match="there is no bin/java"):
        find_java()
