"""`refold new-incident` from the command line."""

from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from replay.cli.main import app
from replay.incidents.incident_folder import incident_log
from tests.replay.cli.test_diff import diff
from tests.replay.diff.versions import ROOT
from tests.replay.recorded_log import incident, write_log

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(tmp_path_factory.mktemp("log") / "log", incident())


def new_incident(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["new-incident", *map(str, arguments)])


def test_log_becomes_an_incident(log: Path, tmp_path: Path) -> None:
    result = new_incident(log, "--name", "crash", "--title", 'A "crash"', "--into", tmp_path)
    assert result.exit_code == 0, result.output
    folder = tmp_path / "crash"
    assert str(folder / "transcript.txt") in result.stdout
    assert (folder / "incident.toml").read_text().splitlines()[0] == 'title = "A \\"crash\\""'
    text = (folder / "transcript.txt").read_text()
    assert "offline partition leader election" in text
    assert "passed over 1 (not online)" in text
    assert diff(folder, "--base", ROOT, "--head", ROOT).exit_code == 0


def test_incident_is_cut_to_a_partition_and_redacted(log: Path, tmp_path: Path) -> None:
    options = ("--name", "u", "--partition", "u-0", "--redact", "--into", tmp_path)
    result = new_incident(log, *options)
    assert result.exit_code == 0, result.output
    with incident_log(tmp_path / "u") as made:
        shown = CliRunner().invoke(app, ["log", "show", str(made), "--json"]).stdout
        replayed = CliRunner().invoke(app, ["replay", str(made)])
    assert "/brokers/topics/u" not in shown
    assert "host" in shown
    assert replayed.exit_code == 0, replayed.output
    whole = len(CliRunner().invoke(app, ["log", "show", str(log)]).stdout.splitlines())
    assert len(shown.splitlines()) < whole


def test_update_writes_transcripts_again(log: Path, tmp_path: Path) -> None:
    new_incident(log, "--name", "crash", "--into", tmp_path)
    path = tmp_path / "crash" / "transcript.txt"
    text = path.read_text()
    assert new_incident("--update", "--into", tmp_path).stdout == ""
    path.write_text("old")
    result = new_incident("--update", tmp_path / "crash")
    assert result.stdout == f"{path} changed\n"
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["LOG"], "needs LOG and --name"),
        (["LOG", "--name", "Big Crash"], "lower-case letters"),
        (["LOG", "--name", "there"], "exists already"),
        (["LOG", "--name", "a", "--from", "20", "--to", "10"], "event 20 is after event 10"),
        (["LOG", "--name", "a", "--partition", "x-7"], "is about x-7"),
        (["LOG", "--name", "a", "--partition", "x"], "--partition"),
        (["NOTHING", "--name", "a"], "NOTHING"),
        (["--update"], "no incident in"),
    ],
)
def test_unusable_arguments_are_rejected(
    log: Path, tmp_path: Path, arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    given = [str(log) if one == "LOG" else one for one in arguments]
    result = new_incident(*given, "--into", tmp_path)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output
    assert sorted(one.name for one in tmp_path.iterdir()) == ["there"]


@pytest.mark.long
def test_imported_log_becomes_a_redacted_incident(tmp_path: Path) -> None:
    recording = ROOT / "tests" / "recordings" / "unclean-3.tar.xz"
    options = ("--name", "stock", "--partition", "later.02-0", "--redact", "--into", tmp_path)
    result = new_incident(recording, *options)
    assert result.exit_code == 0, result.output
    folder = tmp_path / "stock"
    text = (folder / "transcript.txt").read_text()
    assert "chosen 2, unclean leader; passed over 2 (not in sync), 1 (not online)" in text
    assert "later.02" not in text
    assert "later.02" not in (folder / "incident.toml").read_text()
    assert new_incident("--update", folder).stdout == ""
    assert diff(folder, "--base", ROOT, "--head", ROOT).exit_code == 0
