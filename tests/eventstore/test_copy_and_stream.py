import io
import threading
from pathlib import Path

import pytest

from eventstore import stream
from eventstore.copying import copy_log
from eventstore.errors import LogCorrupt, LogExists, LogFull, LogTooNew, NotALog
from eventstore.reader import LogReader
from eventstore.snapshots import put_snapshot, read_snapshot
from eventstore.verify import verify
from eventstore.writer import LogWriter
from tests.eventstore.samples import command, event, events, header, write_log


def sent(path: Path) -> bytes:
    out = io.BytesIO()
    stream.send(path, out)
    return out.getvalue()


def test_copy_has_all_records(tmp_path: Path) -> None:
    original = write_log(tmp_path / "log", 30, segment_bytes=1)
    put_snapshot(original, "c0ffee", 3, b"state")
    copy_log(original, tmp_path / "copy")
    assert verify(tmp_path / "copy") == verify(original)
    assert list(LogReader(tmp_path / "copy").events()) == events(1, 30)
    [snapshot] = LogReader(tmp_path / "copy").snapshots
    assert read_snapshot(snapshot) == b"state"


def test_copy_does_not_overwrite_a_log(tmp_path: Path) -> None:
    write_log(tmp_path / "log")
    with pytest.raises(LogExists, match="use another folder"):
        copy_log(tmp_path / "log", tmp_path / "log")


def test_interrupted_copy_is_no_log_and_the_next_one_is_complete(tmp_path: Path) -> None:
    original = write_log(tmp_path / "log", 30, segment_bytes=1)
    segments = len(list(original.glob("*.refold")))
    assert segments > 2
    seen: list[tuple[int, int]] = []

    def interrupt(done: int, total: int) -> None:
        seen.append((done, total))
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_log(original, tmp_path / "copy", interrupt)
    with pytest.raises(NotALog):
        LogReader(tmp_path / "copy")
    seen.clear()
    copy_log(original, tmp_path / "copy", lambda done, total: seen.append((done, total)))
    assert verify(tmp_path / "copy") == verify(original)
    assert not list((tmp_path / "copy").glob("*.partial"))
    assert len(seen) == segments
    assert (
        seen[-1][0] == seen[-1][1] == sum(one.stat().st_size for one in original.glob("*.refold"))
    )


def test_copy_to_a_full_disk_names_the_folder(tmp_path: Path, small_disk: Path) -> None:
    with LogWriter.create(tmp_path / "log", header()) as writer:
        writer.append([event(seq, payload=b"x" * 10_000) for seq in range(1, 201)])
    with pytest.raises(LogFull, match=str(small_disk / "copy")):
        copy_log(tmp_path / "log", small_disk / "copy")


def test_copies_of_a_running_daemons_log_are_intact(tmp_path: Path) -> None:
    stop = threading.Event()

    def write() -> None:
        with LogWriter.create(tmp_path / "log", header(), segment_bytes=500_000) as writer:
            started.set()
            while not stop.is_set():
                seq = writer.tip.last_seq + 1
                commands = [command(seq - 1)] if seq > 1 else []
                writer.append([event(seq, payload=b"x" * 5000)], commands)
                writer.roll_if_due()

    started = threading.Event()
    thread = threading.Thread(target=write)
    thread.start()
    started.wait()
    try:
        for number in range(5):
            copy_log(tmp_path / "log", tmp_path / f"copy-{number}")
            with LogReader.open("-", standard_input=io.BytesIO(sent(tmp_path / "log"))) as reader:
                assert verify(reader.path).is_sound
    finally:
        stop.set()
        thread.join()
    reports = [verify(tmp_path / f"copy-{number}") for number in range(5)]
    assert all(report.is_sound and not report.closed for report in reports)
    assert reports[0].events < reports[-1].events


def test_stream_has_all_records(tmp_path: Path) -> None:
    original = write_log(tmp_path / "log", 30, segment_bytes=1)
    put_snapshot(original, "c0ffee", 3, b"state")
    with LogReader.open("-", standard_input=io.BytesIO(sent(original))) as reader:
        assert list(reader.events()) == events(1, 30)
        assert list(reader.commands()) == list(LogReader(original).commands())
        assert reader.closing == LogReader(original).closing
        assert [name.seq for name in reader.snapshots] == [3]
        kept = reader.path
    assert not kept.exists()


def test_truncated_stream_is_reported(tmp_path: Path) -> None:
    content = sent(write_log(tmp_path / "log"))
    for end in range(20, len(content), 101):
        with pytest.raises(LogCorrupt, match=r"the stream, frame \d+: is truncated"):
            LogReader.open("-", standard_input=io.BytesIO(content[:end]))


def test_changed_stream_is_reported(tmp_path: Path) -> None:
    content = sent(write_log(tmp_path / "log"))
    changed = content.replace(b"payload 7", b"payload 8", 1)
    with pytest.raises(LogCorrupt, match="the stream, event 7: it was changed"):
        LogReader.open("-", standard_input=io.BytesIO(changed))


def test_input_that_is_no_stream_is_rejected() -> None:
    with pytest.raises(NotALog, match="refold log copy LOG -"):
        LogReader.open("-", standard_input=io.BytesIO(b"hello"))


def test_stream_of_a_newer_format_is_reported(tmp_path: Path) -> None:
    content = sent(write_log(tmp_path / "log"))
    newer = content.replace(b"\xa7segment\x01", b"\xa7segment\x02", 1)
    with pytest.raises(LogTooNew, match="format 2"):
        LogReader.open("-", standard_input=io.BytesIO(newer))


def test_copy_begins_after_the_segments_that_retention_removes_meanwhile(tmp_path: Path) -> None:
    original = write_log(tmp_path / "log", 30, segment_bytes=1)
    segments = sorted(original.glob("*.refold"))
    third = int(segments[2].stem)
    put_snapshot(original, "c0ffee", 1, b"removed")
    put_snapshot(original, "c0ffee", third - 1, b"state")

    def remove(done: int, total: int) -> None:
        for one in segments[:2]:
            one.unlink(missing_ok=True)

    copy_log(original, tmp_path / "copy", remove)
    assert verify(tmp_path / "copy") == verify(original)
    copied = LogReader(tmp_path / "copy")
    assert [one.seq for one in copied.events()] == list(range(third, 31))
    assert [one.seq for one in copied.snapshots] == [third - 1]


def test_copy_has_no_snapshot_of_events_that_came_later(tmp_path: Path) -> None:
    original = write_log(tmp_path / "log", 30)
    copy_log(original, tmp_path / "copy", lambda done, total: later(original))
    assert [one.seq for one in LogReader(tmp_path / "copy").snapshots] == [30]


def later(log: Path) -> None:
    put_snapshot(log, "c0ffee", 30, b"state")
    put_snapshot(log, "c0ffee", 31, b"later")
