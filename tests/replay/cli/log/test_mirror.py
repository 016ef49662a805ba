"""`refold log mirror` and `fetch` without a reachable cluster."""

import sqlite3
from contextlib import closing
from pathlib import Path

from typer.testing import CliRunner

from replay.cli.log.commands import app
from tests.eventstore.samples import write_log

NOWHERE = ("--bootstrap-server", "127.0.0.1:1")


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.output


def test_unreachable_cluster_is_an_error(tmp_path: Path) -> None:
    write_log(tmp_path / "run-1", 1)
    for command in (["mirror", str(tmp_path)], ["fetch", "--list"]):
        status, output = run(*command, *NOWHERE)
        assert status == 2
        assert output.startswith("refold log: topic refold-log at 127.0.0.1:1: ")
        assert "Traceback" not in output


def test_folder_without_logs_publishes_nothing(tmp_path: Path) -> None:
    status, output = run("mirror", str(tmp_path / "absent"), *NOWHERE)
    assert (status, "no such file or folder" in output) == (2, True)
    assert run("mirror", str(tmp_path), *NOWHERE) == (0, "0 records published\n")


def test_changed_log_is_not_published(tmp_path: Path) -> None:
    """The change is found before a broker is contacted."""
    log = write_log(tmp_path / "run-1", 5)
    with closing(
        sqlite3.connect(log / "00000000000000000001.refold", isolation_level=None)
    ) as file:
        file.execute("update events set payload = x'00' where seq = 3")
    for options in ([], ["--json"]):
        status, output = run("mirror", str(tmp_path), *NOWHERE, *options)
        assert status == 1
        assert "00000000000000000001.refold, event 3: it was changed" in output


def test_unreadable_command_config_is_an_error(tmp_path: Path) -> None:
    absent = str(tmp_path / "absent.properties")
    status, output = run("fetch", "--list", *NOWHERE, "--command-config", absent)
    assert status == 2
    assert output.startswith(f"refold log: --command-config {absent}: cannot be read")


def test_fetch_requires_list_or_out() -> None:
    status, output = run("fetch", *NOWHERE)
    assert (status, "--out and --list" in output) == (2, True)
