"""Many files are merged into one log: in order, nothing twice, and gaps are reported."""

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


def test_transactions_in_several_files_are_read_once(tmp_path: Path) -> None:
    logs = MergedLogs(
        [
            log_file(tmp_path / "1", run(1, 5)),
            log_file(tmp_path / "2", run(3, 7)),
            log_file(tmp_path / "3", run(4, 6)),
        ]
    )
    assert zxids(logs) == [1, 2, 3, 4, 5, 6, 7]
    assert (logs.repeated, logs.gaps) == (6, [])


def test_repetition_within_a_file_is_reported(tmp_path: Path) -> None:
    """No server writes such a file: the transactions were added later."""
    log = log_file(tmp_path, [error(zxid) for zxid in (1, 2, 2, 3, 1, 4)])
    logs = MergedLogs([log])
    assert zxids(logs) == [1, 2, 3, 4]
    [misplaced] = logs.misplaced
    assert (misplaced.file, misplaced.where, [one.zxid for one in misplaced.records]) == (
        log.name,
        "again",
        [2, 1],
    )
    assert f"{log.name}: 2 transactions are repeated" in str(misplaced)
    offset = len(log_bytes(run(1, 2)))
    assert f"the first at offset {offset} with zxid 0x2:" in str(misplaced)


def test_renamed_file_is_reported(tmp_path: Path) -> None:
    """Its content is complete and in order."""
    whole = log_file(tmp_path, run(4, 6))
    renamed = SourceFile(9, "log.9", whole.path, whole.size)
    logs = MergedLogs([log_file(tmp_path, run(1, 3)), renamed])
    assert zxids(logs) == [1, 2, 3, 4, 5, 6]
    assert logs.misplaced == []
    assert logs.renamed == ["log.9 begins with zxid 0x4: no server gives it this name"]


@pytest.mark.parametrize("rest", [[error(5)], []])
def test_first_transaction_with_a_lower_zxid_is_repeated(rest: list, tmp_path: Path) -> None:
    """The transactions after it do not continue from it."""
    whole = log_file(tmp_path, [error(2), *rest])
    logs = MergedLogs(
        [log_file(tmp_path / "1", run(1, 3)), SourceFile(4, "log.4", whole.path, whole.size)]
    )
    assert zxids(logs) == [1, 2, 3, *(one.zxid for one in rest)]
    assert logs.renamed == []
    [misplaced] = logs.misplaced
    assert [one.zxid for one in misplaced.records] == [2]


def test_repetition_with_another_content_is_reported(tmp_path: Path) -> None:
    """The first content is used, and later transactions are not lost."""
    log = log_file(tmp_path, [*run(1, 3), error(3, code=-110), *run(4, 5)])
    logs = MergedLogs([log])
    assert [*logs] == run(1, 5)
    [misplaced] = logs.misplaced
    assert (misplaced.where, [one.zxid for one in misplaced.records]) == ("again", [3])
    assert logs.damages == []


def test_repetition_does_not_attribute_a_copy_to_another_zookeeper(tmp_path: Path) -> None:
    twice = log_file(tmp_path / "1", [*run(1, 3), error(3, code=-110)])
    logs = MergedLogs([twice, log_file(tmp_path / "2", run(3, 5), zxid=2)])
    assert [*logs] == run(1, 5)
    assert logs.damages == []


def test_transaction_after_a_later_one_is_reported(tmp_path: Path) -> None:
    log = log_file(tmp_path, [error(zxid) for zxid in (1, 2, 4, 5, 6, 3, 7)])
    logs = MergedLogs([log])
    assert zxids(logs) == [1, 2, 4, 5, 6, 7]
    assert [str(one) for one in logs.gaps] == [
        "transactions between zxid 0x2 and 0x4 are out of order"
    ]
    [misplaced] = logs.misplaced
    assert str(misplaced).startswith(f"{log.name}: 1 transactions come after a later one")
    assert "zxid 0x3:" in str(misplaced)


def test_first_of_two_swapped_transactions_is_skipped(tmp_path: Path) -> None:
    log = log_file(tmp_path, [error(zxid) for zxid in (1, 2, 4, 3, 5, 8, 7)])
    logs = MergedLogs([log])
    assert zxids(logs) == [1, 2, 3, 5, 7]
    assert [str(one) for one in logs.gaps] == [
        "transactions between zxid 0x3 and 0x5 are out of order",
        "transactions between zxid 0x5 and 0x7 are missing",
    ]
    [misplaced] = logs.misplaced
    assert (misplaced.where, [one.zxid for one in misplaced.records]) == ("ahead", [4, 8])


@pytest.mark.parametrize("jump", [90, EPOCH + 5])
@pytest.mark.parametrize("place", [0, 3])
def test_transactions_after_one_that_jumps_ahead_are_read(
    tmp_path: Path, place: int, jump: int
) -> None:
    """One zxid is changed: the next transaction continues from the one before it."""
    whole = run(1, 6)
    log = log_file(tmp_path, [*whole[:place], error(jump), *whole[place + 1 :]], zxid=1)
    logs = MergedLogs([log])
    assert [*logs] == [*whole[:place], *whole[place + 1 :]]
    assert logs.gaps == [Gap(place, place + 2)]
    [misplaced] = logs.misplaced
    assert f"{log.name}: 1 transactions come before lower ones" in str(misplaced)
    offset = len(log_bytes(whole[:place]))
    assert f"the first at offset {offset} with zxid {jump:#x}:" in str(misplaced)


