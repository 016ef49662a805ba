"""The order in which records are published, without a broker."""

from pathlib import Path

import pytest

from eventstore.frames import CommandsFrame, EventsFrame, SegmentFrame, receiving
from eventstore.mirror.outbox import Message, PublishedPosition, matches_log, next_messages
from eventstore.reader import LogReader
from eventstore.verify import verify
from eventstore.writer import LogWriter
from tests.eventstore.samples import command, event, events, header, write_log

pytestmark = pytest.mark.slow


def outbox(log: Path) -> list[Message]:
    """All records, as a mirror requests them."""
    found: list[Message] = []
    while batch := next_messages(log, found[-1].at if found else None):
        found += batch
    return found


def test_every_record_is_published_once_and_an_event_before_its_commands(tmp_path: Path) -> None:
    log = write_log(tmp_path / "run-1", 3000, segment_bytes=1 << 18)
    found = outbox(log)
    with receiving(tmp_path / "copy", "the outbox") as receiver:
        (tmp_path / "copy").mkdir()
        for one in found:
            receiver.add(one.frame)
    assert verify(tmp_path / "copy") == verify(log)
    assert list(LogReader(tmp_path / "copy").records()) == list(LogReader(log).records())
    assert len(LogReader(log).segments) > 1
    seen: set[int] = set()
    for one in found:
        if isinstance(one.frame, EventsFrame):
            seen.add(one.frame.rows[0][0])
        elif isinstance(one.frame, CommandsFrame):
            assert one.frame.rows[0][0] in seen
    assert found[-1].at.is_closed
    assert next_messages(log, found[-1].at) == []


def test_publishing_continues_from_any_record(tmp_path: Path) -> None:
    log = write_log(tmp_path / "run-1", 30, segment_bytes=1)
    found = outbox(log)
    for number, one in enumerate(found):
        following = next_messages(log, one.at)
        assert following == found[number + 1 : number + 1 + len(following)]
        assert following or number == len(found) - 1


def test_commands_stored_later_are_published(tmp_path: Path) -> None:
    with LogWriter.create(tmp_path / "run-1", header()) as writer:
        writer.append(events(1, 2), [command(1)])
        first = outbox(tmp_path / "run-1")
        writer.append([], [command(2), command(2, 1)])
        later = next_messages(tmp_path / "run-1", first[-1].at)
    assert [one.at.commands for one in later] == [2, 3]
    assert [one.wall_ms for one in first[1:]] == [event(seq).wall_ns // 10**6 for seq in (1, 1, 2)]


def test_removed_segment_is_skipped(tmp_path: Path) -> None:
    log = write_log(tmp_path / "run-1", 9, segment_bytes=1)
    LogReader(log).segments[1].unlink()
    [following] = next_messages(log, PublishedPosition(1, 3, 3))
    assert isinstance(following.frame, SegmentFrame)
    assert following.at == PublishedPosition(7, 6)


def test_record_of_another_log_is_rejected(tmp_path: Path) -> None:
    here, there = write_log(tmp_path / "here", 5), write_log(tmp_path / "there", 5)
    other = tmp_path / "other"
    with LogWriter.create(other, header(cluster_id="YmFy")) as writer:
        writer.append(events(1, 5), [command(seq) for seq in range(1, 6)])
    for one in outbox(here)[:-1]:
        assert matches_log(there, one.frame, one.at)
        assert not matches_log(other, one.frame, one.at)
