"""Brokers' logs that begin after ZooKeeper's log, or end before it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from replay.agreement.broker_requests.comparing import WHOLE_TERM, LogSpan
from replay.agreement.comparison import agree, temporary_import
from replay.agreement.logs.coverage import LogCoverage
from replay.agreement.results import AgreementResult
from replay.stock_clusters.imported_log.events import (
    ControllerLogged,
    RequestServed,
    StateChangeLogged,
)
from replay.stock_clusters.imports.importing import Selection

Get = Callable[[str], Path]

TERM = (1, 4)
SESSION = 77
ELECTED = "[Controller id=1] 1 successfully elected as the controller. Epoch incremented to 4 and"
SERVED = RequestServed(3, "UPDATE_METADATA", 8, "1", 7, "", 0, b"{}", b"{}")


def state_change(what: str) -> StateChangeLogged:
    return StateChangeLogged(1, 4, what, [], "")


def coverage() -> LogCoverage:
    """The coverage of a term from 10,000 to 50,000 ms whose broker has no log yet."""
    found = LogCoverage()
    found.note_decision(SESSION, TERM, "election", 10_000)
    for time_ms in (11_000, 50_000):
        found.note_decision(SESSION, TERM, "partition_state", time_ms)
    found.note_decision(SESSION, TERM, "producer_ids", 90_000)
    found.note_decision(SESSION, (1, 3), "partition_state", 5_000)
    return found


@pytest.mark.parametrize(
    ("begin", "last_ms", "is_debug", "reaches"),
    [
        pytest.param(ELECTED, 50_010, True, True, id="whole"),
        pytest.param(ELECTED, 48_100, True, True, id="last lines just before"),
        pytest.param("[Controller id=1] later", 50_010, True, False, id="begins later"),
        pytest.param(ELECTED, 40_000, True, False, id="ends before"),
        pytest.param(ELECTED, 40_000, False, True, id="few lines at level INFO"),
    ],
)
def test_controller_log_covers_a_session_or_is_reported(
    begin: str, last_ms: int, is_debug: bool, reaches: bool
) -> None:
    found = coverage()
    found.note_line(1, 10_010, ControllerLogged(1, "", begin), is_debug=is_debug)
    last = ControllerLogged(1, "", "[Controller id=1] last")
    found.note_line(2, last_ms, last, is_debug=False)
    assert found.has_lines(SESSION) is reaches
    assert found.has_lines_of(TERM) is reaches
    assert len(list(found.notes)) == (not reaches)


def test_broker_without_a_log_and_earlier_term_count_as_covered() -> None:
    found = coverage()
    assert found.has_lines(SESSION)
    assert found.state_changes(TERM) == found.state_changes((1, 3)) == WHOLE_TERM


@pytest.mark.parametrize(
    ("times_ms", "span"),
    [
        pytest.param((10_500, 49_000, 50_100), LogSpan(0, 2), id="whole"),
        pytest.param((20_000, 20_900, 21_000, 50_100), LogSpan(0, 3, True, 2), id="begins later"),
        pytest.param((10_500, 38_000, 39_500, 40_000), LogSpan(0, 1), id="ends before"),
    ],
)
def test_state_change_log_covers_the_span_of_its_lines(
    times_ms: tuple[int, ...], span: LogSpan
) -> None:
    found = coverage()
    for seq, time_ms in enumerate(times_ms):
        found.note_state_change(seq, time_ms, state_change("leader_and_isr"))
    assert found.state_changes(TERM) == span
    assert found.covers(TERM, len(times_ms) - 1)
    assert not found.covers(TERM, len(times_ms))
    assert not found.covers((2, 5), 0)


@pytest.mark.parametrize(
    ("time_ms", "what", "is_reported"),
    [(14_000, "sending_stop_replica", True), (14_000, "response", False), (11_500, "other", False)],
)
def test_requests_after_the_last_transaction_are_reported(
    time_ms: int, what: str, is_reported: bool
) -> None:
    """A response may arrive late; requests are sent at once."""
    found = LogCoverage()
    found.note_state_change(1, 20_000, state_change("other"))
    found.note_transaction(10_000)
    found.note_state_change(2, time_ms, state_change(what))
    assert [one for one in found.notes if "00:00:14.000000Z" in one] == [*found.notes]
    assert bool([*found.notes]) is is_reported


@pytest.mark.parametrize(
    ("registered_ms", "times_ms", "span"),
    [
        pytest.param(0, (10_000, 22_000), LogSpan(0), id="there at the election"),
        pytest.param(
            0,
            (10_500, 11_400, 11_600),
            LogSpan(0, begins=True, settled=2),
            id="begins just after the election",
        ),
        pytest.param(30_000, (30_100, 40_000), LogSpan(0), id="registers later"),
        pytest.param(
            0, (20_100, 21_000, 21_100), LogSpan(0, begins=True, settled=2), id="begins later"
        ),
    ],
)
def test_request_log_covers_the_span_of_its_lines(
    registered_ms: int, times_ms: tuple[int, ...], span: LogSpan
) -> None:
    found = coverage()
    found.note_registration(3, registered_ms)
    for seq, time_ms in enumerate(times_ms):
        found.note_served(seq, time_ms, SERVED)
    assert found.served(TERM, 3) == span
    assert found.served(TERM, 2) == found.served((1, 3), 3) == WHOLE_TERM


@pytest.mark.parametrize(("correlation", "begins"), [(0, False), (3, True)])
def test_request_log_that_begins_with_a_connection_lacks_nothing(
    correlation: int, begins: bool
) -> None:
    """The broker may serve its first request a long time after it was sent."""
    found = coverage()
    found.note_registration(3, 0)
    for seq, (controller, number) in enumerate([(2, 7), (1, correlation), (1, correlation + 1)]):
        found.note_served(seq, 20_100, SERVED)
        found.note_controllers(3, controller, number)
    assert found.served(TERM, 3).begins == begins


def of_lines(lines: list[bytes], part: str) -> list[bytes]:
    """The lines of a log without a part of them."""
    some = len(lines) * 3 // 10
    match part:
        case "first":
            return lines[some:]
        case "last":
            return lines[:-some]
    return [*lines[:-1], lines[-1][:-37]]


def compared(folder: Path, copy: Path, log: str, part: str) -> AgreementResult:
    """The result for a recording in which the brokers' logs of one name lack a part."""
    for file in (one for one in folder.rglob("*") if one.is_file()):
        target = copy / file.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        content = file.read_bytes()
        if file.name == log:
            content = b"".join(of_lines(content.splitlines(keepends=True), part))
        target.write_bytes(content)
    with temporary_import(copy, Selection(), lambda *_: None) as imported_log:
        return agree(imported_log)


@pytest.mark.long
@pytest.mark.parametrize(
    ("recording", "log", "part"),
    [
        ("reassign-cancel-6", "controller.log", "first"),
        ("reassign-5", "controller.log", "last"),
        ("reassign-cancel-6", "state-change.log", "first"),
        ("reassign-cancel-6", "state-change.log", "last"),
        ("chaos-4", "control-requests.log", "first"),
        ("chaos-5", "control-requests.log", "first"),
        ("reassign-5", "control-requests.log", "first"),
        ("topics-1", "control-requests.log", "first"),
        ("topics-1", "controller.log", "first"),
        ("topics-1", "state-change.log", "last"),
        ("unclean-3", "controller.log", "torn"),
    ],
)
def test_recording_with_incomplete_logs_agrees(
    recording: str, log: str, part: str, folder_of: Get, tmp_path: Path
) -> None:
    result = compared(folder_of(recording), tmp_path / "copy", log, part)
    assert result.divergences == []
    assert result.agreed > 0
    assert result.requests.agreed > 0
