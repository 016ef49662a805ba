"""Many files are one log: in order, nothing twice, and what is missing is told."""

from itertools import chain
from pathlib import Path

import pytest

from replay.errors import ReplayError
from replay.stock_clusters.zookeeper_log.data_folder import SourceFile
from replay.stock_clusters.zookeeper_log.merging import Gap, MergedLogs, logs_after
from tests.replay.stock_clusters.zookeeper_log.samples import error, log_bytes, log_file

EPOCH = 1 << 32


def run(first: int, last: int) -> list:
    """Transactions of all zxids from one to another."""
    return [error(zxid) for zxid in range(first, last + 1)]


def zxids(logs: MergedLogs) -> list[int]:
    return [one.zxid for one in logs]


def test_files_are_read_one_after_the_other(tmp_path: Path) -> None:
    logs = MergedLogs([log_file(tmp_path, run(1, 3)), log_file(tmp_path, run(4, 6))])
    assert zxids(logs) == [1, 2, 3, 4, 5, 6]
    assert (logs.damages, logs.gaps, logs.read, logs.repeated, logs.zxid) == ([], [], 6, 0, 6)


def test_what_comes_twice_is_passed_over(tmp_path: Path) -> None:
    logs = MergedLogs(
        [
            log_file(tmp_path / "1", run(1, 5)),
            log_file(tmp_path / "2", run(3, 7)),
            log_file(tmp_path / "3", run(4, 6)),
        ]
    )
    assert zxids(logs) == [1, 2, 3, 4, 5, 6, 7]
    assert (logs.repeated, logs.gaps) == (6, [])


def test_what_comes_again_in_one_file_is_told(tmp_path: Path) -> None:
    """No server writes that: somebody has put it in."""
    log = log_file(tmp_path, [error(zxid) for zxid in (1, 2, 2, 3, 1, 4)])
    logs = MergedLogs([log])
    assert zxids(logs) == [1, 2, 3, 4]
    [told] = logs.misplaced
    assert (told.file, told.where, [one.zxid for one in told.records]) == (
        log.name,
        "again",
        [2, 1],
    )
    assert f"{log.name}: 2 transactions are repeated" in str(told)
    offset = len(log_bytes(run(1, 2)))
    assert f"the first at offset {offset} with zxid 0x2:" in str(told)


def test_file_that_was_renamed_is_told(tmp_path: Path) -> None:
    """Nothing in it comes again."""
    whole = log_file(tmp_path, run(4, 6))
    renamed = SourceFile(9, "log.9", whole.path, whole.size)
    logs = MergedLogs([log_file(tmp_path, run(1, 3)), renamed])
    assert zxids(logs) == [1, 2, 3, 4, 5, 6]
    assert logs.misplaced == []
    assert logs.renamed == ["log.9 begins with zxid 0x4: no server gives it this name"]


@pytest.mark.parametrize("behind", [[error(5)], []])
def test_first_transaction_may_be_another_one(behind: list, tmp_path: Path) -> None:
    """That of another zxid, where the next one does not go on from it."""
    whole = log_file(tmp_path, [error(2), *behind])
    logs = MergedLogs(
        [log_file(tmp_path / "1", run(1, 3)), SourceFile(4, "log.4", whole.path, whole.size)]
    )
    assert zxids(logs) == [1, 2, 3, *(one.zxid for one in behind)]
    assert logs.renamed == []
    [told] = logs.misplaced
    assert [one.zxid for one in told.records] == [2]


def test_what_comes_again_with_another_content_is_told(tmp_path: Path) -> None:
    """The first one counts, and what is behind is not lost."""
    log = log_file(tmp_path, [*run(1, 3), error(3, code=-110), *run(4, 5)])
    logs = MergedLogs([log])
    assert [*logs] == run(1, 5)
    [told] = logs.misplaced
    assert (told.where, [one.zxid for one in told.records]) == ("again", [3])
    assert logs.damages == []


def test_what_comes_again_does_not_make_a_copy_another_zookeepers(tmp_path: Path) -> None:
    twice = log_file(tmp_path / "1", [*run(1, 3), error(3, code=-110)])
    logs = MergedLogs([twice, log_file(tmp_path / "2", run(3, 5), zxid=2)])
    assert [*logs] == run(1, 5)
    assert logs.damages == []


def test_what_stands_behind_a_later_one_is_told(tmp_path: Path) -> None:
    log = log_file(tmp_path, [error(zxid) for zxid in (1, 2, 4, 5, 6, 3, 7)])
    logs = MergedLogs([log])
    assert zxids(logs) == [1, 2, 4, 5, 6, 7]
    assert [str(one) for one in logs.gaps] == [
        "transactions between zxid 0x2 and 0x4 are out of order"
    ]
    [told] = logs.misplaced
    assert str(told).startswith(f"{log.name}: 1 transactions come after a later one")
    assert "zxid 0x3:" in str(told)


