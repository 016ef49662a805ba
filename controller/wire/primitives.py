"""Encodes Kafka's primitive types, in legacy form and in the flexible (compact) form of KIP-482."""

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct, pack

NO_TOPIC_ID = bytes(16)
"""The encoded topic id of a topic without an id."""

_ONE_BYTE = [bytes((value,)) for value in range(0x80)]
_int16 = Struct(">h").pack
_int32 = Struct(">i").pack


@dataclass(frozen=True, slots=True)
class Layout:
    """Encoders of the types whose form depends on the version.

    `tags` is the empty tagged-field section at the end of every structure in flexible versions.
    """

    name: str
    string: Callable[[str], bytes]
    nullable_string: Callable[[str | None], bytes]
    array_length: Callable[[int], bytes]
    tags: bytes


def unsigned_varint(value: int) -> bytes:
    """Seven bits per byte, the lowest first."""
    if value <= 0x7F:
        return _ONE_BYTE[value]
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def legacy_string(text: str) -> bytes:
    """A string with an int16 length."""
    encoded = text.encode()
    return _int16(len(encoded)) + encoded


def _legacy_nullable_string(text: str | None) -> bytes:
    return _int16(-1) if text is None else legacy_string(text)


def _compact_string(text: str) -> bytes:
    encoded = text.encode()
    return unsigned_varint(len(encoded) + 1) + encoded


def _compact_nullable_string(text: str | None) -> bytes:
    return b"\0" if text is None else _compact_string(text)


def _compact_array_length(length: int) -> bytes:
    return unsigned_varint(length + 1)


LEGACY = Layout("legacy", legacy_string, _legacy_nullable_string, _int32, b"")
FLEXIBLE = Layout(
    "flexible", _compact_string, _compact_nullable_string, _compact_array_length, b"\0"
)


class Int32s(dict[int, bytes]):
    """Encoded int32 values, cached: much faster than packing if few values differ."""

    def __missing__(self, value: int) -> bytes:
        encoded = self[value] = _int32(value)
        return encoded


class Int32Arrays(dict[tuple[int, ...], bytes]):
    """Encoded arrays of int32, cached: a cluster has few different replica lists."""

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        self._length = layout.array_length

    def __missing__(self, values: tuple[int, ...]) -> bytes:
        encoded = self._length(len(values)) + pack(f">{len(values)}i", *values)
        self[values] = encoded
        return encoded
