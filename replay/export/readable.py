"""What a record's bytes say, as JSON that people can read and that gives the same bytes again.

A value of the core's or the world's types is an object with the names of its fields; one that has
a tag begins with "tag". Bytes are {"text": ...}, or {"base64": ...} where they are no UTF-8; maps
are {"map": ...}. What this version has no type for is plain msgpack, without names; what is no
msgpack is {"raw": ...}.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, Final

import msgspec

from controller.core.canonical import decode_command, decode_event, decode_reason
from replay.stock_clusters.imported_log import encoding as world

Decode = Callable[[bytes], Any]

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder().decode
_AS_THEY_ARE: Final = (int, str, bool, float, type(None))
_RAW, _TEXT, _BASE64, _MAP = "raw", "text", "base64", "map"


def readable_event(kind: str, payload: bytes) -> Any:
    """An event's payload."""
    return readable(payload, world.decode_event if kind in world.SCHEMAS else decode_event)


def readable_body(body: bytes) -> Any:
    """A command's body."""
    return readable(body, decode_command)


def readable_reason(reason: bytes) -> Any:
    """A command's reason."""
    return readable(reason, decode_reason)


def readable(stored: bytes, decode: Decode) -> Any:
    """The bytes as JSON; in the form with the most names that gives the same bytes again."""
    for attempt in (decode, _decode):
        try:
            value = _named(attempt(stored))
            if stored_bytes(value) == stored:
                return value
        except (ValueError, TypeError, OverflowError, RecursionError):
            # msgspec's own errors are ValueErrors: another version wrote it, or nobody's.
            continue
    return {_RAW: b64encode(stored).decode()}


def stored_bytes(value: Any) -> bytes:
    """The bytes that `readable` was given. Raises ValueError for what it never gives."""
    match value:
        case {"raw": str(raw)} if len(value) == 1:
            return b64decode(raw, validate=True)
        case _:
            return _encode(_unnamed(value))


def _named(value: Any) -> Any:
    if isinstance(value, _AS_THEY_ARE):
        return value
    if isinstance(value, (list, tuple)):
        return [one if isinstance(one, _AS_THEY_ARE) else _named(one) for one in value]
    if isinstance(value, bytes):
        try:
            return {_TEXT: value.decode()}
        except UnicodeDecodeError:
            return {_BASE64: b64encode(value).decode()}
    if isinstance(value, msgspec.Struct):
        config = value.__struct_config__
        named = {"tag": config.tag} if config.tag is not None else {}
        named |= {name: _named(getattr(value, name)) for name in value.__struct_fields__}
        return named if config.array_like else {_MAP: named}
    if isinstance(value, dict):
        return {_MAP: {key: _named(one) for key, one in value.items()}}
    raise TypeError(f"no form for a {type(value).__name__}")


def _unnamed(value: Any) -> Any:
    """Structures are stored as arrays, of their tag and their fields in their order."""
    if isinstance(value, _AS_THEY_ARE):
        return value
    if isinstance(value, list):
        return [one if isinstance(one, _AS_THEY_ARE) else _unnamed(one) for one in value]
    match value:
        case {"text": str(text)} if len(value) == 1:
            return text.encode()
        case {"base64": str(text)} if len(value) == 1:
            return b64decode(text, validate=True)
        case {"map": dict(of_map)} if len(value) == 1:
            return {key: _unnamed(one) for key, one in of_map.items()}
        case _:
            return [_unnamed(one) for one in value.values()]
