import subprocess
import sys
from pathlib import Path

import pytest

from eventstore.errors import (
    LogError,
    LogExists,
    LogFailed,
    LogFull,
    LogLocked,
    LogReadOnly,
)
from eventstore.reader import LogReader
from eventstore.verify import verify
from eventstore.writer import LogWriter
from tests.eventstore.samples import command, event, events, header, write_log


def test_appended_records_can_be_read(tmp_path: Path) -> None:
    with LogWriter.create(tmp_path / "log", header()) as writer:
        writer.append(events(1, 3))
        writer.append(events(4, 5), [command(1), command(1, 1), command(3)])
        writer.append([], [command(5, body=None)])
    reader = LogReader(tmp_path / "log")
    assert list(reader.events()) == events(1, 5)
    assert list(reader.commands()) == [
        command(1),
        command(1, 1),
        command(3),
        command(5, body=None),
    ]
    assert reader.header == header()
    assert reader.closing is not None
    assert reader.closing.tip == writer.tip


def test_exception_leaves_the_log_without_a_closing_record(tmp_path: Path) -> None:
    def fail() -> None:
        with LogWriter.create(tmp_path / "log", header()) as writer:
            writer.append(events(1, 3))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert LogReader(tmp_path / "log").closing is None
    assert verify(tmp_path / "log").events == 3


def test_records_out_of_order_are_rejected_as_a_whole(tmp_path: Path) -> None:
    with LogWriter.create(tmp_path / "log", header()) as writer:
        writer.append(events(1, 3))
        with pytest.raises(ValueError, match="event 5 follows event 3"):
            writer.append([event(5)])
        with pytest.raises(ValueError, match="a command of event 1 follows one of 2"):
            writer.append([event(4)], [command(2), command(1)])
        writer.append([event(4)])
    assert verify(tmp_path / "log").is_sound


def test_log_belongs_to_one_run(tmp_path: Path) -> None:
    write_log(tmp_path / "log")
    with pytest.raises(LogExists, match="a separate folder"):
        LogWriter.create(tmp_path / "log", header())


def test_closed_writer_rejects_records(tmp_path: Path) -> None:
    writer = LogWriter.create(tmp_path / "log", header())
    writer.close()
    writer.close()
    with pytest.raises(LogError, match="has closed"):
        writer.append([event(1)])


def test_two_daemons_cannot_write_one_log(tmp_path: Path) -> None:
    writer = LogWriter.create(tmp_path / "log", header())
    for segment in writer.folder.glob("*.refold*"):
        segment.rename(tmp_path / segment.name)
    with pytest.raises(LogLocked, match=r"process \d+ writes this log"):
        LogWriter.create(tmp_path / "log", header())
    writer.abandon()


def test_segments_follow_each_other_by_size(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "log", 30, segment_bytes=1)
    reader = LogReader(folder)
    assert [path.name for path in reader.segments][:3] == [
        "00000000000000000001.refold",
        "00000000000000000004.refold",
        "00000000000000000007.refold",
    ]
    assert list(reader.events()) == events(1, 30)
    assert [one.cause for one in reader.commands(5, 9)] == [5, 6, 7, 8, 9]
    second = LogReader(reader.segments[1])
    assert second.header.predecessor is not None
    assert second.header.predecessor.last_seq == 3
    assert reader.closing is not None
    assert reader.closing.tip.commands == 30
    report = verify(folder)
    assert report.is_sound
    assert report.closed
    assert (report.events, report.commands) == (30, 30)


def test_segment_without_events_is_not_rolled(tmp_path: Path) -> None:
    with LogWriter.create(tmp_path / "log", header(), segment_bytes=1) as writer:
        assert writer.roll_if_due() is None
        writer.append([event(1)])
        assert writer.roll_if_due() == writer.segment
        assert writer.roll_if_due() is None


