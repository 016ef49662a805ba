"""The comparison of two versions reports changed code that no log executes."""

import json
from copy import deepcopy
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from replay.cli.diff import DiffFormat, FailOn
from replay.cli.main import app
from replay.diff.comparing import Comparison
from replay.diff.references import find_version
from tests.replay.cli.diff_status import reported_status
from tests.replay.diff.test_comparing import compared
from tests.replay.diff.versions import CRASH, ROOT, Edit, changed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

REBALANCE = Edit(
    "controller/core/procedures/elections/rebalance.py",
    "check_interval_seconds * 1000",
    "check_interval_seconds * 2000",
)
BLOCK = Edit(
    "controller/core/procedures/admin/producer_ids.py", "_BLOCK_SIZE = 1000", "_BLOCK_SIZE = 900"
)
RECOVERING = Edit(
    "controller/core/procedures/elections/alter_partition.py",
    "len(proposed.isr) > 1",
    "len(proposed.isr) > 2",
)
COPIED = Edit(
    "controller/core/election.py",
    "    leader, passed_over = _first_in_sync(replicas, isr, is_online)\n    if leader",
    "    leader, passed_over = _first_in_sync(tuple(replicas), isr, is_online)\n    if leader",
)
"""A change without an effect."""
HAS_NO_OUTCOMES = Edit(
    "replay/diff/protocol.py",
    "structs.replace(folded, outcomes=outcomes.take())",
    "folded",
)
DOES_NOT_MEASURE = Edit(
    "replay/diff/protocol.py", "if not request.with_executed:", "if request.settings is not None:"
)
UNCOVERED = [
    "changed and never executed: procedures/admin/producer_ids.py:_BLOCK_SIZE",
    "changed and never executed: procedures/elections/rebalance.py:process_rebalance",
]
ONE_SIDED = (
    "changed and never evaluated: procedures/elections/alter_partition.py:judge, line 175: "
    "len(proposed.isr) > 2"
)
UNDISTINGUISHED = (
    "changed and executed without a difference: election.py:offline_partition_leader, line 83"
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "refold" / "diff" / "executed"


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("version") / "head"
    return changed(folder, REBALANCE, BLOCK, RECOVERING, COPIED)


@pytest.fixture(scope="module")
def comparison(head: Path, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    folder = tmp_path_factory.mktemp("cache")
    base, changed_version = (find_version(str(one), ROOT, folder) for one in (ROOT, head))
    return compared(base, changed_version, CRASH)


def diff(head: Path, *arguments: str) -> Result:
    arguments = (str(CRASH), "--base", str(ROOT), "--head", str(head), *arguments)
    return CliRunner().invoke(app, ["diff", *arguments])


@pytest.mark.long
def test_changes_that_no_log_executes_end_the_report(head: Path) -> None:
    result = diff(head, "--fail-on", "uncovered")
    assert result.exit_code == 1, result.output
    *_, summary = lines = result.stdout.splitlines()
    assert lines[-5:-1] == [*UNCOVERED, ONE_SIDED, UNDISTINGUISHED]
    assert summary.endswith(
        "no difference; 2 changes never executed; 1 condition with one outcome; "
        "1 change executed without a difference"
    )


def test_each_kind_of_change_fails_where_it_is_asked_for(
    comparison: Comparison,
) -> None:
    def exits(fail_on: str, *kept: str) -> int:
        found = deepcopy(comparison)
        for name in ("uncovered", "one_sided", "undistinguished"):
            if name not in kept:
                setattr(found, name, [])
        return reported_status(found, fail_on=FailOn(fail_on))

    assert exits("changed", "uncovered", "one_sided", "undistinguished") == 0
    assert exits("uncovered", "undistinguished") == 0
    assert exits("uncovered", "one_sided") == 1
    assert exits("undistinguished") == 0
    for kind in ("uncovered", "one_sided", "undistinguished"):
        assert exits("undistinguished", kind) == 1


@pytest.mark.long
def test_executed_lines_are_measured_once_for_a_core(head: Path, cache: Path) -> None:
    first = diff(head)
    [stored] = cache.glob("*/*.json")
    lines = json.loads(stored.read_bytes())
    # The second report is made from the stored lines.
    stored.write_text(json.dumps({**lines, "procedures/elections/rebalance.py": [25, 26, 27]}))
    second = diff(head)
    assert UNCOVERED[1] in first.stdout
    assert UNCOVERED[1] not in second.stdout
    assert UNCOVERED[0] in second.stdout
    # Damaged lines are measured again.
    stored.write_text("{")
    assert diff(head).stdout == first.stdout


def test_nothing_is_measured_for_equal_cores(cache: Path) -> None:
    result = diff(ROOT, "--fail-on", "uncovered", "--format", "json")
    assert (result.exit_code, json.loads(result.stdout)["differs"]) == (0, False)
    assert not cache.exists()


def test_json_has_the_changes_that_no_log_executes(
    comparison: Comparison, capsys: pytest.CaptureFixture[str]
) -> None:
    reported_status(comparison, as_format=DiffFormat.JSON)
    found = json.loads(capsys.readouterr().out)
    assert found["uncovered"] == [
        {
            "file": "procedures/admin/producer_ids.py",
            "name": "_BLOCK_SIZE",
            "side": "head",
            "lines": [],
        },
        {
            "file": "procedures/elections/rebalance.py",
            "name": "process_rebalance",
            "side": "head",
            "lines": [],
        },
    ]
    assert found["one_sided"] == [
        {
            "file": "procedures/elections/alter_partition.py",
            "name": "judge",
            "side": "head",
            "line": 175,
            "condition": "len(proposed.isr) > 2",
            "outcome": "never evaluated",
        }
    ]
    assert found["undistinguished"] == [
        {
            "file": "election.py",
            "name": "offline_partition_leader",
            "side": "head",
            "lines": [83],
        }
    ]
    assert found["unmeasured"] == []


def test_markdown_and_github_have_the_changes_that_no_log_executes(
    comparison: Comparison, capsys: pytest.CaptureFixture[str]
) -> None:
    reported_status(comparison, as_format=DiffFormat.MARKDOWN)
    shown = capsys.readouterr().out
    assert "rebalance.py:process\\_rebalance" in shown
    assert "- changed and never evaluated: " in shown
    assert "- changed and executed without a difference: election.py" in shown
    reported_status(comparison, as_format=DiffFormat.GITHUB)
    lines = capsys.readouterr().out.splitlines()
    file = "file=controller/core/procedures/elections/rebalance.py"
    assert f"::warning {file},title=refold diff::{UNCOVERED[1]}" in lines
    file = "file=controller/core/procedures/elections/alter_partition.py,line=175"
    assert f"::warning {file},title=refold diff::{ONE_SIDED}" in lines
    file = "file=controller/core/election.py,line=83"
    assert f"::notice {file},title=refold diff::{UNDISTINGUISHED}" in lines


@pytest.mark.long
def test_version_that_cannot_measure_is_named(tmp_path: Path) -> None:
    old = changed(tmp_path / "old", REBALANCE, DOES_NOT_MEASURE)
    result = diff(old, "--fail-on", "uncovered")
    assert result.exit_code == 1
    assert f"changed code not measured: {old} is too old to report" in result.stdout
    assert "never executed" not in result.stdout


@pytest.mark.long
def test_version_that_cannot_report_outcomes_is_named(tmp_path: Path) -> None:
    old = changed(tmp_path / "old", RECOVERING, HAS_NO_OUTCOMES)
    result = diff(old, "--fail-on", "uncovered")
    assert result.exit_code == 1
    assert f"{old} is too old to report the outcomes of conditions" in result.stdout
    assert "never evaluated" not in result.stdout
