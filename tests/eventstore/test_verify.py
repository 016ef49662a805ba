"""Every kind of damage to a log is detected and reported."""

import pickle
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from eventstore.errors import LogCorrupt, LogFailed, LogNotFound, LogTooNew, NotALog
from eventstore.verify import verify
from eventstore.writer import LogWriter
from tests.eventstore.samples import command, events, header, write_log

Damage = str | Callable[[Path], None]


def damaged(folder: Path, sql: str) -> None:
    segment = max(folder.glob("*.refold"))
    connection = sqlite3.connect(segment)
    connection.executescript(sql)
    connection.close()


@pytest.mark.parametrize(
    ("sql", "record", "text"),
    [
        ("update events set payload = x'00' where seq = 4", "event 4", "changed"),
        (
            "update events set payload = cast(x'ff00' as text) where seq = 4",
            "event 4",
            "changed",
        ),
        (
            "update commands set body = cast(x'ff00' as text) where cause = 3",
            "command 3.0",
            "changed",
        ),
        ("update events set wall_ns = wall_ns + 1 where seq = 10", "event 10", "changed"),
        ("update events set term = 2 where seq = 1", "event 1", "changed"),
        ("update events set cause = 1 where seq = 5", "event 5", "changed"),
        ("update events set chain = x'00' where seq = 5", "event 5", "changed"),
        (
            "update events set seq = 99 where seq = 4; update events set seq = 4 where seq = 5;"
            "update events set seq = 5 where seq = 99",
            "event 4",
            "moved",
        ),
        ("delete from events where seq = 4", "event 5", "events 4 to 4 are missing"),
        ("delete from events where seq = 1", "event 2", "events 1 to 1 are missing"),
        (
            "delete from events where seq = 10",
            "closing record",
            "10 should be the last one, but it is 9",
        ),
        (
            "insert into events select 11, wall_ns, mono_ns, term, kind, schema, channel, origin,"
            " cause, payload, chain from events where seq = 10",
            "event 11",
            "inserted",
        ),
        ("update commands set body = x'00' where cause = 3", "command 3.0", "changed"),
        ("update commands set reason = x'00' where cause = 3", "command 3.0", "changed"),
        ("delete from commands where cause = 3", "command 4.0", "missing"),
        ("delete from commands where cause = 10", "closing record", "10 commands, but there are 9"),
        (
            "insert into commands select 10, 1, term, kind, target, reason, digest, body, chain"
            " from commands where cause = 10",
            "command 10.1",
            "inserted",
        ),
        (
            "update header set body = replace(body, 'c0ffee', 'decaf0')",
            "header",
            "was changed",
        ),
        ("delete from header", "header", "missing"),
        ("update closing set body = replace(body, '10', '11')", "closing record", "was changed"),
    ],
)
def test_damaged_record_is_reported(tmp_path: Path, sql: str, record: str, text: str) -> None:
    folder = write_log(tmp_path / "log")
    damaged(folder, sql)
    first = verify(folder).damages[0]
    assert first.record == record
    assert text in first.text
    assert first.file == str(folder / "00000000000000000001.refold")


def test_intact_log_is_verified(tmp_path: Path) -> None:
    report = verify(write_log(tmp_path / "log"))
    assert report.is_sound
    assert report.closed
    assert (report.events, report.commands, report.first_seq, report.last_seq) == (10, 10, 1, 10)
    assert report.segments == 1


def test_log_after_retention_begins_with_its_first_stored_event(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "log", 9, segment_bytes=1)
    min(folder.glob("*.refold")).unlink()
    report = verify(folder)
    assert report.is_sound
    assert (report.events, report.first_seq, report.last_seq, report.segments) == (6, 4, 9, 3)


def test_segment_of_a_log_that_is_being_written_is_living(tmp_path: Path) -> None:
    with LogWriter.create(tmp_path / "log", header()) as writer:
        assert verify(writer.segment).living
    assert not verify(writer.segment).living


def test_log_without_its_closing_record_is_not_closed(tmp_path: Path) -> None:
    report = verify(write_log(tmp_path / "log", closed=False))
    assert report.is_sound
    assert not report.closed


def test_log_whose_header_is_missing_has_no_events(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "log")
    damaged(folder, "delete from header")
    report = verify(folder)
    assert (report.events, report.first_seq, report.last_seq, report.segments) == (0, 1, 0, 1)


def test_missing_table_is_reported_for_the_file(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "log")
    damaged(folder, "drop table closing")
    [damage] = verify(folder).damages
    assert damage.record == "file"
    assert "no such table" in damage.text


def test_command_without_the_number_of_its_event_counts_for_no_event(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "log", 1, closed=False)
    damaged(folder, "update commands set cause = 'x'")
    report = verify(folder)
    assert [one.record for one in report.damages] == ["command x.0"]
    assert report.events_without_commands == 1


