"""Reads Kafka's primitive types from bytes. Each function takes a position and returns the next
one.

All raise IndexError or struct.error if the bytes end too early. They raise ValueError for a length
that must not be null and for a varint that is too long. The next position may be beyond the end.
"""

from struct import error, unpack_from
from typing import Final

UNREADABLE: Final = (IndexError, ValueError, error)
"""Raised for bytes that do not have the expected form."""

_LAST_SHIFT: Final = 28
"""For the fifth byte: a 32-bit varint has at most five bytes."""


def unsigned_varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned varint and the position after it."""
    byte = data[at]
    value, shift = byte & 0x7F, 7
    while byte > 0x7F:
        if shift > _LAST_SHIFT:
            raise ValueError("a varint has more than 5 bytes")
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift += 7
    return value, at + 1


def after_tags(data: bytes, at: int) -> int:
    """The position after a section of tagged fields, which are skipped."""
    count, at = unsigned_varint(data, at)
    for _ in range(count):
        _, at = unsigned_varint(data, at)
        size, at = unsigned_varint(data, at)
        at += size
    return at


def array_length(data: bytes, at: int, flexible: bool) -> tuple[int, int]:
    """The length of an array and the position after it."""
    if flexible:
        length, at = unsigned_varint(data, at)
        return _not_null(length - 1), at
    return _not_null(unpack_from(">i", data, at)[0]), at + 4


def string_length(data: bytes, at: int, flexible: bool) -> tuple[int, int]:
    """The length of a string in bytes and the position after it."""
    if flexible:
        length, at = unsigned_varint(data, at)
        return _not_null(length - 1), at
    return _not_null(unpack_from(">h", data, at)[0]), at + 2


def _not_null(length: int) -> int:
    if length < 0:
        raise ValueError("a string or an array is null")
    return length
