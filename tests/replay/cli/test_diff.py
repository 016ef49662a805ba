"""`refold diff` from the command line: references, formats and exit codes."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import Result
from typer.testing import CliRunner

from eventstore.writer import LogWriter
from replay.cli.diff import DiffFormat, FailOn
from replay.cli.main import app
from replay.diff.accepted import read_accepted
from replay.diff.comparing import Comparison
from replay.diff.references import find_version
from tests.eventstore.samples import event
from tests.replay.cli.diff_status import reported_status
from tests.replay.diff import versions
from tests.replay.diff.test_comparing import compared
from tests.replay.diff.versions import CRASH, ROOT, changed, commit, edit, git
from tests.replay.recorded_log import header

pytestmark = pytest.mark.timeout(180)
WORKING_TREE = ("--base", str(ROOT), "--head", str(ROOT))


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def cache(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared_cache))


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository in which main is this version; each other branch is named after its change."""
    folder = versions.repository(tmp_path_factory.mktemp("repository") / "refold")
    for branch, changes in {
        "last-of-isr": versions.LAST_OF_ISR,
        "broken": versions.DOES_NOT_START,
        "torn": versions.LACKS_A_MODULE,
        "other-protocol": versions.OTHER_PROTOCOL,
    }.items():
        git(folder, "checkout", "--quiet", "-b", branch, "main")
        edit(folder, changes)
        commit(folder, branch)
    git(folder, "checkout", "--quiet", "-b", "before", "main")
    shutil.rmtree(folder / "replay" / "diff")
    commit(folder, "before refold diff")
    git(folder, "checkout", "--quiet", "-b", "empty", "main")
    shutil.rmtree(folder / "controller")
    commit(folder, "no code")
    git(folder, "checkout", "--quiet", "main")
    return folder


