"""Events that a damaged line of a broker's log could have shown are not judged; all others are."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from replay.agreement.logs.log_ends import (
    CONTROLLER_LOG,
    REQUEST_LOG,
    STATE_CHANGE_LOG,
    DamagedPart,
)
from replay.agreement.results import AgreementResult
from replay.agreement.unjudged_divergences import BrokersWithLogs, leave_unjudged
from replay.cli.agreement_report import AGREES, DIVERGES, INCOMPLETE, status_of
from tests.replay.agreement.test_cut_logs import result_of
from tests.replay.agreement.test_unjudged_divergences import divergence

Get = Callable[[str], Path]

TIME_MS = 100_000
REQUESTED = {"subject": "request", "kind": "LeaderAndIsr", "verdict": "differs"}


def copy_of(folder: Path, copy: Path) -> Path:
    shutil.copytree(folder, copy)
    return copy


def damage(log: Path, number: int, at: int = 5) -> None:
    """Change a byte of a line, which counts from 1."""
    lines = log.read_bytes().splitlines(keepends=True)
    line = bytearray(lines[number - 1])
    line[at] ^= 0x40
    lines[number - 1] = bytes(line)
    log.write_bytes(b"".join(lines))


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("file", "number"),
    [
        ("broker-2/control-requests.log", 1),
        ("broker-2/control-requests.log", 11),
        ("broker-2/control-requests.log", 34),
        ("broker-3/controller.log", 1),
        ("broker-3/controller.log", 72),
        ("broker-3/controller.log", 119),
        ("broker-3/state-change.log", 20),
    ],
)
def test_damaged_line_does_not_accuse_the_controller(
    file: str, number: int, folder_of: Get, tmp_path: Path
) -> None:
    copy = copy_of(folder_of("unclean-3"), tmp_path / "copy")
    damage(copy / "logs" / file, number)
    result = result_of(copy)
    assert [one for one in result.divergences if not one.explained] == []
    assert status_of(result) == INCOMPLETE
    assert result.decisions + result.requests.decisions > 50


def test_byte_that_is_not_utf_8_damages_its_line(folder_of: Get, tmp_path: Path) -> None:
    copy = copy_of(folder_of("unclean-3"), tmp_path / "copy")
    log = copy / "logs/broker-3/controller.log"
    content = log.read_bytes()
    log.write_bytes(content.replace(b"New topics: [Set(tool.03)", b"New top\xffcs: [Set(tool.03)"))
    result = result_of(copy)
    assert status_of(result) == INCOMPLETE
    assert result.unjudged


@pytest.mark.parametrize("at", [0, 1, 10, 60])
def test_damage_in_a_stack_trace_does_not_matter(at: int, folder_of: Get, tmp_path: Path) -> None:
    copy = copy_of(folder_of("unclean-3"), tmp_path / "copy")
    log = copy / "logs/broker-3/state-change.log"
    lines = log.read_bytes().splitlines()
    frames = [number for number, one in enumerate(lines, start=1) if one.startswith(b"\tat ")]
    damage(log, frames[3], at)
    result = result_of(copy)
    assert status_of(result) == AGREES
    assert result.damaged == {}


def test_wrong_request_is_reported_although_another_line_is_damaged(
    folder_of: Get, tmp_path: Path
) -> None:
    copy = copy_of(folder_of("unclean-3"), tmp_path / "copy")
    log = copy / "logs/broker-3/state-change.log"
    lines = log.read_bytes().splitlines(keepends=True)
    sent = [at for at, one in enumerate(lines) if b" Sending LeaderAndIsr request to " in one]
    log.write_bytes(b"".join(lines[: sent[-1]] + lines[sent[-1] + 1 :]))
    assert status_of(result_of(copy)) == DIVERGES
    damage(copy / "logs/broker-3/controller.log", 2)
    damage(log, 2)
    damage(copy / "logs/broker-1/control-requests.log", 2)
    result = result_of(copy)
    assert len(result.damaged) == 3
    assert status_of(result) == DIVERGES


# Which divergences a damaged line may explain -------------------------------------------------


def left(log: str, of: int, **changes: object) -> list[int]:
    """The records of the divergences that are judged, of three that are 0, 2 and 2.001 s before the
    damaged lines."""
    result = AgreementResult(source="log")
    result.damaged_parts = [DamagedPart(log, of, TIME_MS, TIME_MS + 500)]
    for seq in (1, 2, 3):
        one = divergence(seq, **changes)
        side = result if one.subject == "decision" else result.requests
        side.count(one.kind, one.cause, one.verdict)
        result.divergences.append(one)
    times_ms = {1: TIME_MS - 2_001, 2: TIME_MS - 2_000, 3: TIME_MS + 10_000}
    leave_unjudged(result, BrokersWithLogs({1, 2}, {1}), times_ms)
    return [one.seq for one in result.divergences]


def test_controller_may_know_what_its_damaged_log_said() -> None:
    """After a divergence near the lines, it is unknown what the controller knows."""
    assert left(CONTROLLER_LOG, 1) == [1]
    assert left(REQUEST_LOG, 1) == [1]
    assert left(CONTROLLER_LOG, 2) == [1, 2, 3]


def test_damaged_line_of_a_receiver_may_have_been_the_request() -> None:
    """Other requests are judged: the controller knows what it knew before."""
    assert left(REQUEST_LOG, 2, broker=2, **REQUESTED) == [1, 3]
    assert left(STATE_CHANGE_LOG, 1, broker=2, **REQUESTED) == [1, 3]
    assert left(REQUEST_LOG, 2, broker=3, **REQUESTED) == [1, 2, 3]
    assert left(REQUEST_LOG, 2) == [1, 2, 3]
