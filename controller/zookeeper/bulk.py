"""The wire format of bulk operations: reads in pages, writes in multis.

Hand-coded with struct, since a generic encoder costs ten times as much. Paths are bytes that
include the chroot. Bodies begin with the opcode. Replies are whole frames with their header.
"""

import struct
from collections.abc import Callable, Iterable
from typing import Final

from controller.core.operations import (
    OK,
    Check,
    Create,
    CreateSequential,
    Delete,
    SetData,
    WriteOperation,
)
from controller.core.values import ANY_VERSION
from controller.zookeeper.errors import MalformedReply
from controller.zookeeper.wire import HEADER_BYTES

CREATE: Final = 1
DELETE: Final = 2
EXISTS: Final = 3
GET_DATA: Final = 4
SET_DATA: Final = 5
GET_CHILDREN: Final = 8
CHECK: Final = 13
MULTI: Final = 14
MULTI_READ: Final = 22
REMOVE_WATCHES: Final = 18
ADD_WATCH: Final = 106

FAILED: Final = -1
"""The type of a failed operation's result in a multi."""

PERSISTENT: Final = 0
"""addWatch's mode for one znode; the watch remains after it has fired."""
PERSISTENT_RECURSIVE: Final = 1
"""addWatch's mode for a znode and everything below it."""
ANY_WATCH: Final = 3
"""removeWatches' type for all watches of a path."""

ITEM_OVERHEAD_BYTES: Final = 32
"""Upper bound for an operation in a multi, without its path, data and ACL."""

_INT = struct.Struct(">i")
_TWO_INTS = struct.Struct(">ii")
_RESULT = struct.Struct(">i?i")
_ITEM = struct.Struct(">i?ii")
_STAT = struct.Struct(">qq16xi8xq16x")
_EPHEMERAL = _INT.pack(1)
_LASTING = _INT.pack(0)
_LASTING_SEQUENTIAL = _INT.pack(2)
_EPHEMERAL_SEQUENTIAL = _INT.pack(3)
_END = _RESULT.pack(-1, True, -1)
_HEADS: Final = {
    opcode: _RESULT.pack(opcode, False, -1)
    for opcode in (CREATE, DELETE, GET_DATA, SET_DATA, CHECK)
}


class Columns:
    """Znodes as they were read, one list per property (see the core's `ZnodesRead`)."""

    __slots__ = ("czxids", "data", "errors", "mzxids", "owners", "versions")

    def __init__(self) -> None:
        self.errors: list[int] = []
        self.data: list[bytes | None] = []
        self.versions: list[int] = []
        self.czxids: list[int] = []
        self.mzxids: list[int] = []
        self.owners: list[int] = []

    def __len__(self) -> int:
        return len(self.errors)

    def add_errors(self, error: int, count: int = 1) -> None:
        """Append `count` znodes that could not be read."""
        self.errors += [error] * count
        self.data += [None] * count
        for column in (self.versions, self.czxids, self.mzxids, self.owners):
            column += [-1] * count


def read_request(opcode: int, path: bytes, watch: bool) -> bytes:
    """The body of getData, exists or getChildren; `watch` sets a one-shot watch."""
    return _TWO_INTS.pack(opcode, len(path)) + path + (b"\1" if watch else b"\0")


def add_watch_request(path: bytes) -> bytes:
    """The body of addWatch for a persistent watch that is not recursive."""
    return _TWO_INTS.pack(ADD_WATCH, len(path)) + path + _INT.pack(PERSISTENT)


def watch_subtree_request(path: bytes, *, ends: bool) -> bytes:
    """The body of addWatch for a recursive watch; if it `ends`, that of removeWatches."""
    opcode, mode = (REMOVE_WATCHES, ANY_WATCH) if ends else (ADD_WATCH, PERSISTENT_RECURSIVE)
    return _TWO_INTS.pack(opcode, len(path)) + path + _INT.pack(mode)


def multi_read_request(paths: Iterable[bytes]) -> bytes:
    """The body of multiRead: data and stat of each path, without watches."""
    parts = [_INT.pack(MULTI_READ)]
    head = _HEADS[GET_DATA]
    pack = _INT.pack
    for path in paths:
        parts += (head, pack(len(path)), path, b"\0")
    parts.append(_END)
    return b"".join(parts)


