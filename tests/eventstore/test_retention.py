from pathlib import Path

import pytest
from msgspec import structs

from eventstore.errors import LogCorrupt
from eventstore.folders import run_folder
from eventstore.mirror.outbox import PublishedPosition
from eventstore.mirror.progress import MirrorProgress, TopicLocation, is_mirrored, write_progress
from eventstore.reader import LogReader
from eventstore.retention import retain
from eventstore.snapshots import latest_snapshot, put_snapshot, read_snapshot
from eventstore.verify import verify
from eventstore.writer import LogWriter
from tests.eventstore.samples import START_NS, events, header, write_log

SECOND_NS = 1_000_000_000


def numbers(log: Path) -> list[int]:
    return [one.seq for one in LogReader(log).events()]


def with_snapshots(log: Path, *numbers: int) -> Path:
    for seq in numbers:
        put_snapshot(log, "c0ffee", seq, b"state")
    return log


def test_age_removes_only_segments_before_a_snapshot(tmp_path: Path) -> None:
    log = write_log(tmp_path / "run-1", 12, segment_bytes=1, closed=False)
    with_snapshots(log, 6)
    now_ns = START_NS + 12 * SECOND_NS
    assert retain(tmp_path, None, 7_000, now_ns) == []
    removed = retain(tmp_path, None, 5_000, now_ns)
    assert [path.name[:20].lstrip("0") for path in removed] == ["1", "4"]
    assert numbers(log) == list(range(7, 13))
    assert verify(log).is_sound
    assert latest_snapshot(log, "c0ffee", 9) is not None


def test_size_removes_the_oldest_log_first_and_completely(tmp_path: Path) -> None:
    old = write_log(tmp_path / "run-1", 6, segment_bytes=1)
    new = tmp_path / "run-2"
    with LogWriter.create(new, header()) as writer:
        writer.append([one._replace(wall_ns=one.wall_ns + 10**18) for one in events(1, 3)])
    size = sum(path.stat().st_size for path in new.iterdir())
    retain(tmp_path, size, None, START_NS)
    assert not old.exists()
    assert numbers(new) == [1, 2, 3]


def test_no_limit_removes_nothing(tmp_path: Path) -> None:
    write_log(tmp_path / "run-1")
    assert retain(tmp_path, None, None, START_NS * 2) == []


def test_unmirrored_segments_are_kept(tmp_path: Path) -> None:
    """Later segments of the same log are kept as well. A completely mirrored log is removed with
    its folder."""
    log = with_snapshots(write_log(tmp_path / "run-1", 12, segment_bytes=1), 3, 6, 9)
    noted = MirrorProgress("t", 0, 17, PublishedPosition(4, 6, 3), servers="one:9092")
    write_progress(log, noted)

    def is_held(segment: Path) -> bool:
        return not is_mirrored(segment, TopicLocation("t", "one:9092"))

    for other in (TopicLocation("u", "one:9092"), TopicLocation("t", "two:9092")):
        assert not any(is_mirrored(segment, other) for segment in log.glob("*.refold"))
    removed = retain(tmp_path, 0, None, START_NS, is_held=is_held)
    assert [path.name[:20].lstrip("0") for path in removed] == ["1"]
    write_progress(log, structs.replace(noted, is_whole=True))
    retain(tmp_path, 0, None, START_NS, is_held=is_held)
    assert not log.exists()


def test_log_of_another_running_daemon_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "run-1"
    writer = LogWriter.create(folder, header(), segment_bytes=1)
    for first in (1, 4, 7):
        writer.append(events(first, first + 2))
        writer.roll_if_due()
    with_snapshots(folder, 3, 6)
    assert retain(tmp_path, 0, 0, START_NS * 2) == []
    removed = retain(tmp_path, 0, 0, START_NS * 2, own=folder)
    assert len(removed) == 2
    assert numbers(folder) == [7, 8, 9]
    writer.append(events(10, 12))
    writer.close()
    assert verify(folder).closed
    assert retain(tmp_path, 0, None, START_NS) != []
    assert not folder.exists()


def test_run_folders_are_sorted_by_time(tmp_path: Path) -> None:
    names = [run_folder(tmp_path, wall_ns).name for wall_ns in (START_NS, START_NS + 1)]
    assert names == ["run-20261118T110640.000000000Z", "run-20261118T110640.000000001Z"]


def test_damaged_snapshot_is_reported(tmp_path: Path) -> None:
    path = put_snapshot(tmp_path, "c0ffee", 7, b"state")
    found = latest_snapshot(tmp_path, "c0ffee", 7)
    assert found is not None
    assert read_snapshot(found) == b"state"
    assert latest_snapshot(tmp_path, "c0ffee", 6) is None
    assert latest_snapshot(tmp_path, "decaf0", 7) is None
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(LogCorrupt, match="can be made again"):
        read_snapshot(found)
