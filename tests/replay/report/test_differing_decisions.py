"""The findings of `refold diff` in a report."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from replay.cli.report import app
from tests.replay.report.compared_versions import CRASH, UNCHANGED, instance, write_diff


def _report(log: str, diff: Path, *options: str) -> Result:
    return CliRunner().invoke(app, [log, "--diff", str(diff), *options])


def _printed(log: str, diff: Path) -> Any:
    result = _report(log, diff, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["reports"][0]


def test_differing_decision_is_a_finding_at_its_event(tmp_path: Path) -> None:
    found = _printed(CRASH, write_diff(tmp_path, [instance()]))["findings"][0]
    assert (found["kind"], found["severity"], found["seq"]) == ("differs", "bad", 71)
    assert found["subjects"] == ["orders-1"]
    parts = (
        "offline partition leader election: set decided differently (leader), at event 71 (2026-",
        "data.leader: 3 with base, 1 with head",
        "1 more decision with it: 1 leader_and_isr missing",
        "orders-1: ends with leader 1 instead of 3.",
    )
    assert all(one in found["text"] for one in parts), found["text"]
    assert found["look_at"] == f"refold diff {CRASH} --base main --head 'other branch'"


def test_difference_after_another_one_is_a_warning_and_an_accepted_one_is_none(
    tmp_path: Path,
) -> None:
    later = instance()
    later.is_later = True
    found = _printed(CRASH, write_diff(tmp_path, [instance(), later]))["findings"]
    severities = [one["severity"] for one in found if one["kind"] == "differs"]
    assert severities == ["bad", "warning"]
    found = _printed(CRASH, write_diff(tmp_path, [instance()], accepted="faster"))["findings"]
    (one,) = (one for one in found if one["kind"] == "differs")
    assert one["severity"] == "info"
    assert "accepted, faster; " in one["text"]


def test_differing_decisions_have_a_lane_in_the_trace(tmp_path: Path) -> None:
    result = _report(CRASH, write_diff(tmp_path, [instance()]), "--format", "perfetto", "-o", "-")
    marks = [one for one in json.loads(result.stdout)["traceEvents"] if one.get("cat") == "diff"]
    assert [(one["args"]["event"], one["name"]) for one in marks] == [
        (71, "set /brokers/topics/orders/partitions/1/state decided differently"),
        (72, "leader_and_isr broker 3 (orders-1) no longer decided"),
    ]


def test_log_without_a_difference_is_said_to_have_none(tmp_path: Path) -> None:
    found = _printed(UNCHANGED, write_diff(tmp_path, [instance()]))
    (note,) = (one for one in found["notes"] if one.startswith("refold diff: "))
    assert note.startswith("refold diff: no decision of this log differs between base main (")
    assert not any(one["kind"] == "differs" for one in found["findings"])


def test_log_is_found_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_diff(tmp_path, [instance()])
    monkeypatch.chdir("tests/incidents")
    assert _printed("broker-crash", path)["findings"][0]["seq"] == 71


@pytest.mark.parametrize(
    ("log", "diff", "text"),
    [
        ("tests/incidents/failover", {}, f"compares {CRASH}, {UNCHANGED}, not tests/incidents/fai"),
        (CRASH, {"error": "head stopped"}, f"has no result for {CRASH}: head stopped"),
    ],
)
def test_comparison_without_a_result_for_the_log_is_an_error(
    tmp_path: Path, log: str, diff: dict[str, str], text: str
) -> None:
    result = _report(log, write_diff(tmp_path, [], **diff), "--json")
    assert result.exit_code == 2
    assert text in result.output


def test_comparison_of_an_earlier_log_at_this_path_is_an_error(tmp_path: Path) -> None:
    result = _report(CRASH, write_diff(tmp_path, [instance(time_ns=10**18)]), "--json")
    assert result.exit_code == 2
    assert "names event 71 at 2001-09-09T01:46:40.000000Z, which" in result.output


def test_file_without_a_comparison_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text("{}")
    result = _report(CRASH, path, "--json")
    assert result.exit_code == 2
    assert f"{path} is not the output of `refold diff LOG --format json`" in result.output
    result = _report(CRASH, tmp_path / "absent", "--json")
    assert result.exit_code == 2
    assert "absent cannot be read" in result.output


def test_names_in_a_comparison_are_not_mixed_with_a_redacted_log(tmp_path: Path) -> None:
    result = _report(CRASH, write_diff(tmp_path, [instance()]), "--redact", "--json")
    assert result.exit_code == 2
    assert "not together with --diff" in result.output