@pytest.fixture(scope="module")
def last_of_isr(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return changed(tmp_path_factory.mktemp("version") / "head", versions.LAST_OF_ISR)


@pytest.fixture(scope="module")
def comparison(last_of_isr: Path, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """The comparison of this version with one that has a changed rule."""
    folder = tmp_path_factory.mktemp("cache")
    base, head = (find_version(str(one), ROOT, folder) for one in (ROOT, last_of_isr))
    return compared(base, head, CRASH)


def diff(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["diff", *map(str, arguments)])


@pytest.mark.long
def test_branch_with_a_changed_rule_differs_in_that_rule(
    repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(repository)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    result = diff(CRASH, "--base", "main", "--head", "last-of-isr")
    assert result.exit_code == 1, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("base  main (refold ")
    assert "offline partition leader election: set decided differently (leader)" in result.stdout
    assert "in 1 log, " in result.stdout
    assert "data.leader: 3 with base, 1 with head" in result.stdout
    assert "ends with leader 1 instead of leader 3" in result.stdout
    assert "assumptions after a version left the log:" in result.stdout
    assert lines[-1].endswith(": 1 difference")
    # One tree is kept once, whatever the reference.
    kept = tmp_path / "refold" / "diff" / "trees"
    trees = {one.name for one in kept.iterdir()}
    assert git(repository, "rev-parse", "main^{tree}") in trees
    assert len(trees) == 2
    assert diff(CRASH, "--base", "main", "--head", "main~0").exit_code == 0
    assert {one.name for one in kept.iterdir()} == trees


@pytest.mark.long
def test_working_tree_has_uncommitted_changes(
    repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    git(tmp_path, "clone", "--quiet", str(repository), str(copy))
    edit(copy, versions.LAST_OF_ISR)
    monkeypatch.chdir(copy / "replay")
    assert diff(CRASH, "--base", "HEAD").exit_code == 1
    assert find_version("working-tree", Path(), tmp_path / "cache").folder == copy


@pytest.mark.long
def test_installed_version_and_a_wheel_can_be_compared(tmp_path: Path) -> None:
    wheel = tmp_path / "refold-0.1.0-py3-none-any.whl"
    code = changed(tmp_path / "code", versions.LAST_OF_ISR)
    metadata = code / "refold-0.1.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    requirements = "".join(f"Requires-Dist: {one}\n" for one in _requirements())
    metadata.write_text(f"Metadata-Version: 2.1\nName: refold\nVersion: 0.1.0\n{requirements}")
    shutil.make_archive(str(wheel), "zip", code)
    wheel.with_name(f"{wheel.name}.zip").rename(wheel)
    result = diff(CRASH, "--base", ROOT, "--head", wheel)
    assert result.exit_code == 1, result.output
    assert "offline partition leader election" in result.stdout


def _requirements() -> list[str]:
    from importlib.metadata import requires

    return [one for one in requires("refold") or [] if "extra ==" not in one]


def test_same_version_has_no_difference(tmp_path: Path) -> None:
    accepted = tmp_path / "accepted.toml"
    accepted.write_text('[[accepted]]\nid = "00000000"\nwhy = "long gone"\n')
    result = diff(CRASH, *WORKING_TREE, "--accepted", accepted)
    assert result.exit_code == 0
    assert "accepted, but no longer found: 00000000 (long gone)" in result.stdout
    assert result.stdout.splitlines()[-1] == "1 log, 124 events, 101 decisions: no difference"


def test_accepted_differences_do_not_fail(
    comparison: Comparison, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [group] = comparison.groups
    accepted = tmp_path / "accepted.toml"
    accepted.write_text(
        f'[[accepted]]\nid = "{group.id}"\nwhy = "the last one is wanted"\n'
        '[[accepted]]\nid = "00000000"\nwhy = "long gone"\n'
    )
    assert reported_status(comparison) == 1
    assert reported_status(comparison, fail_on=FailOn.NONE) == 0
    capsys.readouterr()
    assert reported_status(comparison, accepted=read_accepted(accepted)) == 0
    printed = capsys.readouterr().out
    assert "accepted: the last one is wanted" in printed
    assert "accepted, but no longer found: 00000000 (long gone)" in printed
    assert printed.splitlines()[-1].endswith(": 1 accepted")


def test_report_has_each_format(
    comparison: Comparison, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def reported(as_format: DiffFormat, out: Path | None = None) -> str:
        assert reported_status(comparison, as_format=as_format, out=out) == 1
        return capsys.readouterr().out

    found = json.loads(reported(DiffFormat.JSON))
    assert found["differs"] is True
    [group] = found["groups"]
    assert group["what"] == "changed"
    assert group["base_rule"] == "offline partition leader election"
    assert group["instances"][0]["consequences"]
    assert group["partitions"][0] == [str(CRASH), "orders-1"]
    assert found["logs"][0]["assumptions"]["head"]

    out = tmp_path / "report.md"
    assert reported(DiffFormat.MARKDOWN, out) == ""
    text = out.read_text()
    assert text.startswith("## Decisions: base and head")
    assert f"| `{group['id']}` | offline partition leader election" in text
    assert "orders-1: ends with leader 1 instead of leader 3" in text

    suite = ElementTree.fromstring(reported(DiffFormat.JUNIT))
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "1", "0")
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert "offline partition leader election" in str(failure.get("message"))

    lines = reported(DiffFormat.GITHUB).splitlines()
    [annotation] = [one for one in lines if one.startswith("::error ")]
    assert "title=offline partition leader election%3A set decided differently" in annotation
    assert "%0A" in annotation


# Unusable versions, logs and files ---------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("no-such-branch", "no-such-branch is not a version: it is neither a ref in"),
        ("broken", "broken does not start: SyntaxError"),
        ("torn", "torn does not start: ModuleNotFoundError: No module named 'replay.gone'"),
        ("before", "before is too old for refold diff: it has no replay/diff/protocol.py"),
        ("empty", "empty does not contain refold's code"),
        ("other-protocol", "other-protocol has protocol 2 of refold diff, this version has 1"),
    ],
)
def test_unusable_version_is_rejected(
    repository: Path, monkeypatch: pytest.MonkeyPatch, reference: str, message: str
) -> None:
    monkeypatch.chdir(repository)
    result = diff(CRASH, "--base", "main", "--head", reference)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.long
def test_version_with_missing_packages_is_rejected(tmp_path: Path) -> None:
    head = changed(tmp_path / "head")
    project = head / "pyproject.toml"
    required = '"aiokafka>=0.12", "a-missing-package @ file:///nowhere/at-all.whl"'
    project.write_text(project.read_text().replace('"aiokafka>=0.12"', required))
    result = diff(CRASH, "--base", ROOT, "--head", head)
    assert result.exit_code == 2
    assert (
        "requires other packages than this version, and they cannot be installed" in result.stderr
    )


def test_branch_outside_of_a_repository_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = diff(CRASH, "--base", "main")
    assert result.exit_code == 2
    assert "is not in a git repository" in result.stderr


def test_log_of_a_newer_version_is_reported(tmp_path: Path) -> None:
    with LogWriter.create(tmp_path / "log", header()) as writer:
        writer.append([event(1)._replace(kind="session_connected", schema=9)], [])
    result = diff(tmp_path / "log", *WORKING_TREE)
    assert result.exit_code == 2
    assert "made by a newer refold" in result.stderr
    assert "1 log could not be folded" in result.stdout


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "does not exist"),
        ("folder", "is neither a log nor a folder of logs or incidents"),
        ("file", "is not a log: neither a folder of segments nor a packed log"),
        ("packed.tar.xz", "cannot be opened"),
    ],
)
def test_path_without_a_log_is_rejected(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("text")
    (tmp_path / "packed.tar.xz").write_text("text")
    result = diff(tmp_path / name, *WORKING_TREE)
    assert result.exit_code == 2
    assert message in result.stderr


def test_damaged_log_causes_no_traceback(tmp_path: Path) -> None:
    shutil.unpack_archive(CRASH / "log.tar.xz", tmp_path, filter="data")
    [segment] = (tmp_path / "log").iterdir()
    content = bytearray(segment.read_bytes())
    place = content.index(b"orders", len(content) // 2)
    content[place : place + 6] = b"0rders"
    segment.write_bytes(content)
    result = diff(tmp_path / "log", *WORKING_TREE)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_unwritable_report_is_an_error(
    comparison: Comparison, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reported_status(comparison, out=tmp_path / "none" / "report") == 2
    assert "cannot be written" in capsys.readouterr().err


def test_ctrl_c_ends_without_a_traceback() -> None:
    program = (
        "import _thread, threading, sys; from replay.cli.main import main\n"
        "threading.Timer(1.5, _thread.interrupt_main).start()\n"
        f"sys.argv = ['refold', 'diff', {str(ROOT / 'tests' / 'recordings')!r},"
        f" '--base', {str(ROOT)!r}, '--head', {str(ROOT)!r}]\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode in (2, 130)
    assert "Traceback" not in done.stderr
