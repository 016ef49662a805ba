"""A range of a log becomes a shorter log with the same decisions."""

from pathlib import Path

import pytest

from controller.core.commands import Stop
from controller.core.events import SessionConnected
from controller.core.znodes import CONTROLLER_EPOCH
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


def test_cut_begins_earlier_if_decisions_depend_on_an_earlier_session(tmp_path: Path) -> None:
    """The controller epoch never decreases, although an operator has set it back."""
    simulation = incident()
    simulation.put(CONTROLLER_EPOCH, b"0")
    simulation.expire()
    log = write_log(tmp_path / "log", simulation)
    *_, second, third = sessions(log)
    assert made(log, third + 5, third + 30).first == second
    assert agrees(log.with_name("cut")) > third - second


def test_log_that_does_not_replay_is_not_cut(tmp_path: Path) -> None:
    simulation = incident()
    place = max(place for place, (_, issued) in enumerate(simulation.history) if issued)
    recorded, issued = simulation.history[place]
    planted = [one._replace(command=Stop("planted")) for one in issued]
    simulation.history[place] = (recorded, planted)
    log = write_log(tmp_path / "log", simulation)
    with pytest.raises(ReplayError, match="does not replay"):
        made(log, recorded.seq, recorded.seq)