def test_of_two_that_are_swapped_the_first_one_is_passed_over(tmp_path: Path) -> None:
    log = log_file(tmp_path, [error(zxid) for zxid in (1, 2, 4, 3, 5, 8, 7)])
    logs = MergedLogs([log])
    assert zxids(logs) == [1, 2, 3, 5, 7]
    assert [str(one) for one in logs.gaps] == [
        "transactions between zxid 0x3 and 0x5 are out of order",
        "transactions between zxid 0x5 and 0x7 are missing",
    ]
    [told] = logs.misplaced
    assert (told.where, [one.zxid for one in told.records]) == ("ahead", [4, 8])


@pytest.mark.parametrize("jump", [90, EPOCH + 5])
@pytest.mark.parametrize("place", [0, 3])
def test_one_that_jumps_ahead_keeps_nothing_back(tmp_path: Path, place: int, jump: int) -> None:
    """One zxid is changed: what follows goes on from before it."""
    whole = run(1, 6)
    log = log_file(tmp_path, [*whole[:place], error(jump), *whole[place + 1 :]], zxid=1)
    logs = MergedLogs([log])
    assert [*logs] == [*whole[:place], *whole[place + 1 :]]
    assert logs.gaps == [Gap(place, place + 2)]
    [told] = logs.misplaced
    assert f"{log.name}: 1 transactions come before lower ones" in str(told)
    offset = len(log_bytes(whole[:place]))
    assert f"the first at offset {offset} with zxid {jump:#x}:" in str(told)


def test_one_that_comes_again_shows_no_jump(tmp_path: Path) -> None:
    """What comes next decides."""
    logs = MergedLogs([log_file(tmp_path, [error(zxid) for zxid in (1, 2, 90, 2, 3, 4)])])
    assert zxids(logs) == [1, 2, 3, 4]
    assert [one.where for one in logs.misplaced] == ["ahead", "again"]
    logs = MergedLogs([log_file(tmp_path, [error(zxid) for zxid in (1, 2, 90, 2, 91, 92)])])
    assert zxids(logs) == [1, 2, 90, 91, 92]
    assert [one.where for one in logs.misplaced] == ["again"]


def test_what_jumps_and_goes_on_is_no_jump(tmp_path: Path) -> None:
    """A gap, or a new leader's epoch."""
    logs = MergedLogs([log_file(tmp_path, [*run(1, 2), *run(20, 21), *run(EPOCH + 1, EPOCH + 2)])])
    assert zxids(logs) == [1, 2, 20, 21, EPOCH + 1, EPOCH + 2]
    assert logs.misplaced == []


def test_all_that_is_behind_a_later_one_is_counted(tmp_path: Path) -> None:
    logs = MergedLogs([log_file(tmp_path, [error(zxid) for zxid in (1, 90, 91, 2, 3, 4)])])
    assert zxids(logs) == [1, 90, 91]
    [told] = logs.misplaced
    assert "3 transactions come after a later one" in str(told)


def test_file_of_each_transaction_is_known(tmp_path: Path) -> None:
    logs = MergedLogs([log_file(tmp_path, run(1, 2)), log_file(tmp_path, run(3, 3))])
    assert [(one.zxid, logs.file) for one in logs] == [(1, "log.1"), (2, "log.1"), (3, "log.3")]


def test_stray_file_does_not_hide_the_others(tmp_path: Path) -> None:
    stray = log_file(tmp_path, [error(5 * EPOCH + 1)], zxid=2)
    logs = MergedLogs([log_file(tmp_path, run(1, 3)), stray, log_file(tmp_path, run(4, 6))])
    assert zxids(logs) == [1, 2, 3, 4, 5, 6, 5 * EPOCH + 1]
    assert (logs.repeated, logs.gaps) == (0, [])


def test_gap_is_told(tmp_path: Path) -> None:
    logs = MergedLogs([log_file(tmp_path, run(1, 3)), log_file(tmp_path, run(6, 7))])
    assert zxids(logs) == [1, 2, 3, 6, 7]
    assert logs.gaps == [Gap(3, 6)]
    assert str(logs.gaps[0]) == "transactions between zxid 0x3 and 0x6 are missing"


def test_gap_behind_the_snapshot_is_told(tmp_path: Path) -> None:
    logs = MergedLogs([log_file(tmp_path, run(6, 7))], after=4)
    assert zxids(logs) == [6, 7]
    assert logs.gaps == [Gap(4, 6)]


@pytest.mark.parametrize(
    ("last", "first", "gaps"),
    [
        (EPOCH + 9, 2 * EPOCH + 1, []),
        (EPOCH + 9, 5 * EPOCH + 1, []),
        (EPOCH + 9, 2 * EPOCH + 2, [Gap(EPOCH + 9, 2 * EPOCH + 2)]),
        (0, EPOCH + 1, []),
    ],
)
def test_new_epoch_begins_at_1(tmp_path: Path, last: int, first: int, gaps: list[Gap]) -> None:
    logs = MergedLogs([log_file(tmp_path, [error(first)])], after=last)
    assert zxids(logs) == [first]
    assert logs.gaps == gaps


