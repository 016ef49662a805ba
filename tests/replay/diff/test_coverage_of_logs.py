"""Changed code that logs execute: its lines and outcomes, which two small cores report for logs."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from controller.core.canonical import digest
from controller.event_log.records import command_record, event_record
from eventstore.folders import segment_path, segments_in
from eventstore.writer import LogWriter
from replay.diff.conditions import FALSE, TRUE
from replay.diff.coverage import ChangeCoverage, Side
from replay.diff.logs import NamedLog, open_logs
from replay.diff.messages import PROTOCOL, FoldedLog, Hello
from replay.diff.references import INSTALLED, Version
from replay.diff.uncovered import UncoveredCode
from tests.replay.diff.test_uncovered import FUNCTION, core
from tests.replay.recorded_log import header, incident, write_log

VALUE = "MOST = 1\n\ndef f():\n    return MOST\n"
"""The function uses the value in line 4."""
COMPARISON = "def is_over(one, limit):\n    return one > limit\n"
REMOVING = ("def f(a):\n    a.pop()\n    return a\n", "def f(a):\n    return a\n")
WRITING = REMOVING[::-1]
COMPARING = (COMPARISON, COMPARISON.replace(">", ">="))
SETTING = (VALUE, VALUE.replace("= 1", "= 2"))
NEVER_EXECUTED = [UncoveredCode("m.py", "f", "head", (2,))]
"""The change of WRITING, if only line 3 is executed."""


def version(folder: Path, text: str, reported: str = "") -> tuple[Version, Hello]:
    """A version in a folder. Its core has one module, and is reported as `reported`."""
    core(folder / "controller" / "core", m=text)
    fingerprint = digest(text.encode()).hex()
    return Version(folder.name, folder, "python"), Hello(PROTOCOL, fingerprint, "2.0", reported)


def coverage(
    folder: Path,
    cores: Iterable[str],
    cache: Path | None = None,
    settings: dict[str, str] | None = None,
) -> ChangeCoverage:
    """The coverage of two versions, which are written into a folder."""
    names = ("base", "head")
    versions = [version(folder / one, text) for one, text in zip(names, cores, strict=True)]
    return ChangeCoverage(versions, settings or {}, cache)


def log(folder: Path, *segments: bytes, name: str = "log") -> NamedLog:
    """A log with segments of the given content."""
    (folder / name).mkdir(parents=True)
    for position, content in enumerate(segments or (name.encode(),)):
        segment_path(folder / name, position + 1).write_bytes(content)
    return NamedLog(name, folder / name)


def executed(*lines: int) -> FoldedLog:
    return FoldedLog(1, 1, executed={"m.py": list(lines)})


def with_outcomes(*outcomes: int) -> FoldedLog:
    return FoldedLog(1, 1, outcomes={"m.py": list(outcomes)})


# What is measured ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cores", "sides"),
    [
        (REMOVING, {"base"}),
        (WRITING, {"head"}),
        (SETTING, {"head"}),
        (COMPARING, {"head"}),
        ((FUNCTION, VALUE), {"base", "head"}),
        ((VALUE, VALUE), set()),
    ],
    ids=["removed", "written", "value", "condition", "both", "same core"],
)
def test_lines_are_measured_in_each_version_with_changed_code(
    tmp_path: Path, cores: tuple[str, str], sides: set[Side]
) -> None:
    assert coverage(tmp_path, cores).sides_to_measure(log(tmp_path)) == sides


def test_versions_with_the_same_core_have_no_changes(tmp_path: Path) -> None:
    same = coverage(tmp_path, (COMPARISON, COMPARISON))
    assert (same.conditions("base"), same.conditions("head")) == ({}, {})
    assert (same.uncovered(), same.one_sided(), same.undistinguished([])) == ([], [], [])
    assert same.unmeasured(["a log"]) == []


def test_core_of_the_installed_version_is_where_the_version_reports_it(tmp_path: Path) -> None:
    base = version(tmp_path / "base", VALUE)
    folder = tmp_path / "installed" / "controller" / "core"
    _, hello = version(tmp_path / "installed", SETTING[1], str(folder))
    found = ChangeCoverage([base, (Version(INSTALLED, None, "python"), hello)], {}, None)
    assert found.uncovered() == [UncoveredCode("m.py", "MOST", "head")]


# Executed lines -----------------------------------------------------------------------------------


def test_change_is_uncovered_until_a_log_executes_it(tmp_path: Path) -> None:
    found = coverage(tmp_path, WRITING)
    assert found.uncovered() == [UncoveredCode("m.py", "f", "head")]
    found.add("head", log(tmp_path, name="first"), executed(3))
    assert found.uncovered() == NEVER_EXECUTED
    found.add("head", log(tmp_path, name="second"), executed(2))
    found.add("head", log(tmp_path, name="third"), executed(3))
    assert found.uncovered() == []


def test_change_that_only_logs_without_a_difference_execute_is_named(tmp_path: Path) -> None:
    found = coverage(tmp_path, WRITING)
    found.add("head", log(tmp_path, name="equal"), executed(2, 3))
    found.add("head", log(tmp_path, name="different"), executed(3))
    assert found.undistinguished(["different"]) == NEVER_EXECUTED
    assert found.undistinguished(["equal"]) == []


def test_function_with_a_one_sided_condition_is_not_named_again(tmp_path: Path) -> None:
    found = coverage(tmp_path, COMPARING)
    found.add_outcomes("base", with_outcomes(TRUE | FALSE))
    found.add("head", log(tmp_path), executed(2))
    found.add_outcomes("head", with_outcomes(TRUE))
    assert [one.outcome for one in found.one_sided()] == ["never false"]
    assert found.undistinguished([]) == []
    found.add_outcomes("head", with_outcomes(FALSE))
    assert found.undistinguished([]) == [UncoveredCode("m.py", "is_over", "head", (2,))]


def test_version_that_reports_no_lines_is_named(tmp_path: Path) -> None:
    found = coverage(tmp_path, (FUNCTION, VALUE))
    one = log(tmp_path)
    found.add("base", one, FoldedLog(1, 1))
    found.add("head", one, executed(3))
    assert found.unmeasured([]) == ["base is too old to report which lines it executes"]
    assert {each.side for each in found.uncovered()} == {"head"}


def test_logs_without_a_result_are_named_if_the_cores_differ(tmp_path: Path) -> None:
    found = coverage(tmp_path, WRITING)
    assert found.unmeasured([]) == []
    assert found.unmeasured(["one", "other"]) == ["no result for one, other, which may execute it"]


# Outcomes of conditions ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcomes", "named"),
    [
        ([TRUE], ["never false"]),
        ([FALSE], ["never true"]),
        ([0], ["never evaluated"]),
        ([FALSE, FALSE], ["never true"]),
        ([TRUE, FALSE], []),
        ([TRUE, 0, FALSE], []),
        ([TRUE | FALSE], []),
    ],
)
def test_condition_is_one_sided_unless_logs_have_both_outcomes(
    tmp_path: Path, outcomes: list[int], named: list[str]
) -> None:
    found = coverage(tmp_path, COMPARING)
    found.add("head", log(tmp_path), executed(2))
    for one in outcomes:
        found.add_outcomes("head", with_outcomes(one))
    found.add_outcomes("base", with_outcomes(TRUE | FALSE))
    assert [one.outcome for one in found.one_sided()] == named


def test_version_that_reports_no_outcomes_is_named(tmp_path: Path) -> None:
    found = coverage(tmp_path, COMPARING)
    found.add("head", log(tmp_path), executed(2))
    # The second log is folded by another process.
    for outcomes in (FoldedLog(1, 1), FoldedLog(1, 1), with_outcomes(TRUE)):
        found.add_outcomes("head", outcomes)
    assert found.unmeasured([]) == ["head is too old to report the outcomes of conditions"]
    assert found.one_sided() == []


def test_version_without_changed_conditions_needs_no_outcomes(tmp_path: Path) -> None:
    found = coverage(tmp_path, (VALUE, VALUE + COMPARISON))
    found.add_outcomes("base", FoldedLog(1, 1))
    found.add_outcomes("head", with_outcomes(TRUE | FALSE))
    assert found.unmeasured([]) == []


def test_version_that_reports_neither_lines_nor_outcomes_is_named_once(tmp_path: Path) -> None:
    found = coverage(tmp_path, COMPARING)
    found.add("head", log(tmp_path), FoldedLog(1, 1))
    found.add_outcomes("head", FoldedLog(1, 1))
    assert found.unmeasured([]) == ["head is too old to report which lines it executes"]
    assert (found.uncovered(), found.one_sided()) == ([], [])


# Stored lines -------------------------------------------------------------------------------------


def test_stored_lines_of_each_log_are_not_measured_again(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    logs = [log(tmp_path, name=one) for one in ("first", "second")]
    found = coverage(tmp_path / "a", WRITING, cache)
    for one, lines in zip(logs, (executed(3), executed(2)), strict=True):
        assert found.sides_to_measure(one) == {"head"}
        found.add("head", one, lines)
    again = coverage(tmp_path / "b", WRITING, cache)
    assert again.sides_to_measure(logs[0]) == set()
    assert again.uncovered() == NEVER_EXECUTED
    assert again.sides_to_measure(logs[1]) == set()
    assert again.uncovered() == []


def test_stored_lines_of_a_log_are_used_at_another_path(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    contents = (b"first", b"second")
    coverage(tmp_path / "a", WRITING, cache).add("head", log(tmp_path, *contents), executed(3))
    found = coverage(tmp_path / "b", WRITING, cache)
    assert found.sides_to_measure(log(tmp_path, *contents, name="moved")) == set()
    assert found.sides_to_measure(log(tmp_path, b"first", b"other", name="other")) == {"head"}


def test_stored_lines_are_those_of_one_core_and_of_its_settings(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    one = log(tmp_path)
    settings = {"controlled.shutdown.enable": "false", "unclean.leader.election.enable": "true"}
    coverage(tmp_path / "a", WRITING, cache, settings).add("head", one, executed(2, 3))
    other_core = (WRITING[0], WRITING[1].replace("pop", "clear"))
    for number, (cores, given, measured) in enumerate(
        [
            (WRITING, dict(reversed(settings.items())), set()),
            (WRITING, {}, {"head"}),
            (other_core, settings, {"head"}),
        ]
    ):
        found = coverage(tmp_path / str(number), cores, cache, given)
        assert found.sides_to_measure(one) == measured


def test_damaged_lines_are_measured_again(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    one = log(tmp_path)
    found = coverage(tmp_path / "a", WRITING, cache)
    found.add("head", one, executed(3))
    [stored] = cache.rglob("*.json")
    stored.write_text("{")
    assert found.sides_to_measure(one) == {"head"}


def test_lines_count_without_a_folder_to_store_them(tmp_path: Path) -> None:
    one = log(tmp_path)
    (tmp_path / "file").touch()
    for folder, cache in (("a", None), ("b", tmp_path / "file")):
        found = coverage(tmp_path / folder, WRITING, cache)
        found.add("head", one, executed(3))
        assert found.uncovered() == NEVER_EXECUTED
        assert found.sides_to_measure(one) == {"head"}


def test_segment_of_a_log_is_measured(tmp_path: Path) -> None:
    [segment] = segments_in(write_log(tmp_path / "log", incident()))
    with open_logs([segment]) as [one]:
        found = coverage(tmp_path, WRITING, tmp_path / "cache")
        assert found.sides_to_measure(one) == {"head"}


def test_log_that_has_grown_is_measured_again(tmp_path: Path) -> None:
    """A daemon is writing it: the last events are in SQLite's write-ahead log."""
    one = NamedLog("log", tmp_path / "log")
    first, second, third = (
        coverage(tmp_path / run, WRITING, tmp_path / "cache") for run in ("1", "2", "3")
    )
    with LogWriter.create(one.path, header()) as writer:
        for number, (recorded, issued) in enumerate(incident().history):
            writer.append([event_record(recorded)], [command_record(each) for each in issued])
            if number == 60:
                assert first.sides_to_measure(one) == {"head"}
        first.add("head", one, executed(3))
        assert second.sides_to_measure(one) == {"head"}
        second.add("head", one, executed(3))
        assert third.sides_to_measure(one) == frozenset()
