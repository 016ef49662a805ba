"""Output that cannot be written, and output without a reader."""

import os
import pty
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from eventstore.writer import LogWriter
from tests.eventstore.samples import event, header
from tests.replay.cli.command import CANNOT_WRITE, REFOLD, on_a_full_disk, unread

COMMANDS = ("log verify", "log show", "log stats", "log tail", "log verify --json")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with LogWriter.create(tmp_path / "log", header()) as writer:
        writer.append([event(1)])
    return tmp_path / "log"


@pytest.mark.sampled
@pytest.mark.parametrize("command", COMMANDS)
def test_full_disk_is_reported_in_one_line(log: Path, command: str) -> None:
    assert on_a_full_disk(*command.split(), log) == (2, CANNOT_WRITE)


def test_streamed_output_to_a_full_disk_is_reported(log: Path) -> None:
    assert on_a_full_disk("log", "copy", log, "-") == (2, CANNOT_WRITE)


@pytest.mark.sampled
@pytest.mark.parametrize("command", ["--help", "--version", "run --help", "log verify --help"])
def test_help_and_version_to_a_full_disk_are_reported(command: str) -> None:
    assert on_a_full_disk(*command.split()) == (2, CANNOT_WRITE)
    assert unread(*command.split()) == (0, "")


@pytest.mark.long
def test_exit_status_is_kept_without_a_reader(log: Path) -> None:
    assert unread("log", "verify", log) == (0, "")
    assert unread("log", "stats", log) == (0, "")
    [segment] = log.glob("*.refold")
    with closing(sqlite3.connect(segment, isolation_level=None)) as database:
        database.execute("update events set payload = x'00'")
    assert unread("log", "verify", log) == (1, "")
    assert unread("log", "verify", "--json", log) == (1, "")


def test_closed_standard_output_is_no_error(log: Path) -> None:
    command = f'exec "{sys.executable}" -m replay.cli.main log show "{log}" >&-'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.sampled
@pytest.mark.parametrize("command", ["run", "check", "replay", "log"])
def test_no_sub_command_offers_shell_completion(command: str) -> None:
    done = subprocess.run([*REFOLD, command, "--help"], capture_output=True, text=True, check=True)
    assert "completion" not in done.stdout


COLOUR = re.compile(rb"\x1b\[(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])[;m]")


def on_a_terminal(*arguments: str, **variables: str) -> bytes:
    """The output of a command on a terminal."""
    controlling, terminal = pty.openpty()
    environment = {one: value for one, value in os.environ.items() if one != "NO_COLOR"}
    with subprocess.Popen(
        [*REFOLD, *arguments],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**environment, "TERM": "xterm-256color", **variables},
    ):
        os.close(terminal)
        printed = b"".join(_until_closed(controlling))
    os.close(controlling)
    return printed


def _until_closed(terminal: int) -> Iterator[bytes]:
    # Linux reports the end of a terminal as an error.
    with suppress(OSError):
        while content := os.read(terminal, 2**16):
            yield content


HEALTH = ("health", "tests/incidents/broker-crash", "--at", "81")


MIGRATION = ("check", "--migration", "tests/incidents/migration-left", "--at", "42")


@pytest.mark.sampled
@pytest.mark.parametrize(("command", "word"), [(HEALTH, b"orders"), (MIGRATION, b"is controller")])
def test_terminal_has_colours_unless_no_color_is_set(command: tuple[str, ...], word: bytes) -> None:
    assert COLOUR.search(on_a_terminal(*command))
    plain = on_a_terminal(*command, NO_COLOR="1")
    assert word in plain
    assert COLOUR.search(plain) is None


def test_output_that_is_no_terminal_is_plain() -> None:
    done = subprocess.run([*REFOLD, *HEALTH], capture_output=True, check=False)
    assert b"orders" in done.stdout
    assert b"\x1b" not in done.stdout + done.stderr