def multi_request(
    operations: Iterable[tuple[bytes, WriteOperation]],
    acl_of: Callable[[str], bytes],
    guard: tuple[bytes, int] | None,
) -> bytes:
    """The body of a multi: operations with their paths, after a check of `guard` if there is
    one. `acl_of`: the ACL of a znode to create."""
    parts = [_INT.pack(MULTI)]
    pack = _INT.pack
    if guard is not None:
        path, version = guard
        parts += (_HEADS[CHECK], pack(len(path)), path, pack(version))
    for path, operation in operations:
        match operation:
            case SetData(data=data, version=version):
                parts += (_HEADS[SET_DATA], pack(len(path)), path)
                parts += (pack(len(data)), data, pack(version))
            case Create(data=data, ephemeral=ephemeral):
                parts += (_HEADS[CREATE], pack(len(path)), path, pack(len(data)), data)
                parts += (acl_of(operation.path), _EPHEMERAL if ephemeral else _LASTING)
            case CreateSequential(data=data, ephemeral=ephemeral):
                parts += (_HEADS[CREATE], pack(len(path)), path, pack(len(data)), data)
                parts += (
                    acl_of(operation.path),
                    _EPHEMERAL_SEQUENTIAL if ephemeral else _LASTING_SEQUENTIAL,
                )
            case Delete(version=version):
                parts += (_HEADS[DELETE], pack(len(path)), path, pack(version))
            case Check(version=version):
                parts += (_HEADS[CHECK], pack(len(path)), path, pack(version))
    parts.append(_END)
    return b"".join(parts)


def read_stat(frame: bytes, columns: Columns) -> None:
    """Append the reply of exists to `columns`. Raises MalformedReply."""
    _append_stat(frame, HEADER_BYTES, None, columns)


def read_znode(frame: bytes, columns: Columns) -> None:
    """Append the reply of getData to `columns`. Raises MalformedReply."""
    try:
        (length,) = _INT.unpack_from(frame, HEADER_BYTES)
    except struct.error as error:
        raise MalformedReply(f"getData: {error}") from error
    start = HEADER_BYTES + 4
    end = start + max(length, 0)
    _append_stat(frame, end, frame[start:end] if length >= 0 else None, columns)


def _append_stat(frame: bytes, offset: int, data: bytes | None, columns: Columns) -> None:
    try:
        czxid, mzxid, version, owner = _STAT.unpack_from(frame, offset)
    except struct.error as error:
        raise MalformedReply(f"stat: {error}") from error
    columns.errors.append(OK)
    columns.data.append(data)
    columns.versions.append(version)
    columns.czxids.append(czxid)
    columns.mzxids.append(mzxid)
    columns.owners.append(owner)


def read_multi_read(frame: bytes, count: int, columns: Columns) -> None:
    """Append the `count` results of a multiRead to `columns`. Raises MalformedReply."""
    item, stat = _ITEM.unpack_from, _STAT.unpack_from
    add_error, add_data = columns.errors.append, columns.data.append
    add_version, add_czxid = columns.versions.append, columns.czxids.append
    add_mzxid, add_owner = columns.mzxids.append, columns.owners.append
    offset = HEADER_BYTES
    try:
        for _ in range(count):
            kind, done, _, value = item(frame, offset)
            offset += 13
            if kind == GET_DATA:
                if value >= 0:
                    end = offset + value
                    add_data(frame[offset:end])
                    offset = end
                else:
                    add_data(None)
                czxid, mzxid, version, owner = stat(frame, offset)
                offset += 68
                add_error(OK)
                add_version(version)
                add_czxid(czxid)
                add_mzxid(mzxid)
                add_owner(owner)
            elif kind == FAILED and not done:
                columns.add_errors(value)
            else:
                raise MalformedReply(f"multiRead: a result of type {kind}")
    except struct.error as error:
        raise MalformedReply(f"multiRead: {error}") from error


def read_multi(frame: bytes, count: int) -> tuple[list[int], list[int]]:
    """The `count` errors and new versions of a multi's operations. Raises MalformedReply."""
    errors: list[int] = []
    versions: list[int] = []
    offset = HEADER_BYTES
    try:
        for _ in range(count):
            kind, done, _ = _RESULT.unpack_from(frame, offset)
            offset += _RESULT.size
            error, version = OK, ANY_VERSION
            if kind == SET_DATA:
                version = _STAT.unpack_from(frame, offset)[2]
                offset += _STAT.size
            elif kind == CREATE:
                version = 0
                offset += 4 + _INT.unpack_from(frame, offset)[0]
            elif kind == FAILED and not done:
                (error,) = _INT.unpack_from(frame, offset)
                offset += 4
            elif kind not in (DELETE, CHECK):
                raise MalformedReply(f"multi: a result of type {kind}")
            errors.append(error)
            versions.append(version)
    except struct.error as error:
        raise MalformedReply(f"multi: {error}") from error
    return errors, versions
