"""Records of a log as people and scripts read them."""

from collections.abc import Callable
from typing import Any

import msgspec

from controller.core.canonical import decode_command, decode_event, decode_reason
from eventstore.records import CommandRecord, EventRecord
from replay.stock_clusters.imported_log import encoding as world
from replay.times import iso_time

TEXT_CHARACTERS_MAX = 1000
"""A line for people is cut here; JSON never is."""


def event_object(record: EventRecord) -> dict[str, Any]:
    """An event as a JSON object; its payload decoded if this version knows it."""
    return {
        "seq": record.seq,
        "time": iso_time(record.wall_ns),
        "wall_ns": record.wall_ns,
        "mono_ns": record.mono_ns,
        "term": record.term,
        "kind": record.kind,
        "schema": record.schema,
        "channel": record.channel,
        "origin": record.origin,
        "cause": record.cause,
        "event": _payload(record),
    }


def command_object(record: CommandRecord) -> dict[str, Any]:
    """A command as a JSON object; its body is null where it was too large to be stored."""
    return {
        "cause": record.cause,
        "ordinal": record.ordinal,
        "term": record.term,
        "kind": record.kind,
        "target": record.target,
        "reason": _decoded(record.reason, decode_reason),
        "digest": record.digest.hex(),
        "body": None if record.body is None else _decoded(record.body, decode_command),
    }


def event_line(record: EventRecord) -> str:
    """An event on one line."""
    cause = f" <- {record.cause}" if record.cause is not None else ""
    head = (
        f"{record.seq:>8}  {iso_time(record.wall_ns)}  term {record.term}  "
        f"{record.kind}  {record.channel}{cause}  "
    )
    return _cut(head + json_text(_payload(record)))


def command_line(record: CommandRecord) -> str:
    """A command on one line, set off below its event."""
    head = f"{record.cause:>10}.{record.ordinal}  {record.kind}  {record.target}  "
    return _cut(head + json_text(_decoded(record.reason, decode_reason)))


def json_text(value: Any) -> str:
    """A value on one line of JSON."""
    return msgspec.json.encode(value).decode()


def plain(value: Any) -> Any:
    """A decoded value with the names of its fields, and its bytes as text, or in hex as 0x..."""
    match value:
        case msgspec.Struct():
            kind = value.__struct_config__.tag
            fields = {name: plain(getattr(value, name)) for name in value.__struct_fields__}
            return {"kind": kind, **fields} if kind else fields
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return f"0x{value.hex()}"
        case dict():
            return {str(plain(key)): plain(one) for key, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
        case _:
            return value


def _payload(record: EventRecord) -> Any:
    is_of_world = record.kind in world.SCHEMAS
    return _decoded(record.payload, world.decode_event if is_of_world else decode_event)


def _decoded(content: bytes, decode: Callable[[bytes], Any]) -> Any:
    """The content as this version knows it, or else as untyped msgpack, or else as it is."""
    for attempt in (decode, msgspec.msgpack.decode):
        try:
            return plain(attempt(content))
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    return plain(content)


def _cut(line: str) -> str:
    return line if len(line) <= TEXT_CHARACTERS_MAX else f"{line[:TEXT_CHARACTERS_MAX]}..."
