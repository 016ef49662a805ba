"""Commands that read a damaged log report the damage in one line: no traceback, no answer from a
changed record."""

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from eventstore import chain, folders
from eventstore.segment import open_segment
from replay.cli.main import app
from replay.logs.packed import LOG_OF_INCIDENT, log_at

INCIDENT = Path("tests/incidents/failover")
COMMANDS = ("events", "decisions", "why", "inspect", "replay", "log verify")
SEED = 2
FLIPS = 40
PAGE = 4096
"""Of SQLite, in bytes."""


def run(command: str, log: Path) -> Result:
    return CliRunner().invoke(app, [*command.split(), str(log)])


def ends_without_traceback(result: Result) -> bool:
    return result.exception is None or isinstance(result.exception, SystemExit)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with log_at(INCIDENT) as unpacked:
        return shutil.copytree(unpacked, tmp_path / "log")


@pytest.fixture
def segment(log: Path) -> Path:
    [found] = folders.segments_of(log)
    return found


def flip(content: bytes, place: int) -> bytes:
    """Flip the highest bit of a byte: text is then no longer UTF-8."""
    return content[:place] + bytes([content[place] ^ 0x80]) + content[place + 1 :]


def rechain(segment: Path) -> None:
    """Give the records of a changed segment the chain values that fit them."""
    with open_segment(segment) as opened:
        tip = chain.start(opened.header, opened.header_body)
        events = [row for page in opened.event_rows() for row in page]
    with closing(sqlite3.connect(segment, isolation_level=None)) as database:
        previous = tip.event_chain
        for row in events:
            previous = chain.link(previous, row[:-1])
            database.execute("update events set chain = ? where seq = ?", (previous, row[0]))
        database.execute("delete from closing")


@pytest.mark.sampled
@pytest.mark.parametrize("command", COMMANDS)
def test_flipped_bits_of_a_segment_never_end_in_a_traceback(command: str, segment: Path) -> None:
    content = segment.read_bytes()
    choice = random.Random(f"{SEED} {command}")
    for _ in range(FLIPS):
        place = choice.randrange(len(content))
        segment.write_bytes(flip(content, place))
        result = run(command, segment.parent)
        assert ends_without_traceback(result), (place, result.exc_info)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("command", COMMANDS)
def test_log_that_was_cut_at_the_end_of_a_page_is_damaged(command: str, segment: Path) -> None:
    """SQLite reads a last page without its last bytes as if they were zero."""
    content = segment.read_bytes()
    for end in range(PAGE, len(content), PAGE):
        segment.write_bytes(content[: end - 5])
        result = run(command, segment.parent)
        assert ends_without_traceback(result), (end, result.exc_info)
        assert result.exit_code in (1, 2), end


@pytest.mark.parametrize("command", COMMANDS)
def test_flipped_bits_of_a_packed_log_never_end_in_a_traceback(
    command: str, tmp_path: Path
) -> None:
    content = (INCIDENT / LOG_OF_INCIDENT).read_bytes()
    choice = random.Random(f"{SEED} {command}")
    packed = tmp_path / LOG_OF_INCIDENT
    for _ in range(FLIPS // 8):
        place = choice.randrange(len(content))
        packed.write_bytes(flip(content, place))
        result = run(command, packed)
        assert ends_without_traceback(result), (place, result.exc_info)


@pytest.mark.parametrize("command", COMMANDS[:-1])
@pytest.mark.parametrize("payload", [b"\x91\xa2\xff\xfe", b"\x91" * 5000, b"", b"\xc1", b"\x05"])
def test_payload_that_cannot_be_decoded_is_reported_with_its_event(
    command: str, payload: bytes, segment: Path
) -> None:
    with closing(sqlite3.connect(segment, isolation_level=None)) as database:
        database.execute("update events set payload = ? where seq = 20", (payload,))
    rechain(segment)
    result = run(command, segment.parent)
    assert ends_without_traceback(result), result.exc_info
    assert result.exit_code == 2
    assert "event 20 (" in result.stderr


CHANGES: dict[str, Callable[[sqlite3.Connection], object]] = {
    "changed clock": lambda log: log.execute("update events set wall_ns = 1 where seq = 30"),
    "changed term": lambda log: log.execute("update events set term = 77 where seq = 30"),
    "changed to text": lambda log: log.execute(
        "update events set payload = cast(payload as text) where seq = 30"
    ),
    "removed": lambda log: log.execute("delete from events where seq = 30"),
    "last one removed": lambda log: log.execute("delete from events where seq = 82"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_answers_from_a_changed_log(command: str, change: str, segment: Path) -> None:
    with closing(sqlite3.connect(segment, isolation_level=None)) as database:
        CHANGES[change](database)
    result = run(command, segment.parent)
    assert ends_without_traceback(result), result.exc_info
    assert result.exit_code in (1, 2)
    assert str(segment) in result.output
    assert "event 3" in result.output or "event 82" in result.output
