"""`refold fleet` as a user meets it; what it does with logs is tested in tests/replay/fleet."""

import subprocess
import sys
from pathlib import Path

import pytest


def refold(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "controller.cli.main", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**_environment(), **environment},
    )


def _environment() -> dict[str, str]:
    import os

    return dict(os.environ)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["fleet", "--help"], ["fleet", "ingest", "--help"]]
)
def test_help_needs_no_spark(arguments: list[str]) -> None:
    code = (
        "import sys; sys.modules |= dict.fromkeys(('pyspark', 'py4j', 'pyarrow'))\n"
        "from controller.cli.main import main\n"
        f"sys.argv = ['refold', *{arguments!r}]\n"
        "main()"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert told.returncode == 0, told.stderr
    assert "fleet" in told.stdout


def test_no_java(tmp_path: Path) -> None:
    told = refold("fleet", "ingest", str(tmp_path), "--out", str(tmp_path / "t"), JAVA_HOME="/none")
    assert told.returncode == 2
    assert "Spark needs Java" in told.stderr
    assert "Traceback" not in told.stderr


@pytest.mark.parametrize("master", ["lokal", "spark://127.0.0.1:1"])
def test_wrong_master(master: str, tmp_path: Path) -> None:
    arguments = ["fleet", "ingest", str(tmp_path), "--out", str(tmp_path / "t")]
    told = refold(*arguments, "--master", master)
    assert told.returncode == 2
    assert told.stderr.startswith(f"refold fleet ingest: --master {master}")


def test_setting_without_value(tmp_path: Path) -> None:
    arguments = ["fleet", "ingest", str(tmp_path), "--out", str(tmp_path / "t")]
    told = refold(*arguments, "--conf", "spark.executor.memory")
    assert told.returncode == 2
    assert "is not NAME=VALUE" in told.stderr


def test_spark_that_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "pyspark.py").write_text("raise ModuleNotFoundError('gone', name='pyspark')")
    path = f"{tmp_path}:{_environment().get('PYTHONPATH', '')}"
    arguments = ["fleet", "ingest", str(tmp_path), "--out", str(tmp_path / "t")]
    told = refold(*arguments, PYTHONPATH=path)
    assert told.returncode == 2
    assert "pip install 'refold[fleet]'" in told.stderr


def test_analysis_of_what_is_no_table(tmp_path: Path) -> None:
    told = refold("fleet", "analyse", str(tmp_path))
    assert told.returncode == 2
    assert "is no table: make one with `refold fleet ingest`" in told.stderr
    told = refold("fleet", "analyse", str(_table(tmp_path / "empty")))
    assert told.returncode == 2
    assert "holds no records: `refold fleet ingest` brings them there" in told.stderr


def test_analysis_without_java_or_master(tmp_path: Path) -> None:
    table = _table(tmp_path)
    (table / "records" / "batch=000001").mkdir(parents=True)
    told = refold("fleet", "analyse", str(table), JAVA_HOME="/none")
    assert told.returncode == 2
    assert "/none/bin/java cannot be run" in told.stderr
    told = refold("fleet", "analyse", str(table), "--master", "nowhere")
    assert told.returncode == 2
    assert told.stderr.startswith("refold fleet analyse: --master nowhere")
    assert not (table / "analysis").exists()


def _table(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "refold-fleet.json").write_text('{"layout": 1}')
    return folder
