"""Finds by one run of the suite which tests run which lines, and how long each test takes."""

import hashlib
import re
import subprocess
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec
from coverage import Coverage

from tools.mutations.functions import Function
from tools.mutations.operators import Mutant

TESTS_MAX: Final = 200
"""How many tests a mutant gets at most."""
_RARE_MAX: Final = 60
"""How many of them because they run lines that few tests run, and how many for a line."""
_RARE_OF_LINE: Final = 15
_OWN_MAX: Final = 80
"""How many because they are tests of the module."""
_TEST_IMPORT: Final = re.compile(rb"^from [\w.]+\.(test_\w+) import", re.MULTILINE)


class SuiteMeasurement(msgspec.Struct):
    """The results of a part of the suite. `lines` has, by file and line, the places in `tests` of
    the tests that run it; `failed` what pytest said of those that failed.
    """

    tests: list[str]
    seconds: list[float]
    lines: dict[str, dict[int, list[int]]]
    failed: dict[str, str] = {}

    def without_files(self, files: Collection[str]) -> "SuiteMeasurement":
        """The results without those of the tests in some files."""
        kept = [place for place, test in enumerate(self.tests) if file_of(test) not in files]
        now = {place: new for new, place in enumerate(kept)}
        lines = {
            path: {
                line: [now[place] for place in places if place in now]
                for line, places in of_file.items()
            }
            for path, of_file in self.lines.items()
        }
        tests = [self.tests[place] for place in kept]
        return SuiteMeasurement(tests, [self.seconds[place] for place in kept], lines)


class _Stored(msgspec.Struct):
    """A file with a map."""

    test_files: dict[str, str]
    parts: list[SuiteMeasurement]


