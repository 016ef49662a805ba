"""`refold fleet replay` from the command line; its results are tested in tests/replay/fleet."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from replay.cli.fleet.replay import print_replayed
from replay.fleet.manifest import LogCompleteness
from replay.fleet.replaying.summary import FailedReplay, ReplayResult, RuleSummary, VersionSummary
from replay.fleet.set_aside import SetAsideInput
from tests.replay.diff.versions import ROOT

UNUSABLE: Final = 2


def refold(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "replay.cli.main", "fleet", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with one batch without records."""
    folder = tmp_path / "table"
    (folder / "records" / "batch=000001").mkdir(parents=True)
    (folder / "refold-fleet.json").write_text('{"layout": 3}')
    return folder


def assert_one_line(result: subprocess.CompletedProcess[str], text: str) -> None:
    assert result.returncode == UNUSABLE
    assert text in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("versions", "reason"),
    [
        ("no-such-ref", "no-such-ref is not a version"),
        ("working-tree,no-such.whl", "no-such.whl cannot be read as a wheel"),
        (" ,", "--versions is empty"),
        ("docs", "docs is a folder without the code of refold"),
    ],
)
def test_unknown_version_is_an_error(versions: str, reason: str, table: Path) -> None:
    assert_one_line(refold("replay", str(table), "--versions", versions), reason)


def test_result_has_failures_versions_and_rules(capsys: pytest.CaptureFixture[str]) -> None:
    replayed = ReplayResult(
        "/t",
        4,
        1,
        [VersionSummary("v1", "c0de", "f", "0.1.0", 2, 1, 1, 1, 1, 300, 30, 290, 12, 1, 2, 3)],
        [
            RuleSummary(
                "v1", "leader election", "west", 2, 60, 51, 1, 12, 2, 3, "20260921-aa", 180
            ),
            RuleSummary("v1", "", "w[b]e\nst", 1, 7, 7, 0, 0, 0, 0, None, None),
        ],
        50,
        [FailedReplay("west", "20260921-bb", "v1", "it hangs")],
        1,
        [LogCompleteness("west", "20260921-aa", ["transactions are missing"], [], 0)],
        1,
        [SetAsideInput("/l/a.tar", "it is damaged")],
        2,
        3.25,
    )
    print_replayed(replayed)
    output = capsys.readouterr().out
    lines = [" ".join(line.replace("│", " ").split()) for line in output.splitlines()]
    assert lines[:3] == [
        "set aside: /l/a.tar: it is damaged",
        "incomplete: cluster west, log 20260921-aa: transactions are missing",
        "failed: cluster west, log 20260921-bb, version v1: it hangs",
    ]
    assert "v1: 30 of 300 decisions are from 1 incomplete logs" in lines
    assert "v1 (c0de) 2 1 300 290 12 1 2 3 1" in lines
    assert "v1 leader election west 2 60 51 12 2 3 20260921-aa event 180" in lines
    assert r"v1 (none) w[b]e\nst 1 7 7 0 0 0" in lines
    assert "... and 10 more rows with fewer divergences" in output
    # The JSON output does not have all rows either.
    assert "--json" not in output
    assert lines[-1] == "/t: 4 logs replayed by a version, batch 2, 1 failed; 3.2 s"
