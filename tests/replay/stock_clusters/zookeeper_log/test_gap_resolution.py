"""After missing transactions the state is known again from the next snapshot."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from replay.stock_clusters.zookeeper_log.gap_resolution import GapResolver, Resumption
from replay.stock_clusters.zookeeper_log.merging import Gap
from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState
from replay.stock_clusters.zookeeper_log.source import Source, open_source
from replay.stock_clusters.zookeeper_log.transactions import OPEN_ACL, OpCode, SetData, Transaction
from tests.replay.stock_clusters.zookeeper_log.samples import at, create, log_file
from tools.zookeeper_log.file_format import write_snapshot

EPOCH = 1 << 32
HISTORY = [
    at(zxid, OpCode.CREATE, create(f"/n{zxid}", zxid))
    if zxid < 10
    else at(zxid, OpCode.SET_DATA, SetData("/n1", b"%d" % zxid, zxid - 9))
    for zxid in range(1, 31)
]


def after(zxid: int, history: Sequence[Transaction] = HISTORY) -> ZooKeeperState:
    state = ZooKeeperState()
    for one in history:
        if one.zxid <= zxid:
            state.apply(one)
    return state


def put_snapshot(folder: Path, zxid: int, state: ZooKeeperState) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"snapshot.{zxid:x}").open("wb") as stream:
        znodes = [(path, 1, znode) for path, znode in state.tree.dump().items()]
        write_snapshot(stream, {}, {1: OPEN_ACL}, znodes)


def logs(folder: Path, *runs: tuple[int, int]) -> Path:
    """Writes logs of the history, each from one zxid to another."""
    for first, last in runs:
        log_file(folder / "version-2", HISTORY[first - 1 : last])
    return folder


Event = tuple[int, str]
"""The zxid of the transaction before which a gap or a snapshot was found, and its description."""


def resumed(source: Source) -> tuple[list[Event], Mapping[int, ZooKeeperState]]:
    """Gaps and used snapshots, and the known states by the zxid of the next transaction."""
    transactions = source.transactions()
    resuming = GapResolver(source, transactions)
    events: list[Event] = []
    states: dict[int, ZooKeeperState] = {}
    for one in transactions:
        for found in resuming.before(one):
            if isinstance(found, Resumption):
                events.append((one.zxid, found.snapshot.name))
                states[one.zxid] = found.state
            else:
                events.append((one.zxid, f"{found.after} {found.before}"))
    return events, states


def test_snapshots_are_not_read_without_a_gap(tmp_path: Path) -> None:
    folder = logs(tmp_path, (1, 10), (11, 20))
    (folder / "version-2" / "snapshot.a").write_bytes(b"broken")
    with open_source(folder) as source:
        assert resumed(source) == ([], {})
        assert source.notes == []


@pytest.mark.parametrize("zxid", [14, 18, 19])
def test_snapshot_after_a_gap_restores_the_state(zxid: int, tmp_path: Path) -> None:
    """The snapshot has the zxid of the last missing transaction, or of a later one."""
    folder = logs(tmp_path, (1, 10), (15, 20))
    put_snapshot(folder / "version-2", zxid, after(zxid))
    with open_source(folder) as source:
        events, states = resumed(source)
        assert events == [(15, "10 15"), (zxid + 1, f"version-2/snapshot.{zxid:x}")]
        assert states[zxid + 1].tree.dump() == after(zxid).tree.dump()
        assert source.notes == [
            f"after zxid 0xa the import continues from version-2/snapshot.{zxid:x}"
        ]


def test_fuzzy_snapshot_is_used_from_where_it_is_exact(tmp_path: Path) -> None:
    """The snapshot already contains transaction 17; transaction 16 is applied to it."""
    folder = logs(tmp_path, (1, 10), (15, 20))
    fuzzy = after(14)
    fuzzy.tree.put("/n1", after(17).tree.get("/n1"))
    put_snapshot(folder / "version-2", 14, fuzzy)
    with open_source(folder) as source:
        events, states = resumed(source)
    assert events == [(15, "10 15"), (18, "version-2/snapshot.e")]
    assert states[18].tree.dump() == after(17).tree.dump()


def test_snapshot_within_a_gap_is_followed_by_the_next_snapshot(tmp_path: Path) -> None:
    """Servers take such a snapshot while they write the last transactions of a log."""
    folder = logs(tmp_path, (1, 8), (15, 20), (21, 25))
    for zxid in (10, 13, 19):
        put_snapshot(folder / "version-2", zxid, after(zxid))
    with open_source(folder) as source:
        events, _ = resumed(source)
    assert events == [
        (15, "8 15"),
        (15, "version-2/snapshot.d"),
        (15, "13 15"),
        (20, "version-2/snapshot.13"),
    ]


def test_damaged_snapshot_is_reported_and_another_one_is_used(tmp_path: Path) -> None:
    folder = logs(tmp_path, (1, 8), (15, 25))
    for zxid in (12, 14, 19, 22):
        put_snapshot(folder / "version-2", zxid, after(zxid))
    for name in ("snapshot.e", "snapshot.13"):
        damaged = folder / "version-2" / name
        damaged.write_bytes(damaged.read_bytes()[:-3])
    with open_source(folder) as source:
        events, _ = resumed(source)
        assert events == [
            (15, "8 15"),
            (15, "version-2/snapshot.c"),
            (15, "12 15"),
            (23, "version-2/snapshot.16"),
        ]
        damaged = ["version-2/snapshot.e", "version-2/snapshot.13"]
        assert [one.file for one in source.damages] == damaged


def test_second_gap_is_ended_by_a_snapshot_after_it(tmp_path: Path) -> None:
    """The snapshot between the gaps is fuzzy up to a missing transaction."""
    folder = logs(tmp_path, (1, 8), (15, 16), (21, 25))
    fuzzy = after(14)
    fuzzy.tree.put("/n1", after(18).tree.get("/n1"))
    put_snapshot(folder / "version-2", 14, fuzzy)
    put_snapshot(folder / "version-2", 22, after(22))
    with open_source(folder) as source:
        events, _ = resumed(source)
    assert events == [(15, "8 15"), (21, "16 21"), (23, "version-2/snapshot.16")]


def test_snapshot_of_an_epoch_whose_end_is_missing_shows_the_gap(tmp_path: Path) -> None:
    """Without the snapshot, missing writes of the old leader would not be noticed."""
    there = HISTORY[:8]
    later = [at(EPOCH + one, OpCode.CREATE, create(f"/e{one}", 40)) for one in (1, 2)]
    log_file(tmp_path / "version-2", there)
    log_file(tmp_path / "version-2", later)
    with open_source(tmp_path) as source:
        assert resumed(source)[0] == []
    put_snapshot(tmp_path / "version-2", EPOCH, after(8))
    with open_source(tmp_path) as source:
        assert resumed(source)[0] == []
    put_snapshot(tmp_path / "version-2", 12, after(12))
    with open_source(tmp_path) as source:
        events, states = resumed(source)
    assert events == [(EPOCH + 1, f"8 {EPOCH + 1}"), (EPOCH + 1, f"version-2/snapshot.{EPOCH:x}")]
    assert states[EPOCH + 1].tree.dump() == after(8).tree.dump()


def test_logs_cover_their_zxids(tmp_path: Path) -> None:
    with open_source(logs(tmp_path, (3, 8), (15, 20))) as source:
        read = source.transactions(2)
        list(read)
    assert [zxid for zxid in range(25) if read.covers(zxid)] == [*range(2, 9), *range(15, 21)]
    assert Gap(8, 15).is_wide is False
    assert Gap(8, 17).is_wide is True


def test_damaged_snapshots_outside_of_the_logs_are_reported(tmp_path: Path) -> None:
    folder = logs(tmp_path, (5, 10))
    for zxid in (4, 13):
        put_snapshot(folder / "version-2", zxid, after(zxid))
    for zxid in (2, 8, 12):
        (folder / "version-2" / f"snapshot.{zxid:x}").write_bytes(b"ZKSN")
    with open_source(folder) as source:
        state = source.first_state()
        read = source.transactions(state.zxid)
        list(read)
        assert not source.is_cut
        source.note_uncovered(read)
        assert source.is_cut
        damaged = ["version-2/snapshot.2", "version-2/snapshot.c"]
        assert [one.file for one in source.damages] == damaged
    assert source.notes == [
        "starts from version-2/snapshot.4",
        "the logs end at zxid 0xa, but version-2/snapshot.d is later: the transactions between"
        " are missing",
    ]
