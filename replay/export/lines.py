"""The layout of an exported log: JSON lines, one per record, in the order of the log.

Each segment has a "segment" line with its header, then its events, each before the commands that it
caused, then its closing record if there is one. If earlier segments were deleted, the snapshot at
the start of the log comes before the events. The last line is "end"; without it the file is cut.
"""

from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, structs

from eventstore.records import CommandRecord, EventRecord, Origin, Tip
from replay.description.as_json import (
    readable_body,
    readable_event,
    readable_reason,
    stored_bytes,
)

LAYOUT: Final = 1
"""The version of this layout that this code writes and reads."""


class SegmentLine(Struct, frozen=True, tag="segment", tag_field="record"):
    """The beginning of a segment. `header` is the stored text, with which the chain begins."""

    layout: int
    header: Raw


class SnapshotLine(Struct, frozen=True, tag="snapshot", tag_field="record"):
    """The state after event `seq` by the core `fingerprint`, as base64."""

    seq: int
    fingerprint: str
    state: bytes


class EventLine(Struct, frozen=True, tag="event", tag_field="record"):
    """An event (eventstore.records.EventRecord). `event` is its payload as JSON."""

    seq: int
    wall_ns: int
    mono_ns: int
    term: int
    kind: str
    schema: int
    channel: str
    origin: Origin
    cause: int | None
    event: Any


class CommandLine(Struct, frozen=True, tag="command", tag_field="record"):
    """A command (eventstore.records.CommandRecord). `digest` is in hex; `body` is null if it was
    too large to be stored."""

    cause: int
    ordinal: int
    term: int
    kind: str
    target: str
    digest: str
    reason: Any
    body: Any


class ClosingLine(Struct, frozen=True, tag="closing", tag_field="record"):
    """The stored closing record."""

    closing: Raw


class EndLine(Struct, frozen=True, tag="end", tag_field="record"):
    """The end of the last segment, with its checksum chains in hex."""

    last_seq: int
    commands: int
    event_chain: str
    command_chain: str


Line = SegmentLine | SnapshotLine | EventLine | CommandLine | ClosingLine | EndLine

_encode: Final = msgspec.json.Encoder().encode
_decoder: Final[msgspec.json.Decoder[Line]] = msgspec.json.Decoder(Line)


def line_bytes(line: Line) -> bytes:
    """A line with its newline."""
    return _encode(line) + b"\n"


def read_line(text: bytes) -> Line:
    """Parse a line. Raises msgspec.DecodeError."""
    return _decoder.decode(text)


def event_line(record: EventRecord) -> EventLine:
    """An event as a line."""
    return EventLine(*record[:-1], readable_event(record.kind, record.payload))


def event_record(line: EventLine) -> EventRecord:
    """The event of a line. Raises ValueError."""
    *fields, event = structs.astuple(line)
    return EventRecord._make((*fields, stored_bytes(event)))


def command_line(record: CommandRecord) -> CommandLine:
    """A command as a line."""
    return CommandLine(
        *record[:5],
        record.digest.hex(),
        readable_reason(record.reason),
        None if record.body is None else readable_body(record.body),
    )


def command_record(line: CommandLine) -> CommandRecord:
    """The command of a line. Raises ValueError."""
    *fields, digest, reason, body = structs.astuple(line)
    stored_body = None if body is None else stored_bytes(body)
    return CommandRecord._make((*fields, stored_bytes(reason), bytes.fromhex(digest), stored_body))


def end_line(tip: Tip) -> EndLine:
    """The last line of a log that ends at `tip`."""
    return EndLine(tip.last_seq, tip.commands, tip.event_chain.hex(), tip.command_chain.hex())
