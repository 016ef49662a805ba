"""`make wheel`: one commit leads to one wheel and one source archive, wherever it is built."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def built(folder: Path, umask: int) -> dict[str, str]:
    """The digests of what a clone builds, by the commands of the Makefile."""
    clone = folder / "clone"
    before = os.umask(umask)
    try:
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        makefile = (clone / "Makefile").read_text()
        (recipe,) = (one for one in makefile.splitlines() if "hatchling build" in one)
        command = recipe.strip().replace("$$", "$").replace("$(BIN)/python", sys.executable)
        subprocess.run(["sh", "-c", command], cwd=clone, check=True, capture_output=True)
    finally:
        os.umask(before)
    files = (clone / "dist").iterdir()
    return {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in files}


@pytest.mark.long
def test_two_builds_of_a_commit_have_the_same_bytes(tmp_path: Path) -> None:
    first = built(tmp_path / "a", 0o022)
    assert sorted(Path(name).suffix for name in first) == [".gz", ".whl"]
    assert built(tmp_path / "elsewhere" / "b", 0o077) == first
