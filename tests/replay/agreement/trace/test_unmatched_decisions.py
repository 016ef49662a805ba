"""Decisions that only the fold has made when the log ends.

In the recording the controller leaves partitions offline, and then has nothing more to do. With
unclean elections, the fold elects leaders for them. The controller's session timeout is 6 s.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from replay.agreement.comparison import agree
from replay.agreement.live import EVIDENCE_MS, LiveSettings
from replay.agreement.results import AgreementResult
from replay.agreement.trace.unmatched_decisions import EXPIRY_MS
from replay.stock_clusters.imports.importing import Selection, import_source
from replay.stock_clusters.zookeeper_log.transactions import CloseSession, OpCode, Transaction
from replay.times import nanoseconds_of
from tests.replay.agreement.test_live import GrowingLog, Record, records_of

Get = Callable[[str], Path]

UNCLEAN = {"unclean.leader.election.enable": "true"}
STATE = "/brokers/topics/u/partitions/0/state"
REFUSED = "2026-11-30T14:13:00.928Z"
"""When the controller could elect a leader for u-0, and did not."""
TIMEOUT_MS = 6_000
_NS = 1_000_000


def ms_of(time: str) -> int:
    return nanoseconds_of(time) // _NS


def agreement_up_to(time: str, recording: Path, log: Path) -> AgreementResult:
    import_source(recording, log, Selection(to_ms=ms_of(time)))
    return agree(log, settings=UNCLEAN)


def found(result: AgreementResult) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(one.verdict, one.kind, one.paths) for one in result.divergences]


def test_controller_with_the_settings_of_the_brokers_agrees(log_of: Get) -> None:
    result = agree(log_of("unclean-setting-1"))
    assert (found(result), result.undecided, result.is_whole) == ([], 0, True)


def test_decision_is_extra_if_transactions_go_on_after_the_session_timeout(
    folder_of: Get, tmp_path: Path
) -> None:
    recording = folder_of("unclean-setting-1")
    result = agreement_up_to("2026-11-30T14:13:30Z", recording, tmp_path / "log")
    assert found(result) == [("extra", "partition_state", (STATE,))]
    assert result.undecided == 0


@pytest.mark.parametrize("time", ["2026-11-30T14:13:02Z", "2026-11-30T14:13:08Z"])
def test_decision_is_undecided_if_the_log_ends_earlier(
    time: str, folder_of: Get, tmp_path: Path
) -> None:
    """First the lines about the refusal are after the last transaction, then before it."""
    result = agreement_up_to(time, folder_of("unclean-setting-1"), tmp_path / "log")
    assert found(result) == []
    assert (result.undecided, result.is_explained, result.is_whole) == (1, True, False)
    [note] = [one for one in result.notes if one.startswith("undecided: partition_state at ")]
    assert STATE in note


@pytest.fixture
def until_refused(log_of: Get) -> list[Record]:
    """The records up to the end of the event that leaves u-0 offline."""
    end = ms_of(REFUSED) + 500
    records = records_of(log_of("unclean-setting-1"))
    return [one for one in records if one[0].wall_ns // _NS <= end]


def test_decision_in_a_growing_log_is_reported_after_the_session_timeout(
    until_refused: list[Record],
) -> None:
    growing = GrowingLog(LiveSettings(given=UNCLEAN))
    growing.grow(until_refused)
    growing.wait(TIMEOUT_MS)
    assert (growing.reported, growing.live.undecided, growing.live.is_waiting) == ([], 1, True)
    growing.wait(EXPIRY_MS + EVIDENCE_MS)
    assert [(one.verdict, one.paths) for _, one in growing.reported] == [("extra", (STATE,))]
    assert (growing.live.undecided, growing.live.is_waiting) == (0, False)


def test_reported_decision_stays_extra_however_long_the_controller_is_silent(
    until_refused: list[Record],
) -> None:
    growing = GrowingLog(LiveSettings(given=UNCLEAN))
    growing.grow(until_refused)
    for _ in range(5):
        growing.wait(60_000)
    assert len(growing.reported) == 1
    assert (found(growing.live.result), growing.live.unseen) == (
        [("extra", "partition_state", (STATE,))],
        0,
    )


def closed(records: list[Record], after_ms: int) -> list[Record]:
    """The records, and `after_ms` after them the end of the controller's session."""
    last = records[-1][0]
    elected = [
        event.session
        for _, event in records
        if isinstance(event, Transaction) and "/controller_epoch" in str(event.content)
    ]
    zxid = max(event.zxid for _, event in records if isinstance(event, Transaction))
    time_ms = last.wall_ns // _NS + after_ms
    content = CloseSession(())
    event = Transaction(zxid + 1, elected[-1], 0, time_ms, int(OpCode.CLOSE_SESSION), content)
    record = last._replace(seq=last.seq + 1, wall_ns=time_ms * _NS, kind="transaction")
    return [*records, (record, event)]


def test_controller_that_hangs_has_made_no_decision(until_refused: list[Record]) -> None:
    """Its session ends when the timeout is over."""
    growing = GrowingLog(LiveSettings(given=UNCLEAN))
    growing.grow(closed(until_refused, TIMEOUT_MS))
    growing.wait(60_000)
    assert growing.reported == []
    assert (growing.live.result.diverging, growing.live.undecided) == (0, 0)


def test_decision_stays_extra_after_the_end_of_the_session(until_refused: list[Record]) -> None:
    growing = GrowingLog(LiveSettings(given=UNCLEAN))
    growing.grow(closed(until_refused, 60_000))
    growing.wait(60_000)
    assert found(growing.live.result) == [("extra", "partition_state", (STATE,))]
    assert len(growing.reported) == 1
