"""A recording with a file cut out: behind it all is right again, wherever the log is asked."""

import shutil
import tarfile
from pathlib import Path

import pytest

from eventstore.reader import LogReader
from replay.inspect.at import cluster_at, make_snapshots
from replay.logs.decode import UPCASTERS
from replay.logs.open_log import open_log
from replay.stock_clusters.imported_log.events import (
    Observed,
    SessionsGone,
    TransactionsMissing,
    WorldEvent,
    WorldResumed,
    ZnodesGone,
)
from replay.stock_clusters.imported_log.reading import open_world
from replay.stock_clusters.imported_log.restored import apply
from replay.stock_clusters.imports.importing import Selection, import_source
from replay.stock_clusters.imports.report import ImportResult
from replay.stock_clusters.zookeeper_log.restoring import State
from replay.stock_clusters.zookeeper_log.transactions import Transaction
from tests.replay.stock_clusters.zookeeper_log.samples import RECORDING
from tests.replay.why.asked import asked

NAME = "chaos-4"
GONE = "log.1b6"
"""The second of its three files. The snapshot before the third one has all of it but the last
transaction, 0x35c."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recording")
    with tarfile.open(RECORDING.with_name(f"{NAME}.tar.xz")) as tar:
        tar.extractall(folder, filter="data")
    return folder / NAME


@pytest.fixture(scope="module")
def cut(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("cut") / NAME
    shutil.copytree(whole, source)
    (source / "zookeeper" / "version-2" / GONE).unlink()
    return source


@pytest.fixture(scope="module")
def imported(cut: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ImportResult]:
    log = tmp_path_factory.mktemp("cut") / "log"
    return log, import_source(cut, log, Selection())


def events(log: Path) -> list[WorldEvent]:
    with LogReader(log, UPCASTERS) as reader:
        return [event for _, event in open_world(reader).events()]


def states(log: Path, zxids: set[int]) -> dict[int, dict[str, bytes]]:
    """What znodes held before some transactions."""
    found = {}
    with LogReader(log, UPCASTERS) as reader:
        world = open_world(reader)
        for _, event in world.events():
            if isinstance(event, Transaction) and event.zxid in zxids:
                found[event.zxid] = data(world.state)
            apply(world.state, event)
    return {**found, 0: data(world.state)}


def data(state: State) -> dict[str, bytes]:
    return {path: znode.data for path, znode in state.tree.dump().items()}


def test_log_says_what_is_otherwise_and_from_where(imported: tuple[Path, ImportResult]) -> None:
    log, result = imported
    assert result.gaps == ["transactions between zxid 0x1b5 and 0x35d are missing"]
    assert (
        "after zxid 0x1b5 the import continues from zookeeper/version-2/snapshot.35b"
        in result.notes
    )
    found = events(log)
    [resumed] = [place for place, one in enumerate(found) if isinstance(one, WorldResumed)]
    assert found[resumed] == WorldResumed("zookeeper/version-2/snapshot.35b", 0x35B)
    missing = [one for one in found if isinstance(one, TransactionsMissing)]
    assert missing == [TransactionsMissing(0x1B5, 0x35D), TransactionsMissing(0x35B, 0x35D)]
    [gone] = [one for one in found if isinstance(one, ZnodesGone)]
    assert {"/prod/k1/controller", "/prod/k1/brokers/topics/t-07"} <= {*gone.paths}
    assert any(isinstance(one, SessionsGone) for one in found)


def test_znodes_behind_it_are_those_of_the_whole(
    imported: tuple[Path, ImportResult], whole: Path, tmp_path: Path
) -> None:
    import_source(whole, tmp_path / "log", Selection())
    zxids = {0x1B5, 0x35D, 0x400}
    expected, found = states(tmp_path / "log", zxids), states(imported[0], zxids)
    assert found.keys() == expected.keys() == zxids | {0}
    assert found == expected


def test_terms_go_on_with_whom_the_snapshot_has(imported: tuple[Path, ImportResult]) -> None:
    """Who was elected in what is missing decides warm; the next one does not."""
    decided = [one for one in events(imported[0]) if isinstance(one, Observed)]
    behind = [one for one in decided if one.zxid >= 0x35D]
    assert {one.epoch for one in behind if one.warm} == {7}
    elected = [one.epoch for one in behind if one.what == "election" and not one.error]
    assert elected == [8, 9, 10, 11, 12]
    assert not [one for one in behind if one.warm and one.zxid > first_election(behind)]
    assert imported[1].terms == 3 + 1 + len(elected) + 1


def first_election(decided: list[Observed]) -> int:
    return next(one.zxid for one in decided if one.what == "election" and not one.error)


def test_what_is_wanted_from_behind_it_begins_right(cut: Path, whole: Path, tmp_path: Path) -> None:
    begin = Selection(from_ms=1_795_220_390_000)
    result = import_source(cut, tmp_path / "cut", begin)
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
            world = open_world(reader)
            found[name] = data(world.state), world.begun.zxid, world.state.sessions
    assert found["cut"] == found["whole"]


def test_moment_behind_it_is_as_in_the_whole(
    imported: tuple[Path, ImportResult], whole: Path, tmp_path: Path
) -> None:
    """From the start, and from a snapshot that is kept of the log."""
    import_source(whole, tmp_path / "whole", Selection())
    shutil.copytree(imported[0], tmp_path / "cut")
    expected = cluster_of(tmp_path / "whole", 0x400)
    assert cluster_of(tmp_path / "cut", 0x400) == expected
    make_snapshots(tmp_path / "cut")
    assert cluster_of(tmp_path / "cut", 0x400) == expected


def cluster_of(log: Path, zxid: int) -> object:
    """Topics and brokers as they are when a transaction has been done."""
    with open_log(log) as opened:
        [seq] = [
            record.seq
            for record, event in open_world(opened.reader).events()
            if isinstance(event, Transaction) and event.zxid == zxid
        ]
        cluster = cluster_at(opened, seq)
    return cluster.controller, cluster.brokers, cluster.topics, cluster.reassignments


def test_why_tells_that_a_transaction_is_missing(imported: tuple[Path, ImportResult]) -> None:
    log, _ = imported
    with LogReader(log, UPCASTERS) as reader:
        [behind] = [record.seq + 2 for record in reader.events() if record.kind == "world_resumed"]
    topic = asked(log, behind, topic="t-07")
    assert topic.answer.endswith("t-07 is deleted: by a transaction that is missing.")
    role = asked(log, behind)
    assert role.answer.startswith("Broker 1 is controller of term 7 since event ")
    broker = asked(log, behind, broker=1)
    assert broker.answer.startswith("Broker 1 is registered since event ")
    partition = asked(log, behind, topic="t_16", partition=7)
    assert "a transaction that is missing" in {one.written_by for one in partition.chain}
