"""Records and values as JSON, in three forms.

For people and scripts (`event_object`, `command_object`): a value of the core's or an imported
log's types is an object with the names of its fields. If the type has a tag, the object begins with
"kind". Bytes are text, or 0x... in hex if they are not UTF-8.

For exports (`readable_...`): a form from which `stored_bytes` makes the same bytes again. The tag
is "tag"; bytes are {"text": ...}, or {"base64": ...} if they are not UTF-8; maps are {"map": ...}.
A value for which this version has no type is plain msgpack without names. Bytes that are not
msgpack are {"raw": ...}.

For comparison (`plain_object`): without tags. Bytes that are JSON are parsed; other bytes are text,
or hex if they are not printable.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from controller.core.canonical import decode_command, decode_reason
from controller.event_log.records import decode_stored_command, decode_stored_event
from eventstore.records import CommandRecord, EventRecord
from replay.stock_clusters.imported_log import encoding
from replay.times import iso_time

Decode = Callable[[bytes], Any]

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder().decode
_UNCHANGED: Final = (int, str, bool, float, type(None))
_RAW, _TEXT, _BASE64, _MAP = "raw", "text", "base64", "map"


def decoder_of(kind: str) -> Decode:
    """The decoder for the payload of events of a kind, of either kind of log."""
    if kind in encoding.SCHEMAS:
        return encoding.decode_event
    return partial(decode_stored_event, kind)


def json_text(value: Any) -> str:
    """A value as one line of JSON."""
    return msgspec.json.encode(value).decode()


# For people and scripts -------------------------------------------------------------------------


def event_object(record: EventRecord) -> dict[str, Any]:
    """An event as a JSON object, with its payload decoded if this version knows the kind."""
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
        "event": payload_object(record),
    }


def command_object(record: CommandRecord) -> dict[str, Any]:
    """A command as a JSON object; its body is null if it was too large to be stored."""
    return {
        "cause": record.cause,
        "ordinal": record.ordinal,
        "term": record.term,
        "kind": record.kind,
        "target": record.target,
        "reason": reason_object(record),
        "digest": record.digest.hex(),
        "body": None
        if record.body is None
        else _object(record.body, partial(decode_stored_command, record.kind)),
    }


def payload_object(record: EventRecord) -> Any:
    """The payload of an event."""
    return _object(record.payload, decoder_of(record.kind))


def reason_object(record: CommandRecord) -> Any:
    """The reason of a command."""
    return _object(record.reason, decode_reason)


def _object(content: bytes, decode: Decode) -> Any:
    """The content decoded by its type; otherwise as untyped msgpack; otherwise the bytes."""
    for attempt in (decode, _decode):
        try:
            return _with_names(attempt(content), _FOR_PEOPLE)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    return _with_names(content, _FOR_PEOPLE)


# For comparisons --------------------------------------------------------------------------------


def plain_object(value: Any) -> Any:
    """A value of the core's types as dicts by field name, lists, strings and numbers."""
    return _with_names(value, _PLAIN)


# For exports ------------------------------------------------------------------------------------


def readable_event(kind: str, payload: bytes) -> Any:
    """The payload of an event."""
    return readable(payload, decoder_of(kind))


def readable_body(body: bytes) -> Any:
    """The body of a command."""
    return readable(body, decode_command)


def readable_reason(reason: bytes) -> Any:
    """The reason of a command."""
    return readable(reason, decode_reason)


def readable(stored: bytes, decode: Decode) -> Any:
    """The bytes as JSON, with as many names as possible such that `stored_bytes` returns the same
    bytes."""
    for attempt in (decode, _decode):
        try:
            value = _with_names(attempt(stored), _EXACT)
            if stored_bytes(value) == stored:
                return value
        except (ValueError, TypeError, OverflowError, RecursionError):
            # msgspec's errors are ValueErrors: another version or another program wrote the bytes.
            continue
    return {_RAW: b64encode(stored).decode()}


def stored_bytes(value: Any) -> bytes:
    """The bytes from which `readable` made a value. Raises ValueError for any other value."""
    match value:
        case {"raw": str(raw)} if len(value) == 1:
            return b64decode(raw, validate=True)
        case _:
            return _encode(_without_names(value))


# Names for fields -------------------------------------------------------------------------------


class _Form(NamedTuple):
    """How to write a value for which JSON has no type, and the name of the tag (None: no tag)."""

    tag: str | None
    of_bytes: Callable[[bytes], Any]
    of_map: Callable[[dict[Any, Any]], Any]
    of_other: Callable[[Any], Any]


def _with_names(value: Any, form: _Form) -> Any:
    if isinstance(value, _UNCHANGED):
        return value
    if isinstance(value, (list, tuple)):
        return [one if isinstance(one, _UNCHANGED) else _with_names(one, form) for one in value]
    if isinstance(value, bytes):
        return form.of_bytes(value)
    if isinstance(value, msgspec.Struct):
        config = value.__struct_config__
        named = {form.tag: config.tag} if form.tag and config.tag is not None else {}
        named |= {name: _with_names(getattr(value, name), form) for name in value.__struct_fields__}
        return named if config.array_like else form.of_map(named)
    if isinstance(value, dict):
        return form.of_map({key: _with_names(one, form) for key, one in value.items()})
    return form.of_other(value)


def _shown_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"0x{value.hex()}"


def _exact_bytes(value: bytes) -> dict[str, str]:
    try:
        return {_TEXT: value.decode()}
    except UnicodeDecodeError:
        return {_BASE64: b64encode(value).decode()}


def _parsed_bytes(value: bytes) -> Any:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        # Such as a topic id, which may begin like JSON.
        return value.hex()
    if text[:1] in ("{", "["):
        try:
            return msgspec.json.decode(value)
        except msgspec.DecodeError:
            return text
    return text if text.isprintable() else value.hex()


def _refuse(value: Any) -> Any:
    raise TypeError(f"no form for a {type(value).__name__}")


_FOR_PEOPLE: Final[_Form] = _Form(
    "kind",
    _shown_bytes,
    lambda found: {str(_with_names(key, _FOR_PEOPLE)): one for key, one in found.items()},
    lambda value: value,
)
_PLAIN: Final[_Form] = _Form(
    None,
    _parsed_bytes,
    lambda found: {str(key): one for key, one in found.items()},
    lambda value: value,
)
_EXACT: Final[_Form] = _Form("tag", _exact_bytes, lambda found: {_MAP: found}, _refuse)


def _without_names(value: Any) -> Any:
    """The value without names. Structures become arrays of their tag and their fields, in order."""
    if isinstance(value, _UNCHANGED):
        return value
    if isinstance(value, list):
        return [one if isinstance(one, _UNCHANGED) else _without_names(one) for one in value]
    match value:
        case {"text": str(text)} if len(value) == 1:
            return text.encode()
        case {"base64": str(text)} if len(value) == 1:
            return b64decode(text, validate=True)
        case {"map": dict(of_map)} if len(value) == 1:
            return {key: _without_names(one) for key, one in of_map.items()}
        case _:
            return [_without_names(one) for one in value.values()]
