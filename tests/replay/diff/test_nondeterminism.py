"""A version that does not agree with itself, or does not end, is named."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec import structs
from typer.testing import CliRunner, Result

from replay.cli.diff import FailOn
from replay.cli.main import app
from replay.diff.comparing import Comparison
from replay.diff.messages import PROTOCOL, Decision
from replay.diff.nondeterminism import find_nondeterminism
from replay.diff.processes import VersionProcess
from replay.diff.references import find_version
from replay.diff.reports.as_json import as_json
from replay.diff.reports.github import github
from replay.diff.reports.junit import junit
from replay.diff.reports.markdown import markdown
from replay.diff.reports.text import text
from replay.errors import DiffError
from tests.replay.cli.diff_status import reported_status
from tests.replay.diff import versions
from tests.replay.diff.samples import decision
from tests.replay.diff.test_comparing import compared
from tests.replay.diff.versions import CRASH, INCIDENTS, ROOT, changed


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def unordered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return changed(tmp_path_factory.mktemp("version") / "head", versions.SET_OF_STRINGS)


def diff(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["diff", *map(str, arguments)])


# One version with itself --------------------------------------------------------------------------


def test_equal_decisions_are_deterministic() -> None:
    one, other = decision(1, seq=1), decision(2, seq=2)
    # The sessions of an imported log may be folded in another order.
    assert find_nondeterminism("head", "a log", [one, other], [other, one]) is None


def test_first_decision_that_differs_is_found() -> None:
    one, same = [decision(1, seq=seq) for seq in (1, 2)]
    other = decision(2, seq=2, rule="another rule")
    found = find_nondeterminism("head", "a log", [one, same], [one, other])
    assert found is not None
    assert (found.side, found.log, found.seq) == ("head", "a log", 2)
    path = "/brokers/topics/t/partitions/0/state"
    assert found.decisions == (f"set {path} [a rule]", f"set {path} [another rule]")


@pytest.mark.parametrize("change", [{"rule": "another"}, {"turn": 9}, {"cause": "Startup"}])
def test_every_field_of_a_decision_must_agree(change: dict[str, object]) -> None:
    one = decision(1)
    assert find_nondeterminism("base", "a log", [one], [structs.replace(one, **change)])


def test_earlier_one_of_two_decisions_has_the_first_event() -> None:
    early, late = decision(1, seq=3), decision(1, seq=5)
    for one, other in ((early, late), (late, early)):
        found = find_nondeterminism("head", "a log", [one], [other])
        assert found is not None
        assert (found.seq, found.time_ns) == (3, 3)


def test_decision_without_a_rule_is_named_by_its_target() -> None:
    found = find_nondeterminism("head", "a log", [decision(1, rule="")], [decision(1)])
    assert found is not None
    path = "/brokers/topics/t/partitions/0/state"
    assert found.decisions == (f"set {path}", f"set {path} [a rule]")


def test_missing_decision_is_named() -> None:
    one = decision(1, seq=7)
    nothing: list[Decision] = []
    for ours, theirs in ([one], nothing), (nothing, [one]):
        found = find_nondeterminism("base", "a log", ours, theirs)
        assert found is not None
        assert found.seq == 7
        assert "no further decision" in found.decisions


# Versions -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found(unordered: Path, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """The comparison of this version with one that depends on the hash seed."""
    folder = tmp_path_factory.mktemp("cache")
    base, head = (find_version(str(one), ROOT, folder) for one in (ROOT, unordered))
    return compared(base, head, CRASH)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_version_that_depends_on_the_hash_seed_is_named_in_each_format(found: Comparison) -> None:
    *lines, summary = text(found).splitlines()
    [line] = [one for one in lines if one.startswith("head does not agree with itself")]
    assert line.startswith(
        f"head does not agree with itself: {CRASH}, event 71 at 2026-11-21T23:21:11.027761Z "
        "(znodes_read, BrokerChange): set /brokers/topics/orders/partitions/1/state "
        "[offline partition leader election]"
    )
    assert "; head does not agree with itself" in summary
    assert [one.side for one in found.nondeterminism] == ["head"]
    [shown] = json.loads(as_json(found, []))["nondeterminism"]
    assert (shown["side"], shown["log"], shown["seq"]) == ("head", str(CRASH), 71)
    assert "- **head does not agree with itself" in markdown(found)
    assert f"::error title=refold diff::{line}" in github(found, []).splitlines()
    suite = ElementTree.fromstring(junit(found, [], []))
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert line in str(failure.get("message"))
    assert suite.get("failures") == "1"


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_exit_status_is_1_although_no_decision_differs(
    unordered: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    version = find_version(str(unordered), ROOT, tmp_path)
    comparison = compared(version, version, CRASH)
    assert reported_status(comparison, fail_on=FailOn.NONE) == 0
    assert reported_status(comparison) == 1
    assert (
        capsys.readouterr()
        .out.splitlines()[-1]
        .endswith("no difference; base does not agree with itself; head does not agree with itself")
    )


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_endless_version_is_stopped_and_named_with_the_event_before(tmp_path: Path) -> None:
    head = changed(tmp_path / "head", versions.ENDLESS)
    result = diff(
        *(CRASH, INCIDENTS / "topics", "--base", ROOT, "--head", head, "--patience", "8"),
        *("--format", "json"),
    )
    assert result.exit_code == 2
    error = f"{head}, {CRASH}: no progress for 8 s after event 70; the process was stopped"
    found = json.loads(result.stdout)
    assert found["errors"] == [error]
    assert f"refold diff: {error}" in result.stderr
    # The stopped log may execute what the others do not.
    assert (found["uncovered"], found["one_sided"], found["undistinguished"]) == ([], [], [])
    assert found["unmeasured"] == [f"no result for {CRASH}, which may execute it"]
    # No broker crashes in the other log.
    assert [bool(one["decisions"]) for one in found["logs"]] == [False, True]


def test_version_may_take_longer_to_start_than_at_one_event(tmp_path: Path) -> None:
    version = find_version(str(ROOT), ROOT, tmp_path)
    with VersionProcess(version, patience_s=0.01) as process:
        assert process.hello.protocol == PROTOCOL
    with pytest.raises(DiffError, match="does not start within 0"):
        VersionProcess(version, patience_s=60, start_s=0.01)