class CoverageMap:
    """The tests of every line. The parts are measured in separate processes. `test_files` has the
    digests of the files of the tests."""

    def __init__(self, parts: Sequence[SuiteMeasurement], test_files: Mapping[str, str]) -> None:
        self.parts = parts
        self.test_files = test_files

    def still_valid(self, test_files: Mapping[str, str]) -> "CoverageMap":
        """The map of the tests in files that have the same digest now."""
        files = self.test_files.items()
        valid = {name: digest for name, digest in files if test_files.get(name) == digest}
        changed = self.test_files.keys() - valid.keys()
        return CoverageMap([part.without_files(changed) for part in self.parts], valid)

    @cached_property
    def seconds(self) -> dict[str, float]:
        """By test: its seconds while it was measured, several times what it takes otherwise."""
        return {
            test: seconds
            for part in self.parts
            for test, seconds in zip(part.tests, part.seconds, strict=True)
        }

    @cached_property
    def _lines_run(self) -> Counter[str]:
        """By test: how many lines it runs."""
        counts: Counter[str] = Counter()
        for part in self.parts:
            places = Counter(
                place
                for lines in part.lines.values()
                for tests in lines.values()
                for place in tests
            )
            counts.update({part.tests[place]: count for place, count in places.items()})
        return counts

    def tests_of(self, mutant: Mutant) -> list[str]:
        """The tests that run the mutant's code, those first that run little else."""
        path = str(mutant.function.path)
        return self.smallest_first(
            self._tests(path, mutant.lines) or self._tests(path, mutant.around)
        )

    def tests_of_function(self, function: Function) -> list[str]:
        """The tests that run any line of a function, those first that run little else."""
        last = function.node.end_lineno or function.first_line
        lines = range(function.first_line, last + 1)
        return self.smallest_first(self._tests(str(function.path), lines))

    def sample_of(self, mutant: Mutant) -> list[str]:
        """At most TESTS_MAX tests that run the mutant's code, always the same ones.

        First those that run a line of the function that few others run: a change of its conditions
        shows there. Then tests of the module itself, by their folder; then the first of the others,
        and some from all over the rest.
        """
        tests = self.tests_of(mutant)
        if len(tests) <= TESTS_MAX:
            return tests
        chosen = dict.fromkeys(self._of_rare_lines(mutant.function, tests))
        own = [one for one in _of_module(mutant.function.module, tests) if one not in chosen]
        chosen.update(dict.fromkeys(own[:_OWN_MAX]))
        others = [one for one in tests if one not in chosen]
        half = (TESTS_MAX - len(chosen)) // 2
        first, rest = others[:half], others[half:]
        return [*chosen, *first, *(rest[place * len(rest) // half] for place in range(half))]

    def outside_sample_of(self, mutant: Mutant) -> list[str]:
        """The tests that run the mutant's code and are not in the sample."""
        sample = set(self.sample_of(mutant))
        return [one for one in self.tests_of(mutant) if one not in sample]

    def _of_rare_lines(self, function: Function, tests: Sequence[str]) -> list[str]:
        last = function.node.end_lineno or function.first_line
        by_line = [
            self._tests(str(function.path), [line])
            for line in range(function.first_line + 1, last + 1)
        ]
        found: dict[str, None] = {}
        for of_line in sorted(by_line, key=len):
            found.update(dict.fromkeys([one for one in tests if one in of_line][:_RARE_OF_LINE]))
            if len(found) >= _RARE_MAX:
                break
        return list(found)[:_RARE_MAX]

    def smallest_first(self, tests: Iterable[str]) -> list[str]:
        """In order of how many lines they run: the same in every run, other than their time."""
        return sorted(tests, key=lambda test: (self._lines_run[test], test))

    def _tests(self, path: str, lines: Iterable[int]) -> set[str]:
        found: set[str] = set()
        for part in self.parts:
            of_file = part.lines.get(path, {})
            places = {place for line in lines for place in of_file.get(line, ())}
            found.update(part.tests[place] for place in places)
        return found


def _of_module(module: str, tests: Iterable[str]) -> list[str]:
    """The tests in the folder for the module's package, from each file in turn; those in a file of
    the module's name first. The folders of tests have the names of packages."""
    package, _, name = module.rpartition(".")
    folder = f"tests/{package.replace('.', '/')}/"
    turns: Counter[str] = Counter()
    own: list[tuple[bool, int, str]] = []
    for test in tests:
        file = file_of(test)
        if file.startswith(folder):
            turns[file] += 1
            own.append((name not in Path(file).stem, turns[file], test))
    return [test for _, _, test in sorted(own, key=lambda one: one[:2])]


def covered_lines(
    coverage: Coverage, paths: Sequence[str], tests: Sequence[str]
) -> dict[str, dict[int, list[int]]]:
    """`SuiteMeasurement.lines` of a coverage run whose contexts are the tests' node ids."""
    data = coverage.get_data()
    places = {test: place for place, test in enumerate(tests)}
    return {
        path: {
            line: sorted(places[test] for test in contexts if test in places)
            for line, contexts in data.contexts_by_lineno(path).items()
        }
        for path in paths
    }


def file_of(test: str) -> str:
    """The file in a test's node id."""
    return test.partition("::")[0]


def file_digests(root: Path, tests: Iterable[str]) -> dict[str, str]:
    """A digest of each file of the tests. It covers other test files that the file imports from."""
    texts = {name: (root / name).read_bytes() for name in map(file_of, tests)}
    modules = {Path(name).stem.encode(): name for name in texts}
    digests = {}
    for name, text in texts.items():
        imported = [modules[one] for one in _TEST_IMPORT.findall(text) if one in modules]
        found = hashlib.sha256(text)
        for other in imported:
            found.update(texts[other])
        digests[name] = found.hexdigest()
    return digests


def tree_digest(root: Path) -> str:
    """A digest of what each part of the map depends on: the Python files other than those of tests,
    and the settings; "" without git."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others"]
    listing = subprocess.run(
        [*command, "--exclude-standard"], capture_output=True, text=True, check=False
    )
    digest = hashlib.sha256()
    for name in sorted(set(listing.stdout.split("\0"))):
        path = root / name
        is_source = name.endswith(".py") and not name.startswith("tools/")
        is_source = is_source and not path.name.startswith("test_")
        if (is_source or name == "pyproject.toml") and path.is_file():
            digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest() if listing.returncode == 0 else ""


def read_map(folder: Path, digest: str) -> CoverageMap:
    """The map of a tree of this digest; empty if the folder has none."""
    path = folder / f"{digest}.msgpack"
    if not digest or not path.is_file():
        return CoverageMap([], {})
    stored = msgspec.msgpack.decode(path.read_bytes(), type=_Stored)
    return CoverageMap(stored.parts, stored.test_files)


def write_map(folder: Path, digest: str, coverage_map: CoverageMap) -> None:
    """Keep the map for the next run, in place of older ones."""
    if not digest:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.msgpack"):
        old.unlink()
    stored = _Stored(dict(coverage_map.test_files), list(coverage_map.parts))
    (folder / f"{digest}.msgpack").write_bytes(msgspec.msgpack.encode(stored))
