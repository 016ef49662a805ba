"""SQLite's -wal file after a kill: a change is detected, and a torn end is no damage."""

import shutil
from pathlib import Path

import pytest

from eventstore.errors import LogCorrupt
from eventstore.reader import LogReader
from eventstore.verify import verify
from eventstore.writer import LogWriter
from tests.eventstore.samples import command, events, header

FRAME_BYTES = 24 + 4096


@pytest.fixture(scope="module")
def killed_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a killed daemon. Almost all of it is in the -wal file."""
    folder = tmp_path_factory.mktemp("killed")
    with LogWriter.create(folder / "log", header()) as writer:
        for seq in range(1, 6):
            writer.append(events(seq, seq), [command(seq)])
        shutil.copytree(folder / "log", folder / "left", ignore=shutil.ignore_patterns("*.lock"))
    return folder / "left"


def wal_of(folder: Path) -> Path:
    return next(folder.glob("*.refold-wal"))


def copy_of(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to / "copy"))


def test_intact_write_ahead_log_is_read_to_its_end(killed_log: Path, tmp_path: Path) -> None:
    assert verify(copy_of(killed_log, tmp_path)).events == 5


def test_changed_byte_is_detected(killed_log: Path, tmp_path: Path) -> None:
    size = wal_of(killed_log).stat().st_size
    for number, place in enumerate(range(0, size, size // 61)):
        folder = copy_of(killed_log, tmp_path / str(number))
        content = bytearray(wal_of(folder).read_bytes())
        content[place] ^= 0x10
        wal_of(folder).write_bytes(content)
        [damage] = verify(folder).damages
        assert damage.record.endswith("-wal")
        assert "was changed" in damage.text
        with pytest.raises(LogCorrupt, match="was changed"):
            LogReader(folder)


@pytest.mark.parametrize("cut", [1, FRAME_BYTES // 2, FRAME_BYTES - 1])
def test_truncated_transaction_is_ignored(killed_log: Path, tmp_path: Path, cut: int) -> None:
    folder = copy_of(killed_log, tmp_path)
    content = wal_of(folder).read_bytes()
    wal_of(folder).write_bytes(content[:-cut])
    assert verify(folder).events == 4
