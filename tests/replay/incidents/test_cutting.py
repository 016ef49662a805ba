"""A range of a log becomes a shorter log with the same decisions."""

from pathlib import Path

import pytest

from controller.core.events import SessionConnected
from eventstore.reader import LogReader
from replay.errors import ReplayError
from replay.incidents.cutting import CutLog, cut_log
from replay.logs.decode import UPCASTERS, records
from replay.verify.verification import verify_decisions
from tests.replay.recorded_log import incident, write_log


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write_log(tmp_path / "log", incident())


def sessions(log: Path) -> list[int]:
    with LogReader.open(log, UPCASTERS) as reader:
        return [
            event.seq for event, _ in records(reader) if isinstance(event.event, SessionConnected)
        ]


def made(log: Path, first: int, last: int) -> CutLog:
    with LogReader.open(log, UPCASTERS) as reader:
        return cut_log(reader, log.with_name("cut"), first, last)


def agrees(log: Path) -> int:
    with LogReader.open(log, UPCASTERS) as reader:
        result = verify_decisions(reader)
    assert result.mismatched == 0
    assert result.agreed > 0
    return result.events


def test_cut_ends_with_the_last_event(log: Path) -> None:
    assert made(log, 1, 20) == CutLog(1, 20, 20)
    assert agrees(log.with_name("cut")) == 20


def test_cut_begins_with_the_session_of_the_first_event(log: Path) -> None:
    _, second = sessions(log)
    found = made(log, second + 5, second + 30)
    assert found.first == second
    assert found.events <= 31
    assert agrees(log.with_name("cut")) == found.events
    assert sessions(log.with_name("cut")) == [1]


def test_cut_begins_earlier_if_decisions_would_differ(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, second = sessions(log)
    fresh = "replay.incidents.cutting.are_same_decisions"
    calls: list[int] = []

    def are_same_decisions(issued: object, stored: object) -> bool:
        calls.append(1)
        return len(calls) > 3

    monkeypatch.setattr(fresh, are_same_decisions)
    with pytest.raises(ReplayError, match="does not replay"):
        made(log, second + 5, second + 30)
    calls.clear()
    monkeypatch.setattr(fresh, lambda issued, stored: bool(calls.append(1)) or len(calls) > 1)
    assert made(log, second + 5, second + 30).first == 1
