"""Problems with Java and the master are reported, most of them before Spark starts."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from replay.fleet.errors import FleetError
from replay.fleet.session import check_java, check_master, package


def a_java(folder: Path, version: str) -> None:
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)


def test_missing_java_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FleetError, match="java is not on PATH: install Java 17"):
        check_java()


def test_java_home_without_java_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(FleetError, match="cannot be executed"):
        check_java()


def test_old_java_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    a_java(tmp_path, "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(FleetError, match=r"needs Java 17, .* is 11"):
        check_java()


@pytest.mark.parametrize("master", ["lokal", "local[", "local[two]", "spark:/h:7077", "", "yarn2"])
def test_invalid_master_is_an_error(master: str) -> None:
    with pytest.raises(FleetError, match=r"is invalid: use local\[N\]"):
        check_master(master)


def test_unreachable_master_is_an_error() -> None:
    with pytest.raises(FleetError, match="no Spark master answers"):
        check_master("spark://127.0.0.1:1")


@pytest.mark.parametrize(
    "master", ["local", "local[2]", "local[*]", "local[*, 3]", "yarn", "k8s://https://h:6443"]
)
def test_valid_master_is_accepted(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop/conf")
    check_master(master)


def test_yarn_without_its_configuration_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.setenv("YARN_CONF_DIR", "")
    with pytest.raises(FleetError, match="--master yarn: set HADOOP_CONF_DIR"):
        check_master("yarn")
    monkeypatch.setenv("YARN_CONF_DIR", "/etc/hadoop/conf")
    check_master("yarn")


def test_package_has_the_code_of_all_rooms(tmp_path: Path) -> None:
    with ZipFile(package(tmp_path / "refold.zip")) as archive:
        names = set(archive.namelist())
    assert {
        "replay/fleet/ingest_task.py",
        "eventstore/reader.py",
        "controller/core/fold.py",
    } <= names
    assert not any("__pycache__" in name for name in names)


@pytest.mark.lab
def test_java_that_is_killed_before_a_class_is_looked_up_is_named() -> None:
    """In a process without Spark, since there is one Java for each process."""
    code = """
import os, signal
from replay.fleet.session import spark_session

with spark_session("local[1]", is_brief=True) as spark:
    os.kill(spark.sparkContext._gateway.proc.pid, signal.SIGKILL)
    spark.sparkContext._jvm.java.lang.Thread
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stderr.splitlines()[-1].startswith(
        "replay.fleet.errors.FleetError: Spark failed: its Java process ended unexpectedly"
    )
