"""Events after the end of a broker's log are not judged by the log, and the log is named."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from replay.agreement.comparison import agree, temporary_import
from replay.agreement.logs.log_ends import LogEnds, TruncatedLog
from replay.agreement.results import AgreementResult
from replay.cli.agreement_report import INCOMPLETE, status_of
from replay.stock_clusters.imported_log.events import (
    ControllerLogged,
    RequestServed,
    StateChangeLogged,
    TornLog,
)
from replay.stock_clusters.imports.importing import Selection

Get = Callable[[str], Path]

KINDS = ("controller.log", "state-change.log", "control-requests.log")
NAMES = {"control-requests.log": "request log"}
"""Names of logs in reports, if they are not file names."""
NOT_ALWAYS_SHOWN = ("topics-1", "shadow-6")
"""Recordings in which nothing shows that some logs went on."""


def cut(folder: Path, copy: Path, kinds: tuple[str, ...], share: float, *, is_torn: bool) -> Path:
    """A copy of a recording in which logs of some kinds end after a share of their bytes, within a
    line or after one."""
    shutil.copytree(folder, copy)
    for log in copy.glob("logs/*/*.log"):
        if log.name in kinds:
            content = log.read_bytes()
            end = int(len(content) * share)
            log.write_bytes(content[: end if is_torn else content.rfind(b"\n", 0, end) + 1])
    return copy


def result_of(source: Path) -> AgreementResult:
    with temporary_import(source, Selection(), lambda *_: None) as log:
        return agree(log, orders=5)


@pytest.mark.long
@pytest.mark.parametrize("is_torn", [True, False])
@pytest.mark.parametrize("kinds", [*((one,) for one in KINDS), KINDS])
@pytest.mark.parametrize("recording", ["broker-crash-2", "unclean-3", "topics-1", "shadow-6"])
def test_sound_controller_is_not_accused_after_the_end_of_logs(
    recording: str, kinds: tuple[str, ...], is_torn: bool, folder_of: Get, tmp_path: Path
) -> None:
    result = result_of(cut(folder_of(recording), tmp_path / "copy", kinds, 0.5, is_torn=is_torn))
    assert [one for one in result.divergences if not one.explained] == []
    named = {NAMES.get(one, one) for one in kinds}
    assert {one.log for one in result.cut_logs} <= named
    present = {one.name for one in (tmp_path / "copy").glob("logs/*/*.log")}
    if present.intersection(kinds) and (is_torn or recording not in NOT_ALWAYS_SHOWN):
        assert result.cut_logs
        assert status_of(result) == INCOMPLETE


def test_decisions_after_the_end_of_logs_are_not_judged(folder_of: Get, tmp_path: Path) -> None:
    """No log that is left shows that the replicas of the topics were deleted."""
    copy = cut(folder_of("topics-1"), tmp_path / "copy", KINDS, 0.5, is_torn=True)
    result = result_of(copy)
    assert result.unjudged > 50
    [note] = [one for one in result.notes if one.startswith("not judged: ")]
    assert note.startswith(f"not judged: {result.unjudged} decisions")
    assert " of broker 4 in epoch 1, from record " in note
    assert note.endswith(" is missing")


def test_change_before_the_end_of_logs_is_reported(folder_of: Get, tmp_path: Path) -> None:
    """The logs show that much."""
    copy = cut(folder_of("broker-crash-2"), tmp_path / "copy", KINDS, 0.9, is_torn=False)
    [log] = copy.glob("logs/broker-2/state-change.log")
    lines = log.read_text().splitlines(keepends=True)
    sent = [at for at, one in enumerate(lines) if " Sending LeaderAndIsr request to " in one]
    log.write_text("".join(lines[: sent[0]] + lines[sent[0] + 1 :]))
    assert result_of(copy).requests.unexplained


# Which log has no end -------------------------------------------------------------------------


def line() -> ControllerLogged:
    return ControllerLogged(1, "", "")


def sent(what: str = "leader_and_isr") -> StateChangeLogged:
    return StateChangeLogged(1, 4, what, [3], "")


def served(api: str = "UPDATE_METADATA") -> RequestServed:
    return RequestServed(3, api, 8, "1", 0, "", 0, b"{}", b"{}")


def names(ends: LogEnds) -> list[str]:
    return [one.name for one in ends.cut]


def test_decision_shows_missing_lines_once_the_controller_decides_again() -> None:
    ends = LogEnds()
    ends.note_state_change(1, 10_000, sent(), has_debug=False)
    ends.note_decision(7, 1, "partition_state", 10_301, has_debug=False)
    assert names(ends) == []
    ends.note_decision(7, 1, "feature", 11_301, has_debug=False)
    assert names(ends) == ["state-change.log of broker 1"]


@pytest.mark.parametrize(
    ("what", "has_debug", "is_cut"),
    [
        ("partition_state", True, True),
        ("partition_state", False, False),
        ("election", False, True),
        ("partition_znode", False, True),
        ("assignment", False, True),
        ("topic_deletion", False, True),
        ("producer_ids", True, False),
    ],
)
def test_decision_shows_missing_lines_of_controller_log(
    what: str, has_debug: bool, is_cut: bool
) -> None:
    """At level INFO, only some decisions have a line."""
    ends = LogEnds()
    ends.note_controllers_line(1, 10_000, line())
    ends.note_decision(7, 1, what, 20_000, has_debug=has_debug)
    ends.note_decision(7, 1, "feature", 30_000, has_debug=has_debug)
    assert names(ends) == (["controller.log of broker 1"] if is_cut else [])


def test_response_shows_that_its_request_is_missing() -> None:
    ends = LogEnds()
    ends.note_served(1, 10_000, served())
    ends.note_state_change(2, 10_300, sent("response"), has_debug=False)
    assert names(ends) == []
    ends.note_state_change(3, 10_301, sent("response"), has_debug=False)
    [found] = ends.cut
    assert found == TruncatedLog(
        "request log", 3, "1970-01-01T00:00:10.000000Z", "1970-01-01T00:00:10.301000Z", 1
    )
    assert found.note == (
        "the end of the request log of broker 3 is missing: its last line is of"
        " 1970-01-01T00:00:10.000000Z, but other files show that it went on up to"
        " 1970-01-01T00:00:10.301000Z"
    )


def test_log_without_requests_of_controllers_need_not_have_them() -> None:
    ends = LogEnds()
    ends.note_served(1, 10_000, served("METADATA"))
    ends.note_state_change(2, 50_000, sent("response"), has_debug=False)
    assert names(ends) == []


def test_torn_line_shows_that_the_end_is_missing() -> None:
    """Lines about the last 2 s may be missing, too."""
    ends = LogEnds()
    for seq, time_ms in enumerate((9_000, 10_000, 12_000), start=1):
        ends.note_served(seq, time_ms, served())
    ends.note_torn([TornLog(3, "kafka-request.log"), TornLog(5, "controller.log")])
    [found] = ends.cut
    assert structs.replace(found, ends="") == TruncatedLog("request log", 3, "", "", 2)
    assert found.note.endswith(", and the next one is not complete")