def test_good_part_of_a_damaged_file_is_read_and_the_next_goes_on(tmp_path: Path) -> None:
    damaged = log_file(tmp_path, run(1, 3))
    content = bytearray(damaged.path.read_bytes())
    content[-5] ^= 1
    damaged.path.write_bytes(content)
    logs = MergedLogs([damaged, log_file(tmp_path, run(4, 5))])
    assert zxids(logs) == [1, 2, 4, 5]
    assert [(one.file, one.zxid, one.is_torn) for one in logs.damages] == [("log.1", 2, False)]
    assert logs.gaps == [Gap(2, 4)]


def test_torn_file_without_a_gap_is_a_server_that_was_killed(tmp_path: Path) -> None:
    torn = log_file(tmp_path, run(1, 3))
    torn.path.write_bytes(log_bytes(run(1, 3))[:-9])
    logs = MergedLogs([torn, log_file(tmp_path, run(3, 5))])
    assert zxids(logs) == [1, 2, 3, 4, 5]
    assert [one.is_torn for one in logs.damages] == [True]
    assert logs.gaps == []


@pytest.mark.parametrize("lost", [0, 9])
def test_last_file_without_zeros_at_its_end_is_cut(tmp_path: Path, lost: int) -> None:
    """A file that another one continues is complete."""
    whole = log_bytes(run(1, 3))
    first = log_file(tmp_path, run(1, 3))
    first.path.write_bytes(whole[: len(whole) - lost])
    alone = MergedLogs([first])
    assert zxids(alone) == [1, 2, 3][: 3 if not lost else 2]
    assert alone.cut == "log.1"
    following = log_file(tmp_path, run(3, 5))
    following.path.write_bytes(log_bytes(run(3, 5), 10_000))
    continued = MergedLogs([first, following])
    assert zxids(continued) == [1, 2, 3, 4, 5]
    assert continued.cut == ""


@pytest.mark.parametrize(
    ("after", "begins"),
    [
        (0, [1, 10, 20]),
        (8, [1, 10, 20]),
        (9, [10, 20]),
        (10, [10, 20]),
        (18, [10, 20]),
        (19, [20]),
        (500, [20]),
    ],
)
def test_files_that_a_snapshot_covers_are_left_out(after: int, begins: list[int]) -> None:
    logs = [SourceFile(zxid, f"log.{zxid:x}", Path("none"), 0) for zxid in (1, 10, 20)]
    assert [one.zxid for one in logs_after(logs, after)] == begins


def test_transactions_that_the_snapshot_has_are_not_given(tmp_path: Path) -> None:
    logs = MergedLogs([log_file(tmp_path, run(1, 5)), log_file(tmp_path, run(6, 8))], after=3)
    assert zxids(logs) == [4, 5, 6, 7, 8]
    assert (logs.repeated, logs.read) == (0, 5)


def test_bytes_are_told_of_all_that_is_read(tmp_path: Path) -> None:
    files = [log_file(tmp_path, run(1, 3)), log_file(tmp_path, run(4, 6))]
    told: list[int] = []
    logs = MergedLogs(files, on_bytes=told.append)
    zxids(logs)
    assert sum(told) == logs.size == sum(one.size for one in files)


def test_file_that_is_gone_is_named(tmp_path: Path) -> None:
    file = log_file(tmp_path, run(1, 3))
    file.path.unlink()
    with pytest.raises(ReplayError, match=r"log\.1 cannot be read: No such file"):
        list(chain(MergedLogs([file])))


def test_file_of_another_zookeeper_is_left_out_and_told(tmp_path: Path) -> None:
    """Two clusters' files in one folder: both count from 1 on."""
    other = [error(zxid, code=-110) for zxid in range(3, 12)]
    logs = MergedLogs(
        [
            log_file(tmp_path, run(1, 5)),
            log_file(tmp_path / "other", other),
            log_file(tmp_path, run(6, 9)),
        ]
    )
    assert [(one.zxid, one.content) for one in logs] == [
        (one.zxid, one.content) for one in run(1, 9)
    ]
    [damage] = logs.damages
    assert (damage.file, damage.offset, damage.zxid) == ("log.3", 16, None)
    assert (
        damage.reason
        == "its transaction 0x3 differs from the one in log.1: it belongs to another ZooKeeper"
    )


def test_file_that_goes_on_otherwise_is_good_up_to_there(tmp_path: Path) -> None:
    same, other = run(3, 4), [error(zxid, code=-110) for zxid in range(5, 8)]
    logs = MergedLogs(
        [log_file(tmp_path, run(1, 6)), log_file(tmp_path / "other", [*same, *other])]
    )
    assert zxids(logs) == [1, 2, 3, 4, 5, 6]
    [damage] = logs.damages
    assert (damage.offset, damage.zxid) == (16 + len(log_bytes(same)) - 16, 4)
