"""controller.log and state-change.log are read as a broker writes them."""

from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import pytest

from replay.errors import ReplayError
from replay.stock_clusters.broker_logs.growing import GrowingBrokerLog
from replay.stock_clusters.imported_log.events import ControllerLogged


def line(number: int, text: str = "Resigning") -> str:
    seconds = f"2026-11-21 03:59:{number:02},000"
    return f"[{seconds}] INFO [Controller id=1] {text} (kafka.controller.KafkaController)\n"


def append(path: Path, text: str) -> None:
    with path.open("a") as stream:
        stream.write(text)


def seconds(log: GrowingBrokerLog) -> list[int]:
    found = [*log.read()]
    assert all(isinstance(one.event, ControllerLogged) for one in found)
    assert {one.channel for one in found} <= {"broker 1 controller.log"}
    return [one.time_ms // 1000 % 60 for one in found]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "controller.log"
    path.write_text(line(1))
    return path


@pytest.fixture
def log(path: Path) -> Iterator[GrowingBrokerLog]:
    log = GrowingBrokerLog(path, UTC)
    yield log
    log.close()


def test_each_line_is_read_once(path: Path, log: GrowingBrokerLog) -> None:
    assert seconds(log) == [1]
    append(path, line(2) + line(3))
    assert (seconds(log), log.is_at_end) == ([2, 3], True)
    assert seconds(log) == []


def test_line_that_is_being_written_is_read_when_it_is_complete(
    path: Path, log: GrowingBrokerLog
) -> None:
    assert seconds(log) == [1]
    append(path, line(2)[:40])
    assert seconds(log) == []
    append(path, line(2)[40:])
    assert (seconds(log), log.counts.malformed.count) == ([2], 0)


def test_rotated_file_is_read_to_its_end_before_the_new_one(
    path: Path, log: GrowingBrokerLog
) -> None:
    assert seconds(log) == [1]
    append(path, line(2))
    path.rename(path.with_name("controller.log.2026-11-21-03"))
    path.write_text(line(3))
    assert seconds(log) + seconds(log) == [2, 3]


def test_emptied_file_is_read_from_its_beginning(path: Path, log: GrowingBrokerLog) -> None:
    append(path, line(2))
    assert seconds(log) == [1, 2]
    path.write_text(line(3))
    assert seconds(log) + seconds(log) == [3]


def test_exception_belongs_to_the_error_before(path: Path, log: GrowingBrokerLog) -> None:
    seconds(log)
    append(path, line(2).replace("INFO", "ERROR"))
    assert [*log.read()] == []
    append(path, "java.lang.IllegalStateException: no\n\tat kafka.X.y(X.scala:1)\n" + line(3))
    first, _ = log.read()
    assert isinstance(first.event, ControllerLogged)
    assert first.event.text.endswith("Resigning: java.lang.IllegalStateException: no")


@pytest.mark.parametrize("name", ["server.log", "kafka-request.log"])
def test_file_of_another_kind_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(ReplayError, match="its name must be controller"):
        GrowingBrokerLog(tmp_path / name, UTC)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="cannot be read: No such file"):
        GrowingBrokerLog(tmp_path / "controller.log", UTC)


def test_unreadable_lines_soon_after_each_other_are_one_part(
    path: Path, log: GrowingBrokerLog
) -> None:
    """Each is between the two readable lines around it. 1 to 5 and 8 to 12 are close to each other,
    20 to 30 is not."""
    for readable in (3, 5, 8, 10, 12, 20, 30):
        append(path, line(readable) if readable in (8, 20) else f"broken\n{line(readable)}")
    assert seconds(log) == [1, 3, 5, 8, 10, 12, 20, 30]
    parts = [(one.from_ms, one.to_ms) for one in log.damaged_lines]
    assert [(begin // 1000 % 60, (end or 0) // 1000 % 60) for begin, end in parts] == [
        (1, 12),
        (20, 30),
    ]
