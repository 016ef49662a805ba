"""An import of a recording without one of its files is correct after the gap."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from eventstore.reader import LogReader
from replay.inspect.at import cluster_at, make_snapshots
from replay.logs.decode import UPCASTERS
from replay.logs.open_log import open_log
from replay.stock_clusters.imported_log.events import (
    DecisionObserved,
    ImportedEvent,
    ImportResumed,
    SessionsGone,
    TransactionsMissing,
    ZnodesGone,
)
from replay.stock_clusters.imported_log.reading import open_imported
from replay.stock_clusters.imported_log.state_events import apply
from replay.stock_clusters.imports.importing import Selection, import_source
from replay.stock_clusters.imports.report import ImportResult
from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState
from replay.stock_clusters.zookeeper_log.transactions import Transaction
from tests.replay.why.asked import asked

NAME = "chaos-4"
GONE = "log.1b6"
"""The second of the three log files. The snapshot before the third file has all its
transactions except the last one, 0x35c."""


@pytest.fixture(scope="module")
def whole(folder_of: Callable[[str], Path]) -> Path:
    return folder_of(NAME)


@pytest.fixture(scope="module")
def cut_recording(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("cut") / NAME
    shutil.copytree(whole, source)
    (source / "zookeeper" / "version-2" / GONE).unlink()
    return source


@pytest.fixture(scope="module")
def imported(
    cut_recording: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, ImportResult]:
    log = tmp_path_factory.mktemp("cut") / "log"
    return log, import_source(cut_recording, log, Selection())


def events(log: Path) -> list[ImportedEvent]:
    with LogReader(log, UPCASTERS) as reader:
        return [event for _, event in open_imported(reader).events()]


def states(log: Path, zxids: set[int]) -> dict[int, dict[str, bytes]]:
    """The content of znodes before certain transactions."""
    found = {}
    with LogReader(log, UPCASTERS) as reader:
        imported = open_imported(reader)
        for _, event in imported.events():
            if isinstance(event, Transaction) and event.zxid in zxids:
                found[event.zxid] = data(imported.state)
            apply(imported.state, event)
    return {**found, 0: data(imported.state)}


def data(state: ZooKeeperState) -> dict[str, bytes]:
    return {path: znode.data for path, znode in state.tree.dump().items()}


def test_log_records_the_gap_and_the_snapshot_after_it(imported: tuple[Path, ImportResult]) -> None:
    log, result = imported
    assert result.gaps == ["transactions between zxid 0x1b5 and 0x35d are missing"]
    assert (
        "after zxid 0x1b5 the import continues from zookeeper/version-2/snapshot.35b"
        in result.notes
    )
    found = events(log)
    [resumed] = [place for place, one in enumerate(found) if isinstance(one, ImportResumed)]
    assert found[resumed] == ImportResumed("zookeeper/version-2/snapshot.35b", 0x35B)
    missing = [one for one in found if isinstance(one, TransactionsMissing)]
    assert missing == [TransactionsMissing(0x1B5, 0x35D), TransactionsMissing(0x35B, 0x35D)]
    [gone] = [one for one in found if isinstance(one, ZnodesGone)]
    assert {"/prod/k1/controller", "/prod/k1/brokers/topics/t-07"} <= {*gone.paths}
    assert any(isinstance(one, SessionsGone) for one in found)


def test_znodes_after_the_gap_equal_those_of_the_whole_recording(
    imported: tuple[Path, ImportResult], whole: Path, tmp_path: Path
) -> None:
    import_source(whole, tmp_path / "log", Selection())
    zxids = {0x1B5, 0x35D, 0x400}
    expected, found = states(tmp_path / "log", zxids), states(imported[0], zxids)
    assert found.keys() == expected.keys() == zxids | {0}
    assert found == expected


def test_terms_continue_with_the_controller_in_the_snapshot(
    imported: tuple[Path, ImportResult],
) -> None:
    """The controller elected in the gap has warm decisions; those of the next one are not warm."""
    decided = [one for one in events(imported[0]) if isinstance(one, DecisionObserved)]
    after = [one for one in decided if one.zxid >= 0x35D]
    assert {one.epoch for one in after if one.warm} == {7}
    elected = [one.epoch for one in after if one.what == "election" and not one.error]
    assert elected == [8, 9, 10, 11, 12]
    assert not [one for one in after if one.warm and one.zxid > first_election(after)]
    assert imported[1].terms == 3 + 1 + len(elected) + 1


def first_election(decided: list[DecisionObserved]) -> int:
    return next(one.zxid for one in decided if one.what == "election" and not one.error)


def test_import_from_after_the_gap_begins_with_the_right_state(
    cut_recording: Path, whole: Path, tmp_path: Path
) -> None:
    begin = Selection(from_ms=1_795_220_390_000)
    result = import_source(cut_recording, tmp_path / "cut", begin)
    import_source(whole, tmp_path / "whole", begin)
    assert (
        "after zxid 0x1b5 the import continues from zookeeper/version-2/snapshot.35b"
        in result.notes
    )
    missing = [one for one in events(tmp_path / "cut") if isinstance(one, TransactionsMissing)]
    assert missing == [TransactionsMissing(0x35B, 0x35D)]
    found = {}
    for name in ("cut", "whole"):
        with LogReader(tmp_path / name, UPCASTERS) as reader:
            imported = open_imported(reader)
            found[name] = data(imported.state), imported.begun.zxid, imported.state.sessions
    assert found["cut"] == found["whole"]


@pytest.mark.long
def test_cluster_after_the_gap_equals_that_of_the_whole_recording(
    imported: tuple[Path, ImportResult], whole: Path, tmp_path: Path
) -> None:
    """Both from the beginning of the log and from a stored snapshot of the fold."""
    import_source(whole, tmp_path / "whole", Selection())
    shutil.copytree(imported[0], tmp_path / "cut")
    expected = cluster_of(tmp_path / "whole", 0x400)
    assert cluster_of(tmp_path / "cut", 0x400) == expected
    make_snapshots(tmp_path / "cut")
    assert cluster_of(tmp_path / "cut", 0x400) == expected


def cluster_of(log: Path, zxid: int) -> object:
    """Topics and brokers after a transaction."""
    with open_log(log) as opened:
        [seq] = [
            record.seq
            for record, event in open_imported(opened.reader).events()
            if isinstance(event, Transaction) and event.zxid == zxid
        ]
        cluster = cluster_at(opened, seq)
    return cluster.controller, cluster.brokers, cluster.topics, cluster.reassignments


@pytest.mark.long
def test_why_reports_a_missing_transaction(imported: tuple[Path, ImportResult]) -> None:
    log, _ = imported
    with LogReader(log, UPCASTERS) as reader:
        [after] = [record.seq + 2 for record in reader.events() if record.kind == "world_resumed"]
    topic = asked(log, after, topic="t-07")
    assert topic.answer.endswith("t-07 is deleted by a missing transaction.")
    role = asked(log, after)
    assert role.answer.startswith("Broker 1 has been controller of term 7 since event ")
    broker = asked(log, after, broker=1)
    assert broker.answer.startswith("Broker 1 has been registered since event ")
    partition = asked(log, after, topic="t_16", partition=7)
    assert "a missing transaction" in {one.written_by for one in partition.chain}