def test_repeated_transaction_after_a_jump_does_not_decide_it(tmp_path: Path) -> None:
    """The next transaction decides which one is misplaced."""
    logs = MergedLogs([log_file(tmp_path, [error(zxid) for zxid in (1, 2, 90, 2, 3, 4)])])
    assert zxids(logs) == [1, 2, 3, 4]
    assert [one.where for one in logs.misplaced] == ["ahead", "again"]
    logs = MergedLogs([log_file(tmp_path, [error(zxid) for zxid in (1, 2, 90, 2, 91, 92)])])
    assert zxids(logs) == [1, 2, 90, 91, 92]
    assert [one.where for one in logs.misplaced] == ["again"]


def test_jump_that_continues_is_not_misplaced(tmp_path: Path) -> None:
    """A jump is a gap, or the epoch of a new leader."""
    logs = MergedLogs([log_file(tmp_path, [*run(1, 2), *run(20, 21), *run(EPOCH + 1, EPOCH + 2)])])
    assert zxids(logs) == [1, 2, 20, 21, EPOCH + 1, EPOCH + 2]
    assert logs.misplaced == []


def test_transactions_after_a_later_one_are_counted(tmp_path: Path) -> None:
    logs = MergedLogs([log_file(tmp_path, [error(zxid) for zxid in (1, 90, 91, 2, 3, 4)])])
    assert zxids(logs) == [1, 90, 91]
    [misplaced] = logs.misplaced
    assert "3 transactions come after a later one" in str(misplaced)


def test_file_of_each_transaction_is_known(tmp_path: Path) -> None:
    logs = MergedLogs([log_file(tmp_path, run(1, 2)), log_file(tmp_path, run(3, 3))])
    assert [(one.zxid, logs.file) for one in logs] == [(1, "log.1"), (2, "log.1"), (3, "log.3")]


def test_stray_file_does_not_hide_the_others(tmp_path: Path) -> None:
    stray = log_file(tmp_path, [error(5 * EPOCH + 1)], zxid=2)
    logs = MergedLogs([log_file(tmp_path, run(1, 3)), stray, log_file(tmp_path, run(4, 6))])
    assert zxids(logs) == [1, 2, 3, 4, 5, 6, 5 * EPOCH + 1]
    assert (logs.repeated, logs.gaps) == (0, [])


def test_gap_is_reported(tmp_path: Path) -> None:
    logs = MergedLogs([log_file(tmp_path, run(1, 3)), log_file(tmp_path, run(6, 7))])
    assert zxids(logs) == [1, 2, 3, 6, 7]
    assert logs.gaps == [Gap(3, 6)]
    assert str(logs.gaps[0]) == "transactions between zxid 0x3 and 0x6 are missing"


def test_gap_after_the_snapshot_is_reported(tmp_path: Path) -> None:
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


def test_files_after_the_good_part_of_a_damaged_file_are_read(tmp_path: Path) -> None:
    damaged = log_file(tmp_path, run(1, 3))
    content = bytearray(damaged.path.read_bytes())
    content[-5] ^= 1
    damaged.path.write_bytes(content)
    logs = MergedLogs([damaged, log_file(tmp_path, run(4, 5))])
    assert zxids(logs) == [1, 2, 4, 5]
    assert [(one.file, one.zxid, one.is_torn) for one in logs.damages] == [("log.1", 2, False)]
    assert logs.gaps == [Gap(2, 4)]


def test_torn_file_of_a_killed_server_leaves_no_gap(tmp_path: Path) -> None:
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
def test_files_that_a_snapshot_covers_are_not_read(after: int, begins: list[int]) -> None:
    logs = [SourceFile(zxid, f"log.{zxid:x}", Path("none"), 0) for zxid in (1, 10, 20)]
    assert [one.zxid for one in logs_after(logs, after)] == begins


def test_transactions_that_the_snapshot_has_are_not_returned(tmp_path: Path) -> None:
    logs = MergedLogs([log_file(tmp_path, run(1, 5)), log_file(tmp_path, run(6, 8))], after=3)
    assert zxids(logs) == [4, 5, 6, 7, 8]
    assert (logs.repeated, logs.read) == (0, 5)


def test_bytes_of_all_files_are_reported(tmp_path: Path) -> None:
    files = [log_file(tmp_path, run(1, 3)), log_file(tmp_path, run(4, 6))]
    reported: list[int] = []
    logs = MergedLogs(files, on_bytes=reported.append)
    zxids(logs)
    assert sum(reported) == logs.size == sum(one.size for one in files)


def test_missing_file_is_an_error_with_its_name(tmp_path: Path) -> None:
    file = log_file(tmp_path, run(1, 3))
    file.path.unlink()
    with pytest.raises(ReplayError, match=r"log\.1 cannot be read: No such file"):
        list(chain(MergedLogs([file])))


def test_file_of_another_zookeeper_is_skipped_and_reported(tmp_path: Path) -> None:
    """Files of two clusters in one folder: both begin with zxid 1."""
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


def test_file_is_read_up_to_its_first_differing_transaction(tmp_path: Path) -> None:
    same, other = run(3, 4), [error(zxid, code=-110) for zxid in range(5, 8)]
    logs = MergedLogs(
        [log_file(tmp_path, run(1, 6)), log_file(tmp_path / "other", [*same, *other])]
    )
    assert zxids(logs) == [1, 2, 3, 4, 5, 6]
    [damage] = logs.damages
    assert (damage.offset, damage.zxid) == (16 + len(log_bytes(same)) - 16, 4)