@pytest.mark.parametrize("count", [10, 11])
def test_check_stops_after_twenty_findings(tmp_path: Path, count: int) -> None:
    """Each event and each command of the first segment is damaged."""
    with LogWriter.create(tmp_path / "log", header(), segment_bytes=1) as writer:
        writer.append(events(1, count), [command(seq) for seq in range(1, count + 1)])
        writer.roll_if_due()
    with closing(sqlite3.connect(min(writer.folder.glob("*.refold")))) as database:
        database.executescript("update events set chain = x''; update commands set chain = x''")
    report = verify(writer.folder)
    assert len(report.damages) == 20
    assert report.segments == 1


def test_missing_segment_is_reported(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "log", 30, segment_bytes=1)
    sorted(folder.glob("*.refold"))[2].unlink()
    [damage] = verify(folder).damages
    assert damage.record == "header"
    assert damage.file.endswith("010.refold")
    assert "event 9 should be the last one, but it is 6" in damage.text


def test_events_missing_at_the_end_of_a_segment_are_reported(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "log", 6, segment_bytes=1)
    first = min(folder.glob("*.refold"))
    connection = sqlite3.connect(first)
    connection.executescript("delete from commands where cause = 3; delete from events where seq=3")
    connection.close()
    [damage] = verify(folder).damages
    assert "event 3 should be the last one, but it is 2" in damage.text


def test_segment_of_another_log_is_reported(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "log", 6, segment_bytes=1)
    writer = LogWriter.create(tmp_path / "other", header())
    writer.append(events(1, 3, term=7), [command(1), command(2), command(3)])
    writer.abandon()
    writer.segment.replace(folder / writer.segment.name)
    assert "its checksums" in verify(folder).damages[0].text


def test_segment_with_another_name_is_reported(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "log")
    segment = folder / "00000000000000000001.refold"
    segment.rename(folder / "00000000000000000002.refold")
    assert "original name" in verify(folder).damages[0].text


def test_changed_byte_of_the_file_is_reported_or_affects_no_record(tmp_path: Path) -> None:
    """Every 97th byte in turn. A change that is not reported does not affect the records."""
    folder = write_log(tmp_path / "log")
    segment = folder / "00000000000000000001.refold"
    content = segment.read_bytes()
    at_payload = content.index(b"payload 7")
    for position in [at_payload, *range(0, len(content), 97)]:
        segment.write_bytes(
            content[:position] + bytes([content[position] ^ 0xFF]) + content[position + 1 :]
        )
        try:
            report = verify(folder)
        except (NotALog, LogTooNew):
            continue
        assert position != at_payload or report.damages[0].record == "event 7"
        assert report.damages or (report.events, report.commands, report.closed) == (10, 10, True)


@pytest.mark.parametrize("part", [0.3, 0.9])
def test_truncated_file_is_damaged(tmp_path: Path, part: float) -> None:
    folder = write_log(tmp_path / "log", 300)
    segment = folder / "00000000000000000001.refold"
    content = segment.read_bytes()
    segment.write_bytes(content[: int(len(content) * part)])
    assert verify(folder).damages


def test_path_that_is_no_log_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(LogNotFound, match="no such file"):
        verify(tmp_path / "nowhere")
    with pytest.raises(NotALog, match="contains no segment"):
        verify(tmp_path)
    text = tmp_path / "text"
    text.write_text("not a log" * 100)
    with pytest.raises(NotALog, match="not an SQLite file"):
        verify(text)
    (tmp_path / "empty").write_text("")
    with pytest.raises(NotALog, match="is an empty file"):
        verify(tmp_path / "empty")
    sqlite3.connect(tmp_path / "other.db").executescript("create table t (a)").connection.close()
    with pytest.raises(NotALog, match="not a refold log"):
        verify(tmp_path / "other.db")
    write_log(tmp_path / "parent" / "run-1")
    with pytest.raises(NotALog, match=r"contains a log, use its path: .*run-1"):
        verify(tmp_path / "parent")
    write_log(tmp_path / "parent" / "run-2")
    with pytest.raises(
        NotALog, match=r"contains 2 logs, use the path of one of them; the last is .*run-2"
    ):
        verify(tmp_path / "parent")
    with pytest.raises(LogFailed, match=r"text is a file: name a folder"):
        verify(text / "run-1")


def test_newer_format_is_reported(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "log")
    damaged(folder, "pragma user_version = 2")
    with pytest.raises(LogTooNew, match="format 2, this one reads 1"):
        verify(folder)


def test_error_of_another_process_names_file_and_record() -> None:
    error = LogCorrupt(Path("log"), "it was changed", "event 3")
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.file, copy.text, copy.record, str(copy)) == (
        error.file,
        error.text,
        error.record,
        str(error),
    )
