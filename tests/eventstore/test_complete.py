"""Records that are missing at the end of a log or of a segment are reported as far as the log shows
them: by an answer, the closing record or the next segment."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from eventstore.errors import LogCorrupt
from eventstore.records import CommandRecord, EventRecord
from eventstore.segment import Segment
from eventstore.verify import check_complete, check_ends, verify
from eventstore.writer import LogWriter
from tests.eventstore.samples import command, damage_index, event, events, header, write_log

ANSWERED = [event(1), event(2, origin="reply", cause=1)]
"""Event 2 answers a command of event 1."""


def stored(
    folder: Path,
    some: Sequence[EventRecord],
    commands: Sequence[CommandRecord] = (),
    kind: str = "recorded",
    *,
    closed: bool = False,
) -> Path:
    """A log of one segment."""
    writer = LogWriter.create(folder, header(kind=kind))
    writer.append(some, commands)
    if closed:
        writer.close()
    else:
        writer.abandon()
    return folder


def segmented(folder: Path, *segments: tuple[list[EventRecord], list[CommandRecord]]) -> Path:
    """An open log with these segments, and an empty last one."""
    writer = LogWriter.create(folder, header(), segment_bytes=1)
    for some, commands in segments:
        writer.append(some, commands)
        writer.roll_if_due()
    writer.abandon()
    return folder


def shortened(log: Path) -> Path:
    """The log after the first segment was deleted, as by retention."""
    min(log.glob("*.refold")).unlink()
    return log


def changed(log: Path, sql: str, number: int = -1) -> Path:
    """The log after its last segment, or another one, was changed."""
    segment = sorted(log.glob("*.refold"))[number]
    with closing(sqlite3.connect(segment, isolation_level=None)) as database:
        database.executescript(sql)
    return log


def finding(check: Callable[[Path], object], log: Path) -> str:
    """The record that a check reports, and why; empty if it reports none."""
    try:
        check(log)
    except LogCorrupt as error:
        return f"{error.record}: {error.text}"
    return ""


@pytest.mark.parametrize(
    ("log", "without_commands"),
    [
        (lambda folder: stored(folder, []), 0),
        (lambda folder: stored(folder, [], closed=True), 0),
        (lambda folder: stored(folder, events(1, 3)), 3),
        (lambda folder: stored(folder, events(1, 3), [command(1)]), 2),
        (lambda folder: stored(folder, events(1, 3), [command(2), command(3)]), 0),
        (lambda folder: stored(folder, events(1, 3), [command(1)], closed=True), 0),
        (lambda folder: stored(folder, ANSWERED, [command(1)]), 1),
        (lambda folder: stored(folder, ANSWERED, closed=True), 0),
        (lambda folder: stored(folder, ANSWERED, kind="world-backed"), 0),
        (lambda folder: write_log(folder, 9, segment_bytes=1), 0),
        (lambda folder: shortened(write_log(folder, 9, segment_bytes=1)), 0),
        (
            lambda folder: segmented(folder, (ANSWERED, [command(1)]), (events(3, 5), [])),
            4,
        ),
        (
            lambda folder: shortened(
                segmented(folder, (events(1, 3), []), ([event(4, cause=3), *events(5, 6)], []))
            ),
            3,
        ),
    ],
    ids=[
        "empty",
        "empty and closed",
        "no commands",
        "commands of the first event",
        "commands of the last event",
        "closed without the last commands",
        "answered",
        "answered and closed without commands",
        "imported",
        "segments",
        "segments without the first",
        "last segment without commands",
        "answer to a deleted segment",
    ],
)
def test_log_that_shows_no_missing_record_is_sound(
    tmp_path: Path, log: Callable[[Path], Path], without_commands: int
) -> None:
    folder = log(tmp_path / "log")
    report = verify(folder)
    assert report.damages == []
    assert report.events_without_commands == without_commands
    assert finding(check_complete, folder) == ""
    assert finding(check_ends, folder) == ""


@pytest.mark.parametrize(
    ("some", "commands", "answered", "last"),
    [
        (ANSWERED, [], 1, 0),
        ([*events(1, 3), event(4, cause=3), event(5, cause=2)], [command(1)], 3, 1),
    ],
)
def test_missing_commands_of_an_answered_event_are_reported(
    tmp_path: Path,
    some: list[EventRecord],
    commands: list[CommandRecord],
    answered: int,
    last: int,
) -> None:
    log = stored(tmp_path / "log", some, commands)
    text = f"missing, although the log has its outcome: the last stored command is of event {last}"
    assert [(one.record, one.text) for one in verify(log).damages] == [
        (f"commands of event {answered}", text)
    ]
    assert finding(check_complete, log).startswith(
        f"commands: those of event {answered} are {text}"
    )


@pytest.mark.parametrize("number", [0, 1])
def test_commands_that_the_next_segment_counts_are_missed(tmp_path: Path, number: int) -> None:
    log = write_log(tmp_path / "log", 6, segment_bytes=1)
    there = finding(check_complete, changed(log, "select 1", number))
    changed(log, "delete from commands where rowid = (select max(rowid) from commands)", number)
    missed = finding(check_complete, log)
    assert there == ""
    assert missed.startswith("commands: there should be ")
    assert verify(log).damages


def test_missing_commands_of_an_event_in_the_segment_before_are_reported(tmp_path: Path) -> None:
    answer = event(4, origin="reply", cause=3)
    log = segmented(tmp_path / "log", (events(1, 3), [command(1)]), ([answer], []))
    assert finding(check_complete, log).startswith("commands: those of event 3 are missing")
    assert [one.record for one in verify(log).damages] == ["commands of event 3"]


def test_missing_commands_are_not_reported_after_other_damage(tmp_path: Path) -> None:
    log = changed(stored(tmp_path / "log", ANSWERED), "update events set term = 2 where seq = 1")
    assert [one.record for one in verify(log).damages] == ["event 1"]


def test_answer_that_is_appended_during_the_check_reports_no_missing_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    event_rows = Segment.event_rows
    with LogWriter.create(tmp_path / "log", header()) as writer:
        writer.append(events(1, 3), [command(1)])

        def append_first(segment: Segment) -> object:
            """The commands have been read."""
            writer.append([event(4)], [command(3), command(4)])
            writer.append([event(5, cause=4)])
            return event_rows(segment)

        monkeypatch.setattr(Segment, "event_rows", append_first)
        report = verify(writer.folder)
    assert report.events == 5
    assert report.damages == []


@pytest.mark.parametrize(
    ("closed", "sql", "found", "by_check_complete", "by_check_ends"),
    [
        (
            False,
            "delete from events where seq = 10",
            "command of event 10: its event is not in the log, which ends with event 9",
            "command of event 10: its event is not in the log, which ends with event 9",
            "",
        ),
        (
            True,
            "delete from events where seq = 10",
            "closing record: event 10 should be the last one, but it is 9",
            "command of event 10: its event is not in the log, which ends with event 9",
            "closing record: event 10 should be the last one, but it is 9",
        ),
        (
            True,
            "delete from commands where cause = 10",
            "closing record: there should be 10 commands, but there are 9",
            "commands: there should be 10, but there are 9",
            "closing record: there should be 10 commands, but there are 9",
        ),
        (
            True,
            "update events set chain = x'00' where seq = 10",
            "event 10: it was changed, moved or inserted, or the previous one was",
            "",
            "closing record: its checksums do not match the records",
        ),
    ],
)
def test_changed_end_of_a_log_is_reported_once(
    tmp_path: Path,
    closed: bool,
    sql: str,
    found: str,
    by_check_complete: str,
    by_check_ends: str,
) -> None:
    log = changed(write_log(tmp_path / "log", closed=closed), sql)
    assert [f"{one.record}: {one.text}" for one in verify(log).damages] == [found]
    for check, expected in ((check_complete, by_check_complete), (check_ends, by_check_ends)):
        assert (
            finding(check, log).removesuffix(": replace the file with an intact copy") == expected
        )


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        (
            "delete from commands where cause = 3; delete from events where seq = 3",
            "event 3 should be the last one, but it is 2",
        ),
        ("delete from commands where cause = 3", "there should be 3 commands, but there are 2"),
    ],
)
def test_changed_end_of_a_segment_is_reported_for_the_next_one(
    tmp_path: Path, sql: str, text: str
) -> None:
    log = changed(write_log(tmp_path / "log", 6, segment_bytes=1), sql, 0)
    text = f"header: the end of the previous segment does not match: {text}"
    assert [f"{one.record}: {one.text}" for one in verify(log).damages] == [text]
    assert finding(check_ends, log).startswith(text)


def test_end_of_a_segment_that_was_changed_is_reported_once(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", 6, segment_bytes=1)
    changed(log, "update events set chain = x'00' where seq = 3", 0)
    assert [one.record for one in verify(log).damages] == ["event 3"]


def test_damaged_index_of_a_segment_is_reported(tmp_path: Path) -> None:
    log = stored(tmp_path / "log", events(1, 3), [command(1), command(2), command(3)])
    damage_index(log)
    damage = verify(log).damages[0]
    assert damage.record == "file"
    assert damage.text.startswith("SQLite reports: ")
    assert finding(check_complete, log).startswith("file: SQLite reports: ")


def test_damaged_index_after_a_missing_segment_is_reported_as_well(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", 9, segment_bytes=1)
    _, second, _, empty = sorted(log.glob("*.refold"))
    second.unlink()
    empty.unlink()
    damage_index(log)
    assert [one.record for one in verify(log).damages[:2]] == ["header", "file"]


def test_first_segment_of_another_log_in_the_place_of_a_later_one_is_reported(
    tmp_path: Path,
) -> None:
    log = write_log(tmp_path / "log", 3, segment_bytes=1)
    other = LogWriter.create(tmp_path / "other", header(first_seq=4))
    other.append(events(4, 6), [command(4), command(5), command(6)])
    other.close()
    other.segment.replace(log / other.segment.name)
    assert [(one.record, one.text) for one in verify(log).damages] == [
        ("header", "has no predecessor: the file belongs to another log")
    ]
    assert finding(check_ends, log).startswith(
        "header: the end of the previous segment does not match: has no predecessor"
    )


def test_segment_after_a_closing_record_is_reported(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", 6, segment_bytes=1)
    closed = stored(
        tmp_path / "closed", events(1, 3), [command(1), command(2), command(3)], closed=True
    )
    [segment] = closed.glob("*.refold")
    segment.replace(log / segment.name)
    assert [(one.record, one.text) for one in verify(log).damages] == [
        ("header", "the segment before it has a closing record")
    ]
