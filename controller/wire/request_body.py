"""Reads the body of a request sequentially. Pure.

Hand-coded because kio cannot skip tagged fields of later versions and accepts nulls where Kafka
does not.
"""

from collections.abc import Callable
from struct import Struct
from typing import TypeVar

from controller.wire.primitives import NO_TOPIC_ID
from controller.wire.reading import after_tags, unsigned_varint

T = TypeVar("T")

_int8 = Struct(">b").unpack_from
_int16 = Struct(">h").unpack_from
_int32 = Struct(">i").unpack_from
_each_int32 = Struct(">i").iter_unpack


class RequestBody:
    """Reads the fields of a body one after the other.

    Every method raises one of `UNREADABLE` if the bytes are not such a field. In a `flexible`
    version types are compact, and the tagged fields at the end of every structure are skipped. All
    arrays together may have `entries_max` entries, since a few bytes can declare many entries, each
    of which takes much more memory.
    """

    def __init__(self, frame: bytes, at: int, *, flexible: bool, entries_max: int) -> None:
        self._frame = frame
        self._at = at
        self._entries_left = entries_max
        self._flexible = flexible

    def int8(self) -> int:
        """A signed 8-bit integer."""
        (value,) = _int8(self._frame, self._advance_position(1))
        return int(value)

    def int16(self) -> int:
        """A signed 16-bit integer."""
        (value,) = _int16(self._frame, self._advance_position(2))
        return int(value)

    def int32(self) -> int:
        """A signed 32-bit integer."""
        (value,) = _int32(self._frame, self._advance_position(4))
        return int(value)

    def boolean(self) -> bool:
        """False for zero, otherwise true."""
        return self.int8() != 0

    def topic_id(self) -> bytes | None:
        """16 bytes; None for zeros, which mean no id."""
        found = self._bytes(16)
        return None if found == NO_TOPIC_ID else found

    def string(self) -> str:
        """A string that must not be null."""
        return _not_null(self.nullable_string())

    def nullable_string(self) -> str | None:
        """A string, or None."""
        length = self._varint() - 1 if self._flexible else self.int16()
        return None if length < 0 else self._bytes(length).decode()

    def octets(self) -> bytes:
        """Bytes that must not be null."""
        length = self._varint() - 1 if self._flexible else self.int32()
        return _not_null(None if length < 0 else self._bytes(length))

    def int32s(self) -> tuple[int, ...]:
        """An array of 32-bit integers that must not be null."""
        return _not_null(self.nullable_int32s())

    def nullable_int32s(self) -> tuple[int, ...] | None:
        """An array of 32-bit integers, or None."""
        count = self._count()
        if count is None:
            return None
        numbers = memoryview(self._bytes(4 * count))
        return tuple(one for (one,) in _each_int32(numbers))

    def strings(self) -> list[str]:
        """An array of strings that must not be null."""
        return [self.string() for _ in range(_not_null(self._count()))]

    def structures(self, read: Callable[[], T]) -> list[T]:
        """An array of structures that must not be null; `read` reads the fields of one."""
        return _not_null(self.nullable_structures(read))

    def nullable_structures(self, read: Callable[[], T]) -> list[T] | None:
        """An array of structures, or None."""
        count = self._count()
        if count is None:
            return None
        found = []
        for _ in range(count):
            found.append(read())
            self._end_structure()
        return found

    def end(self) -> None:
        """End the body; bytes after it are ignored, as in Kafka."""
        self._end_structure()
        if self._at > len(self._frame):
            raise ValueError("it ends early")

    def _end_structure(self) -> None:
        if self._flexible:
            self._at = after_tags(self._frame, self._at)

    def _count(self) -> int | None:
        count = self._varint() - 1 if self._flexible else self.int32()
        if count < 0:
            return None
        self._entries_left -= count
        if self._entries_left < 0:
            raise ValueError("it has too many entries")
        return count

    def _varint(self) -> int:
        value, self._at = unsigned_varint(self._frame, self._at)
        return value

    def _bytes(self, count: int) -> bytes:
        at = self._advance_position(count)
        if self._at > len(self._frame):
            raise ValueError("it ends early")
        return self._frame[at : self._at]

    def _advance_position(self, count: int) -> int:
        """Return the current position and advance it by `count`."""
        at = self._at
        self._at += count
        return at


def _not_null(value: T | None) -> T:
    if value is None:
        raise ValueError("a string or an array is null")
    return value
