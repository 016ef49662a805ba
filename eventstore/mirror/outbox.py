"""The records of a log that are still to be published after a position."""

from collections.abc import Iterator
from heapq import merge
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from eventstore import folders, schema
from eventstore.chain import Row
from eventstore.errors import PUT_A_COPY, LogCorrupt
from eventstore.frames import (
    ClosingFrame,
    CommandRow,
    CommandsFrame,
    EventRow,
    EventsFrame,
    Frame,
    SegmentFrame,
)
from eventstore.segment import Segment, open_segment


class PublishedPosition(Struct, frozen=True, array_like=True):
    """How much of a log is published: all events up to `seq` of the segment that begins with
    event `segment`, and a number of its commands. `is_closed`: including the closing record."""

    segment: int
    seq: int
    commands: int = 0
    is_closed: bool = False

    @property
    def order(self) -> tuple[int, int, int, bool]:
        """For ordering positions in one log."""
        return self.segment, self.seq, self.commands, self.is_closed


class Message(Struct, frozen=True):
    """One record to publish, and the position after it. `wall_ms` is the time of observation."""

    frame: Frame
    at: PublishedPosition
    wall_ms: int


encode_position: Final = msgspec.msgpack.Encoder().encode
decode_position: Final = msgspec.msgpack.Decoder(PublishedPosition).decode
"""Raises msgspec.MsgspecError."""

T = TypeVar("T")

_EVENT, _COMMAND = 0, 1
_order: Final = itemgetter(0, 1)


def next_messages(log: Path, at: PublishedPosition | None) -> list[Message]:
    """The next records, at most one page of each table; empty if all are published.

    If the segment of the position was removed, continue with the next one. Raises the errors of
    reading.
    """
    segments = folders.segments_in(log)
    if at is None:
        return _header_messages(segments[0]) if segments else []
    if at.is_closed:
        return []
    # Looked up first, since no record is added to a segment that has a successor.
    following = next((one for one in segments if folders.first_seq_of(one) > at.segment), None)
    path = folders.segment_path(log, at.segment)
    if path in segments:
        with open_segment(path) as segment:
            found = list(_of_segment(segment, at))
        if found:
            return found
    return _header_messages(following) if following is not None else []


def matches_log(log: Path, record: Frame, at: PublishedPosition) -> bool:
    """Whether a published record belongs to the log, by its chain value; true if the log no
    longer contains it. Raises the errors of reading."""
    path = folders.segment_path(log, at.segment)
    if path not in folders.segments_in(log):
        return True
    with open_segment(path) as segment:
        match record:
            case SegmentFrame(header=header):
                return header == segment.header_body
            case EventsFrame(rows=[row]):
                return segment.event_page(at.seq - 1)[:1] == [row]
            case CommandsFrame(rows=[row]):
                return segment.command_page(at.commands - 1)[:1] == [row]
            case ClosingFrame(body=body):
                return segment.closing is not None and schema.document(segment.closing) == body
    return False


def _header_messages(path: Path) -> list[Message]:
    with open_segment(path) as segment:
        header = segment.header
        frame = SegmentFrame(header.format, segment.header_body)
        at = PublishedPosition(header.first_seq, header.first_seq - 1)
        return [Message(frame, at, header.created_ns // 1_000_000)]


def _of_segment(segment: Segment, at: PublishedPosition) -> Iterator[Message]:
    """Events, each followed by the commands that it caused, and finally the closing record.

    The closing record is read first. The events end where the log ended before the commands were
    read, or with a page of commands. So each event follows all commands that it may answer.
    """
    closing, end = segment.closing, segment.last_seq()
    commands = _typed_rows(segment, segment.command_page(at.commands), list[CommandRow])
    if commands and segment.command_count() > at.commands + len(commands):
        end = min(end, commands[-1][0])
    page = _typed_rows(segment, segment.event_page(at.seq), list[EventRow])
    events = [row for row in page if row[0] <= end]
    wall_ms = _wall_ms(segment, at.seq)
    last = events[-1][0] if events else at.seq
    caused = ((row[0], _COMMAND, row) for row in commands if row[0] <= last)
    observed = ((row[0], _EVENT, row) for row in events)
    both: Iterator[tuple[int, int, Any]] = merge(observed, caused, key=_order)
    for number, kind, row in both:
        if kind == _EVENT:
            at, wall_ms = PublishedPosition(at.segment, number, at.commands), row[1] // 1_000_000
            yield Message(EventsFrame([row]), at, wall_ms)
        else:
            at = PublishedPosition(at.segment, at.seq, at.commands + 1)
            yield Message(CommandsFrame([row]), at, wall_ms)
    if closing and not events and not commands:
        at = PublishedPosition(at.segment, at.seq, at.commands, is_closed=True)
        frame = ClosingFrame(schema.document(closing))
        yield Message(frame, at, closing.closed_ns // 1_000_000)


def _wall_ms(segment: Segment, seq: int) -> int:
    """The time of an event; that of the segment's creation if the segment does not contain it."""
    rows = segment.query(f"select wall_ns from events where seq = {seq}")
    wall_ns: int = rows[0][0] if rows else segment.header.created_ns
    return wall_ns // 1_000_000


def _typed_rows(segment: Segment, rows: list[Row], rows_type: type[T]) -> T:
    try:
        return msgspec.convert(rows, rows_type)
    except msgspec.ValidationError as error:
        raise LogCorrupt(segment.path, f"{error}: {PUT_A_COPY}", "a row") from None
