"""Records of a log, one a line, for people."""

from typing import Any, Final

import msgspec

from eventstore.records import CommandRecord, EventRecord
from replay.description.as_json import payload_object, reason_object
from replay.times import iso_time

TEXT_CHARACTERS_MAX: Final = 1000
"""A line for people is cut here; JSON never is."""


def event_line(record: EventRecord) -> str:
    """An event on one line."""
    cause = f" <- {record.cause}" if record.cause is not None else ""
    head = (
        f"{record.seq:>8}  {iso_time(record.wall_ns)}  term {record.term}  "
        f"{record.kind}  {record.channel}{cause}  "
    )
    return _cut(head + json_text(payload_object(record)))


def command_line(record: CommandRecord) -> str:
    """A command on one line, indented below its event."""
    head = f"{record.cause:>10}.{record.ordinal}  {record.kind}  {record.target}  "
    return _cut(head + json_text(reason_object(record)))


def json_text(value: Any) -> str:
    """A value on one line of JSON."""
    return msgspec.json.encode(value).decode()


def _cut(line: str) -> str:
    return line if len(line) <= TEXT_CHARACTERS_MAX else f"{line[:TEXT_CHARACTERS_MAX]}..."