def test_command_may_follow_the_roll_over(tmp_path: Path) -> None:
    with LogWriter.create(tmp_path / "log", header(), segment_bytes=1) as writer:
        writer.append(events(1, 3), [command(1)])
        writer.roll_if_due()
        writer.append(events(4, 4), [command(3), command(4)])
    reader = LogReader(tmp_path / "log")
    assert list(reader.commands(3, 3)) == [command(3)]
    assert [(one.seq, len(caused)) for one, caused in reader.records()] == [
        (1, 1),
        (2, 0),
        (3, 1),
        (4, 1),
    ]
    assert verify(tmp_path / "log").is_sound


def test_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LogFailed, match="file is a file: name a folder"):
        LogWriter.create(tmp_path / "file" / "log", header())


def test_read_only_file_system_is_reported(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(LogReadOnly, match="check owner, mode and mount"):
        LogWriter.create(small_disk / "log", header())


def test_full_disk_loses_no_stored_record(small_disk: Path) -> None:
    folder = small_disk / "log"
    writer = LogWriter.create(folder, header())

    def append_until_it_fails() -> None:
        while True:
            seq = writer.tip.last_seq + 1
            writer.append([event(seq, payload=b"x" * 10_000)], [command(seq)])

    with pytest.raises(LogFull, match=r"1\.refold, event \d+: the disk is full"):
        append_until_it_fails()
    stored = writer.tip.last_seq
    assert stored > 10
    with pytest.raises(LogFull):
        writer.append([event(stored + 1)])
    with pytest.raises(LogFull):
        writer.roll_if_due()
    writer.close()
    report = verify(folder)
    assert report.is_sound
    assert not report.closed
    assert report.events == stored


def test_full_disk_at_the_start_is_reported(small_disk: Path) -> None:
    subprocess.run(
        ["dd", "if=/dev/zero", f"of={small_disk / 'filler'}"], capture_output=True, check=False
    )
    with pytest.raises(LogFull):
        LogWriter.create(small_disk / "log", header())
    assert not (small_disk / "log").exists()


_LIMITED = """
import resource, sys
from pathlib import Path
from eventstore.errors import LogError
from eventstore.writer import LogWriter
from tests.eventstore.samples import event, header

writer = LogWriter.create(Path(sys.argv[1]), header())
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
stored = 0
try:
    while True:
        writer.append([event(stored + 1, payload=b"x" * 10_000)])
        stored += 1
except LogError as error:
    print(stored, type(error).__name__)
writer.close()
"""


def test_file_size_limit_is_a_full_disk(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(tmp_path / "log")],
        capture_output=True,
        text=True,
        check=True,
    )
    stored, error = done.stdout.split()
    assert error in ("LogFull", "LogFailed")
    report = verify(tmp_path / "log")
    assert report.is_sound
    assert report.events == int(stored) > 10


def test_records_survive_kill_9(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from eventstore.writer import LogWriter\n"
        "from tests.eventstore.samples import events, header\n"
        "writer = LogWriter.create(Path(sys.argv[1]), header())\n"
        "writer.append(events(1, 100)); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "log")], check=False)
    assert list(LogReader(tmp_path / "log").events()) == events(1, 100)
    assert not verify(tmp_path / "log").living


def test_log_that_is_swapped_while_it_is_written_gets_no_record(tmp_path: Path) -> None:
    other = write_log(tmp_path / "other")
    before = [one.read_bytes() for one in sorted(other.iterdir())]
    writer = LogWriter.create(tmp_path / "log", header())
    writer.append(events(1, 3))
    (segment,) = (tmp_path / "log").glob("*.refold")
    (swapped,) = other.glob("*.refold")
    segment.rename(tmp_path / "original")
    (tmp_path / "log" / swapped.name).symlink_to(swapped)
    for _ in range(2):
        with pytest.raises(LogFailed, match="was moved, deleted or replaced"):
            writer.append(events(4, 5))
    writer.abandon()
    assert [one.read_bytes() for one in sorted(other.iterdir())] == before
