"""The wheel and the source distribution."""

import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from controller.fingerprint import core_fingerprint
from tools.pages import ROOT

pytestmark = pytest.mark.slow

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.mark.long
def test_wheel_runs_without_the_source_folder(dist: Path, tmp_path: Path) -> None:
    [wheel] = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        packed.extractall(tmp_path)
    assert wheel.name == f"refold-{VERSION}-py3-none-any.whl"
    assert f"refold-{VERSION}.data/data/share/man/man1/refold.1" in names
    assert not [one for one in names if one.startswith(("tests/", "tools/"))]
    done = subprocess.run(
        [sys.executable, "-c", "from replay.cli.main import main; main()", "--version"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"refold {VERSION} (core {core_fingerprint()})\n"


def test_source_distribution_contains_what_the_wheel_is_built_of(dist: Path) -> None:
    [sdist] = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        names = {one.partition("/")[2] for one in packed.getnames()}
    needed = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "docs/refold.1")
    assert {*needed, "docs/deploy/refold.service", "controller/settings/kafka_keys.txt"} <= names


def test_changelog_has_the_version() -> None:
    assert f"\n## [{VERSION}] - " in (ROOT / "CHANGELOG.md").read_text()
