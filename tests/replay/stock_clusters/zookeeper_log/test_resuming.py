"""Behind missing transactions all is known again from a snapshot on."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from replay.stock_clusters.zookeeper_log.merging import Gap
from replay.stock_clusters.zookeeper_log.restoring import State
from replay.stock_clusters.zookeeper_log.resuming import Resuming, Resumption
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


def after(zxid: int, history: Sequence[Transaction] = HISTORY) -> State:
    state = State()
    for one in history:
        if one.zxid <= zxid:
            state.apply(one)
    return state


def put_snapshot(folder: Path, zxid: int, state: State) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"snapshot.{zxid:x}").open("wb") as stream:
        znodes = [(path, 1, znode) for path, znode in state.tree.dump().items()]
        write_snapshot(stream, {}, {1: OPEN_ACL}, znodes)


def logs(folder: Path, *runs: tuple[int, int]) -> Path:
    """Logs that have the history from one zxid to another each."""
    for first, last in runs:
        log_file(folder / "version-2", HISTORY[first - 1 : last])
    return folder


Met = tuple[int, str]
"""The transaction before which something is met, and that."""


def meet(source: Source) -> tuple[list[Met], Mapping[int, State]]:
    """What is met, and the states that are known again, by the transaction before which."""
    transactions = source.transactions()
    resuming = Resuming(source, transactions)
    met: list[Met] = []
    states: dict[int, State] = {}
    for one in transactions:
        for found in resuming.before(one):
            if isinstance(found, Resumption):
                met.append((one.zxid, found.snapshot.name))
                states[one.zxid] = found.state
            else:
                met.append((one.zxid, f"{found.after} {found.before}"))
    return met, states


def test_without_a_gap_no_snapshot_is_looked_at(tmp_path: Path) -> None:
    folder = logs(tmp_path, (1, 10), (11, 20))
    (folder / "version-2" / "snapshot.a").write_bytes(b"broken")
    with open_source(folder) as source:
        assert meet(source) == ([], {})
        assert source.notes == []


@pytest.mark.parametrize("zxid", [14, 18, 19])
def test_snapshot_behind_a_gap_tells_what_came_of_it(zxid: int, tmp_path: Path) -> None:
    """Named after the last transaction that is missing, or after one behind."""
    folder = logs(tmp_path, (1, 10), (15, 20))
    put_snapshot(folder / "version-2", zxid, after(zxid))
    with open_source(folder) as source:
        met, states = meet(source)
        assert met == [(15, "10 15"), (zxid + 1, f"version-2/snapshot.{zxid:x}")]
        assert states[zxid + 1].tree.dump() == after(zxid).tree.dump()
        assert source.notes == [
            f"after zxid 0xa the import continues from version-2/snapshot.{zxid:x}"
        ]


def test_fuzzy_snapshot_counts_from_where_it_is_exact(tmp_path: Path) -> None:
    """It has the write of transaction 17 already; transaction 16 is applied to it, too."""
    folder = logs(tmp_path, (1, 10), (15, 20))
    fuzzy = after(14)
    fuzzy.tree.put("/n1", after(17).tree.get("/n1"))
    put_snapshot(folder / "version-2", 14, fuzzy)
    with open_source(folder) as source:
        met, states = meet(source)
    assert met == [(15, "10 15"), (18, "version-2/snapshot.e")]
    assert states[18].tree.dump() == after(17).tree.dump()


def test_newest_snapshot_within_a_gap_leaves_the_rest_to_the_next_one(tmp_path: Path) -> None:
    """As servers take them: while the last transactions of a log are being written."""
    folder = logs(tmp_path, (1, 8), (15, 20), (21, 25))
    for zxid in (10, 13, 19):
        put_snapshot(folder / "version-2", zxid, after(zxid))
    with open_source(folder) as source:
        met, _ = meet(source)
    assert met == [
        (15, "8 15"),
        (15, "version-2/snapshot.d"),
        (15, "13 15"),
        (20, "version-2/snapshot.13"),
    ]


def test_damaged_snapshot_is_told_and_another_taken(tmp_path: Path) -> None:
    folder = logs(tmp_path, (1, 8), (15, 25))
    for zxid in (12, 14, 19, 22):
        put_snapshot(folder / "version-2", zxid, after(zxid))
    for name in ("snapshot.e", "snapshot.13"):
        damaged = folder / "version-2" / name
        damaged.write_bytes(damaged.read_bytes()[:-3])
    with open_source(folder) as source:
        met, _ = meet(source)
        assert met == [
            (15, "8 15"),
            (15, "version-2/snapshot.c"),
            (15, "12 15"),
            (23, "version-2/snapshot.16"),
        ]
        damaged = ["version-2/snapshot.e", "version-2/snapshot.13"]
        assert [one.file for one in source.damages] == damaged


def test_further_gap_is_made_up_for_by_a_snapshot_behind_it(tmp_path: Path) -> None:
    """The one between is fuzzy up to what is missing."""
    folder = logs(tmp_path, (1, 8), (15, 16), (21, 25))
    fuzzy = after(14)
    fuzzy.tree.put("/n1", after(18).tree.get("/n1"))
    put_snapshot(folder / "version-2", 14, fuzzy)
    put_snapshot(folder / "version-2", 22, after(22))
    with open_source(folder) as source:
        met, _ = meet(source)
    assert met == [(15, "8 15"), (21, "16 21"), (23, "version-2/snapshot.16")]


def test_snapshot_of_an_epoch_whose_end_is_missing_shows_the_gap(tmp_path: Path) -> None:
    """Else nobody knows how many transactions a leader still wrote."""
    there = HISTORY[:8]
    later = [at(EPOCH + one, OpCode.CREATE, create(f"/e{one}", 40)) for one in (1, 2)]
    log_file(tmp_path / "version-2", there)
    log_file(tmp_path / "version-2", later)
    with open_source(tmp_path) as source:
        assert meet(source)[0] == []
    put_snapshot(tmp_path / "version-2", EPOCH, after(8))
    with open_source(tmp_path) as source:
        assert meet(source)[0] == []
    put_snapshot(tmp_path / "version-2", 12, after(12))
    with open_source(tmp_path) as source:
        met, states = meet(source)
    assert met == [(EPOCH + 1, f"8 {EPOCH + 1}"), (EPOCH + 1, f"version-2/snapshot.{EPOCH:x}")]
    assert states[EPOCH + 1].tree.dump() == after(8).tree.dump()


def test_what_the_logs_cover(tmp_path: Path) -> None:
    with open_source(logs(tmp_path, (3, 8), (15, 20))) as source:
        read = source.transactions(2)
        list(read)
    assert [zxid for zxid in range(25) if read.covers(zxid)] == [*range(2, 9), *range(15, 21)]
    assert Gap(8, 15).is_wide is False
    assert Gap(8, 17).is_wide is True


def test_damaged_snapshots_that_the_logs_do_not_lead_up_to_are_told(tmp_path: Path) -> None:
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
