"""The core's fingerprint, computed in copies of the source."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import controller
from controller.fingerprint import code_version, core_fingerprint

SOURCE = Path(controller.__file__ or "").parent


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package without Python's caches."""
    shutil.copytree(SOURCE, tmp_path / "controller", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def fingerprint(copy: Path) -> str:
    program = "from controller.fingerprint import core_fingerprint; print(core_fingerprint())"
    printed = subprocess.run(
        [sys.executable, "-c", program], cwd=copy, check=True, capture_output=True, text=True
    )
    return printed.stdout.strip()


def test_fingerprint_depends_only_on_the_source(copy: Path) -> None:
    """The fingerprint does not depend on the folder, on line ends or on Python's caches."""
    first = fingerprint(copy)
    assert first == core_fingerprint()
    for module in (copy / "controller" / "core").rglob("*.py"):
        module.write_bytes(module.read_bytes().replace(b"\n", b"\r\n"))
    assert fingerprint(copy) == first


def test_fingerprint_changes_with_any_module_of_the_core(copy: Path) -> None:
    first = fingerprint(copy)
    changed = copy / "controller" / "core" / "procedures" / "dispatch.py"
    changed.write_bytes(changed.read_bytes() + b"#\n")
    second = fingerprint(copy)
    changed.rename(changed.with_name("dispatch_2.py"))
    shutil.copy(changed.with_name("dispatch_2.py"), changed)
    assert len({first, second, fingerprint(copy)}) == 3


def test_code_version_has_a_name() -> None:
    assert code_version() != ""
