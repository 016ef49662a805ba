"""The lost replies of a long log are searched for once."""

from collections.abc import Iterable
from pathlib import Path
from stat import S_IMODE

import pytest

from eventstore.reader import LogReader
from replay.agreement import stored_replies
from replay.agreement.stored_replies import stored_or_found
from replay.logs.decode import UPCASTERS
from tests.replay.recorded_log import incident, write_log


class Search:
    """Finds the same writes each time, and counts how often it is asked."""

    def __init__(self, *zxids: int) -> None:
        self.zxids = zxids
        self.times = 0

    def __call__(self) -> Iterable[int]:
        self.times += 1
        return self.zxids

    def asked(self, log: Path) -> frozenset[int]:
        """The parts of a question about the log."""
        with LogReader.open(log, UPCASTERS) as reader:
            return stored_or_found(reader, self)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log that counts as long."""
    monkeypatch.setattr(stored_replies, "WORTH_STORING", 10)
    return write_log(tmp_path / "log", incident())


def stored(log: Path) -> list[Path]:
    return [*log.glob("*.replies")]


def test_second_question_about_a_long_log_does_not_search(log: Path) -> None:
    search = Search(7, 5)
    assert search.asked(log) == search.asked(log) == {5, 7}
    assert search.times == 1
    (file,) = stored(log)
    (segment,) = log.glob("*.refold")
    assert S_IMODE(file.stat().st_mode) == S_IMODE(segment.stat().st_mode)


def test_log_that_was_replaced_is_searched_again(log: Path, tmp_path: Path) -> None:
    Search(5).asked(log)
    simulation = incident()
    simulation.start_broker(3)
    (segment,) = write_log(tmp_path / "other", simulation).glob("*.refold")
    (replaced,) = log.glob("*.refold")
    segment.replace(replaced)
    assert Search(6).asked(log) == {6}
    assert Search().asked(log) == {6}


@pytest.mark.parametrize("content", [b"", b"{}", b'{"stamp": 3}', b"\xff"])
def test_damaged_file_is_made_again(log: Path, content: bytes) -> None:
    Search(5).asked(log)
    (file,) = stored(log)
    file.write_bytes(content)
    assert Search(6).asked(log) == Search().asked(log) == {6}


def test_nothing_is_stored_for_a_short_log(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_replies, "WORTH_STORING", 10_000)
    search = Search(5)
    assert search.asked(log) == search.asked(log) == {5}
    assert search.times == 2
    assert stored(log) == []
