"""A change in a recording is reported. `tools/agreement` tries many more seeds."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from replay.agreement.comparison import agree, temporary_import
from replay.agreement.results import AgreementResult
from replay.stock_clusters.imports.importing import Selection
from tools.agreement.corruptions import trials
from tools.zookeeper_log.corruption import Corruption, corrupt

Get = Callable[[str], Path]

_SECOND_ELECTION = 202
"""A seed that drops the election of the second term in broker-crash-2."""
_SAME_AGAIN = 44
"""A seed that drops a write whose content was in the znode before, in reassignments-6019352."""


def corrupted(folder: Path, copy: Path, how: str, seed: int) -> tuple[Corruption, AgreementResult]:
    corruption = corrupt(folder, copy, seed, [how])
    with temporary_import(copy, Selection(), lambda *_: None) as log:
        return corruption, agree(log)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_random_corruption_is_reported(recording: str, seed: int, folder_of: Get) -> None:
    [trial] = trials(folder_of(recording), [seed])
    assert trial.is_reported, trial.corruption
    assert trial.result.unexplained or trial.result.requests.unexplained


@pytest.mark.long
@pytest.mark.parametrize("how", ["leader", "isr", "leader_epoch", "controller_epoch"])
def test_changed_field_is_reported_with_both_sides(
    how: str, recording: str, folder_of: Get, tmp_path: Path
) -> None:
    """At its transaction and znode, with the fold's value and Kafka's value."""
    corruption, result = corrupted(folder_of(recording), tmp_path / "copy", how, 1)
    [at, *_] = [one for one in result.divergences if one.zxid == corruption.zxid]
    assert (at.verdict, at.kind) == ("differs", corruption.what)
    assert corruption.path.endswith(at.paths[0])
    before, after = json.loads(corruption.before or ""), json.loads(corruption.after or "")
    [text] = at.differences
    refold, _, stock = text.removeprefix(f"{at.paths[0]}: {how} ").partition(", Kafka ")
    assert json.loads(refold) == before[how]
    assert json.loads(stock) == after[how]
    assert at.cause
    assert at.since <= at.seq
    assert f"zxid {corruption.zxid:#x}" in at.between[-1]


@pytest.mark.long
def test_dropped_write_is_extra_and_doubled_one_is_missing(
    recording: str, folder_of: Get, tmp_path: Path
) -> None:
    """The fold decides what is not in the log, and decides only once what is in the log twice."""
    _, dropped = corrupted(folder_of(recording), tmp_path / "dropped", "dropped", 1)
    assert dropped.extra + dropped.differs + dropped.requests.diverging
    _, doubled = corrupted(folder_of(recording), tmp_path / "doubled", "doubled", 1)
    assert doubled.missing + doubled.differs


def test_dropped_election_leaves_missing_decisions_and_requests(
    folder_of: Get, tmp_path: Path
) -> None:
    """The missing decisions are not attributed to a term that began before the log; neither are its
    requests."""
    source, copy = folder_of("broker-crash-2"), tmp_path / "copy"
    corruption, result = corrupted(source, copy, "dropped", _SECOND_ELECTION)
    assert not result.agrees
    assert result.warm == 0
    missing = [one for one in result.divergences if one.verdict == "missing"]
    assert {one.subject for one in missing} == {"decision", "request"}
    # The election of the second term was dropped.
    assert {one.epoch for one in missing if one.subject == "request"} == {2, 3}
    assert corruption.what == "election"


@pytest.mark.long
def test_dropped_write_that_kafka_does_not_repeat_is_extra(folder_of: Get) -> None:
    """Kafka writes the same znode later, with another content."""
    [trial] = trials(folder_of("reassignments-6019352"), [_SAME_AGAIN])
    assert trial.corruption.path == "/admin/reassign_partitions"
    [extra] = trial.result.divergences
    assert (extra.verdict, extra.kind) == ("extra", "reassign_partitions")
    assert extra.differences[0].startswith("SetData of /admin/reassign_partitions: ")
    assert extra.zxid == trial.corruption.zxid


@pytest.mark.sampled
def test_epoch_of_an_election_is_compared(recording: str, folder_of: Get, tmp_path: Path) -> None:
    corruption, result = corrupted(folder_of(recording), tmp_path / "copy", "epoch", 1)
    [at] = [one for one in result.divergences if one.zxid == corruption.zxid]
    assert (at.verdict, at.kind) == ("differs", "election")
    assert at.differences[0].startswith("/controller_epoch: ")


def test_dropped_line_of_state_change_log_is_reported(folder_of: Get, tmp_path: Path) -> None:
    """The content of the request's partition is then unknown, but not the number of partitions."""
    folder = tmp_path / "copy"
    shutil.copytree(folder_of("reassign-cancel-6"), folder)
    log = max(folder.glob("logs/*/state-change.log"), key=lambda path: path.stat().st_size)
    lines = log.read_text().splitlines(keepends=True)
    traced = [at for at, one in enumerate(lines) if "LeaderAndIsr request LeaderAndIsrP" in one]
    del lines[traced[len(traced) // 2]]
    log.write_text("".join(lines))
    found = agree_with(folder).requests
    assert (found.differs, found.missing, found.extra) == (1, 0, 0)


def test_unreadable_end_of_a_log_is_reported(folder_of: Get, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(folder_of("broker-crash-2"), folder)
    [log] = folder.glob("zookeeper/version-2/log.*")
    log.write_bytes(log.read_bytes()[:30_000])
    notes = agree_with(folder).notes
    assert any("ends at offset" in one for one in notes)


def test_log_without_decisions_reports_that_nothing_was_judged(
    folder_of: Get, tmp_path: Path
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(folder_of("broker-crash-2"), folder)
    [log] = folder.glob("zookeeper/version-2/log.*")
    log.write_bytes(log.read_bytes()[:2500])
    result = agree_with(folder)
    assert (result.decisions, result.requests.decisions) == (0, 0)
    assert any(one.startswith("nothing was judged") for one in result.notes)


def test_broker_of_an_election_is_compared(folder_of: Get, tmp_path: Path) -> None:
    """The registration has the broker of the session."""
    corruption, result = corrupted(folder_of("rolling-restart-4"), tmp_path / "copy", "brokerid", 1)
    [at] = [one for one in result.divergences if one.zxid == corruption.zxid]
    assert (at.verdict, at.kind) == ("differs", "election")
    before, after = (
        json.loads(one or "")["brokerid"] for one in (corruption.before, corruption.after)
    )
    assert at.differences == (f"/controller: brokerid {before}, Kafka {after}",)
    assert at.broker == before


@pytest.mark.sampled
def test_decisions_after_a_corruption_agree(recording: str, folder_of: Get, tmp_path: Path) -> None:
    """The fold adopts what Kafka wrote."""
    whole = agree_with(folder_of(recording))
    _, result = corrupted(folder_of(recording), tmp_path / "copy", "controller_epoch", 2)
    assert 0 < result.diverging <= 3
    assert result.agreed >= whole.agreed - 3


def agree_with(source: Path) -> AgreementResult:
    with temporary_import(source, Selection(), lambda *_: None) as log:
        return agree(log)
