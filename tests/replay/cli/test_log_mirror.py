"""What `refold log mirror` and `fetch` say where there is nothing to connect to."""

import sqlite3
from pathlib import Path

from typer.testing import CliRunner

from replay.cli.log.commands import app
from tests.eventstore.samples import write_log

NOWHERE = ("--bootstrap-server", "127.0.0.1:1")


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.output


def test_no_cluster(tmp_path: Path) -> None:
    write_log(tmp_path / "run-1", 1)
    for command in (["mirror", str(tmp_path)], ["fetch", "--list"]):
        status, said = run(*command, *NOWHERE)
        assert status == 2
        assert said.startswith("refold log: topic refold-log at 127.0.0.1:1: ")
        assert "Traceback" not in said


def test_no_logs(tmp_path: Path) -> None:
    status, said = run("mirror", str(tmp_path / "absent"), *NOWHERE)
    assert (status, "no such file or folder" in said) == (2, True)
    assert run("mirror", str(tmp_path), *NOWHERE) == (0, "0 records published\n")


def test_a_log_that_was_changed_is_not_published(tmp_path: Path) -> None:
    """It is found before a broker is asked for."""
    log = write_log(tmp_path / "run-1", 5)
    with sqlite3.connect(log / "00000000000000000001.refold") as file:
        file.execute("update events set payload = x'00' where seq = 3")
    file.close()
    for options in ([], ["--json"]):
        status, said = run("mirror", str(tmp_path), *NOWHERE, *options)
        assert status == 1
        assert "00000000000000000001.refold, event 3: it was changed" in said


def test_settings_that_cannot_be_used(tmp_path: Path) -> None:
    absent = str(tmp_path / "absent.properties")
    status, said = run("fetch", "--list", *NOWHERE, "--command-config", absent)
    assert status == 2
    assert said.startswith(f"refold log: --command-config {absent}: cannot be read")


def test_either_a_list_or_logs() -> None:
    status, said = run("fetch", *NOWHERE)
    assert (status, "--out and --list" in said) == (2, True)
