"""Which tests run which lines, and how long each test takes: found by one run of the suite."""

import hashlib
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from coverage import Coverage
from msgspec import Struct

from tools.mutations.functions import Function
from tools.mutations.operators import Mutant

CoveredLines = dict[str, dict[int, list[str]]]
"""By file and line: the node ids of the tests that run it."""


class CoverageMap(Struct):
    """`seconds` has every test that passed; `failed` those that did not, with what pytest said."""

    lines: CoveredLines
    seconds: dict[str, float]
    failed: dict[str, str] = {}

    def update(self, other: "CoverageMap") -> None:
        """Add the map of other tests."""
        for path, lines in other.lines.items():
            mine = self.lines.setdefault(path, {})
            for line, tests in lines.items():
                mine.setdefault(line, []).extend(tests)
        self.seconds.update(other.seconds)
        self.failed.update(other.failed)

    def tests_of(self, mutant: Mutant) -> list[str]:
        """The tests that run the mutant's code, the quickest first."""
        lines = self.lines.get(str(mutant.function.path), {})
        tests = _tests(lines, mutant.lines) or _tests(lines, mutant.around)
        return self.quickest_first(tests)

    def tests_of_function(self, function: Function) -> list[str]:
        """The tests that run any line of a function, the quickest first."""
        last = function.node.end_lineno or function.first_line
        lines = self.lines.get(str(function.path), {})
        return self.quickest_first(_tests(lines, range(function.first_line, last + 1)))

    def quickest_first(self, tests: Iterable[str]) -> list[str]:
        """In order of their seconds, and by name among equals."""
        return sorted(tests, key=lambda test: (self.seconds.get(test, 0.0), test))


def _tests(lines: dict[int, list[str]], wanted: Iterable[int]) -> set[str]:
    return {test for line in wanted for test in lines.get(line, ())}


def covered_lines(coverage: Coverage, paths: Sequence[str]) -> CoveredLines:
    """What a coverage run measured, whose contexts are the node ids of tests."""
    data = coverage.get_data()
    found: CoveredLines = {}
    for path in paths:
        by_line = data.contexts_by_lineno(path)
        found[path] = {
            line: [one for one in tests if one] for line, tests in by_line.items() if any(tests)
        }
    return found


def tree_digest(root: Path) -> str:
    """A digest of everything that the map depends on: the Python files and the settings."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others"]
    listing = subprocess.run(
        [*command, "--exclude-standard"], capture_output=True, text=True, check=False
    )
    names = sorted(set(listing.stdout.split("\0")))
    digest = hashlib.sha256()
    for name in names:
        path = root / name
        is_source = name.endswith(".py") and not name.startswith("tools/mutations/")
        if (is_source or name == "pyproject.toml") and path.is_file():
            digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest() if listing.returncode == 0 else ""


def read_map(folder: Path, digest: str) -> CoverageMap | None:
    """The map of an equal tree, if there is one in the folder."""
    path = folder / f"{digest}.msgpack"
    if not digest or not path.is_file():
        return None
    return msgspec.msgpack.decode(path.read_bytes(), type=CoverageMap)


def write_map(folder: Path, digest: str, coverage_map: CoverageMap) -> None:
    """Keep the map for the next run over an equal tree, in place of older ones."""
    if not digest:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.msgpack"):
        old.unlink()
    (folder / f"{digest}.msgpack").write_bytes(msgspec.msgpack.encode(coverage_map))
