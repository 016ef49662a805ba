import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from controller.fingerprint import core_fingerprint
from replay.cli import main
from replay.cli.main import SubCommand, app


def test_help_lists_every_sub_command_and_imports_none() -> None:
    program = (
        "import sys; from replay.cli.main import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "sys.exit(any(name in sys.modules for name in ('replay.cli.log.commands', 'sqlite_utils')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    for name in ("run", "check", "log", "replay"):
        assert f" {name} " in done.stdout


def _help(command: str) -> str:
    return " ".join(CliRunner().invoke(app, [command, "--help"]).output.split())


def test_help_says_where_the_pages_are_that_messages_name() -> None:
    text = " ".join(CliRunner().invoke(app, ["--help"]).output.split())
    assert "such as docs/settings.md, are in the source tree." in text


@pytest.mark.parametrize("command", ["what-if", "report", "debug", "inspect", "events"])
def test_help_of_a_command_that_opens_saved_runs_names_them(command: str) -> None:
    assert "a saved run" in _help(command).partition("Arguments: LOG")[2]


def test_help_of_debug_names_where_it_begins_and_no_standard_input() -> None:
    text = _help("debug")
    assert "default: the first event" in text
    assert "the end of the log" not in text
    assert "stdin" not in text


def test_version_is_printed() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output.startswith("refold")
    # Decisions of two installations are the same if these are.
    assert result.output.endswith(f"(core {core_fingerprint()})\n")


def test_unknown_sub_command_is_an_error() -> None:
    result = CliRunner().invoke(app, ["lok"])
    assert result.exit_code == 2
    assert "No such command 'lok'" in result.output


def test_sub_command_that_is_not_installed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = SubCommand("controller.cli.absent:app", "Not there.")
    monkeypatch.setitem(main.SUB_COMMANDS, "replay", absent)
    result = CliRunner().invoke(app, ["replay"])
    assert result.exit_code == 2
    assert "refold replay is not part of this installation" in result.output


failing = typer.Typer()


@failing.command()
def fail() -> None:
    """A command with a bug."""
    raise IndexError("tuple index\nout of range")


def test_bug_has_an_exit_status_of_no_other_result_and_a_file_with_the_traceback(
    tmp_path: Path,
) -> None:
    program = (
        "from replay.cli import main\n"
        "failing = main.SubCommand('tests.replay.cli.test_main:failing', 'Fails.')\n"
        "main.SUB_COMMANDS['replay'] = failing\n"
        "main.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "replay"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    (file,) = tmp_path.iterdir()
    assert (done.returncode, done.stdout, done.stderr) == (
        70,
        "",
        "refold: internal error (IndexError: tuple index out of range). This is a bug of refold: "
        f"please report it. The traceback is in {file}\n",
    )
    content = file.read_text()
    assert content.startswith("refold replay\nTraceback ")
    assert content.endswith("IndexError: tuple index\nout of range\n")


def test_interruption_while_the_program_is_loaded_ends_it_without_a_traceback() -> None:
    program = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting())
from replay.cli.script import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")
