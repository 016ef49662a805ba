"""Bytes to transactions, as SerializeUtils.deserializeTxn reads them.

A million of them must be read in seconds: a decoder takes the whole record and an offset, and
returns the value and the offset after it.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Final

from replay.stock_clusters.zookeeper_log.transactions import (
    OPEN_ACL,
    Acls,
    Check,
    CloseSession,
    Content,
    Create,
    CreateContainer,
    CreateSession,
    CreateTtl,
    Delete,
    Error,
    Multi,
    OpCode,
    Operation,
    SetAcl,
    SetData,
    Transaction,
    TreeDigest,
    ZooKeeperAcl,
)

_HEADER: Final = struct.Struct(">qiqqi")
_INT: Final = struct.Struct(">i")
_TWO_INTS: Final = struct.Struct(">ii")
_FLAG: Final = struct.Struct(">?")
_FLAG_AND_INT: Final = struct.Struct(">?i")
_INT_AND_LONG: Final = struct.Struct(">iq")

_OPEN_ACL_BYTES: Final = struct.pack(">iii5si6s", 1, 31, 5, b"world", 6, b"anyone")

_int = _INT.unpack_from


class MalformedError(Exception):
    """The bytes cannot be decoded; the text says why."""


def decode_transaction(record: bytes) -> Transaction:
    """Decode a record whose checksum is correct. Raises MalformedError."""
    try:
        session, cxid, zxid, time_ms, opcode = _HEADER.unpack_from(record)
        decoder = _DECODERS.get(opcode)
        if decoder is None:
            raise MalformedError(f"transactions of type {opcode} are unknown")
        content, at = decoder(record, _HEADER.size)
        # Servers also accept a transaction that is shorter than its record.
        if len(record) - at < _INT_AND_LONG.size:
            return Transaction(zxid, session, cxid, time_ms, opcode, content)
        digest = TreeDigest(*_INT_AND_LONG.unpack_from(record, at))
        return Transaction(zxid, session, cxid, time_ms, opcode, content, digest)
    except struct.error:
        raise MalformedError("the transaction is longer than its record") from None


def decode_buffer(record: bytes, at: int) -> tuple[bytes | None, int]:
    """Decode a `buffer`: a length and as many bytes."""
    (size,) = _int(record, at)
    at += 4
    if size == -1:
        return None, at
    end = at + size
    if size < 0 or end > len(record):
        raise MalformedError(f"a field of {size} bytes does not fit in the record")
    return record[at:end], end


def decode_string(record: bytes, at: int) -> tuple[str, int]:
    """Decode a `ustring` that is not null."""
    (size,) = _int(record, at)
    at += 4
    end = at + size
    if size < 0 or end > len(record):
        raise MalformedError(f"a name of {size} bytes does not fit in the record")
    # Java uses the same character for invalid UTF-8.
    return record[at:end].decode("utf-8", "replace"), end


def decode_acls(record: bytes, at: int) -> tuple[Acls, int]:
    """Decode a vector of ACLs; null counts as empty."""
    if record.startswith(_OPEN_ACL_BYTES, at):
        return OPEN_ACL, at + len(_OPEN_ACL_BYTES)
    count, at = _count(record, at)
    acls = []
    for _ in range(count):
        (perms,) = _int(record, at)
        scheme, at = decode_string(record, at + 4)
        name, at = decode_string(record, at)
        acls.append(ZooKeeperAcl(perms, scheme, name))
    return tuple(acls), at


def _count(record: bytes, at: int) -> tuple[int, int]:
    """Decode the number of items. A wrong number fails at the end of the record."""
    (count,) = _int(record, at)
    if count < -1:
        raise MalformedError(f"a list of {count} items")
    return max(count, 0), at + 4


def _new_znode(record: bytes, at: int) -> tuple[str, bytes | None, Acls, int]:
    """Decode the fields that every creation begins with."""
    path, at = decode_string(record, at)
    data, at = decode_buffer(record, at)
    acls, at = decode_acls(record, at)
    return path, data, acls, at


def _create(record: bytes, at: int) -> tuple[Create, int]:
    path, data, acls, at = _new_znode(record, at)
    is_ephemeral, parent_cversion = _FLAG_AND_INT.unpack_from(record, at)
    return Create(path, data, acls, is_ephemeral, parent_cversion), at + _FLAG_AND_INT.size


def _old_or_new_create(record: bytes, at: int) -> tuple[Create, int]:
    """Decode a creation, in the form of servers before 3.4 (CreateTxnV0) if the record ends
    early."""
    try:
        return _create(record, at)
    except struct.error:
        path, data, acls, at = _new_znode(record, at)
        (is_ephemeral,) = _FLAG.unpack_from(record, at)
        return Create(path, data, acls, is_ephemeral, -1), at + _FLAG.size


def _create_ttl(record: bytes, at: int) -> tuple[CreateTtl, int]:
    path, data, acls, at = _new_znode(record, at)
    parent_cversion, ttl_ms = _INT_AND_LONG.unpack_from(record, at)
    return CreateTtl(path, data, acls, parent_cversion, ttl_ms), at + _INT_AND_LONG.size


def _create_container(record: bytes, at: int) -> tuple[CreateContainer, int]:
    path, data, acls, at = _new_znode(record, at)
    return CreateContainer(path, data, acls, _int(record, at)[0]), at + 4


def _delete(record: bytes, at: int) -> tuple[Delete, int]:
    path, at = decode_string(record, at)
    return Delete(path), at


def _set_data(record: bytes, at: int) -> tuple[SetData, int]:
    path, at = decode_string(record, at)
    data, at = decode_buffer(record, at)
    return SetData(path, data, _int(record, at)[0]), at + 4


def _set_acl(record: bytes, at: int) -> tuple[SetAcl, int]:
    path, at = decode_string(record, at)
    acls, at = decode_acls(record, at)
    return SetAcl(path, acls, _int(record, at)[0]), at + 4


def _check(record: bytes, at: int) -> tuple[Check, int]:
    path, at = decode_string(record, at)
    return Check(path, _int(record, at)[0]), at + 4


def _error(record: bytes, at: int) -> tuple[Error, int]:
    return Error(_int(record, at)[0]), at + 4


def _create_session(record: bytes, at: int) -> tuple[CreateSession, int]:
    return CreateSession(_int(record, at)[0]), at + 4


def _close_session(record: bytes, at: int) -> tuple[CloseSession, int]:
    """Decode the paths. Older servers write none, and a digest may follow instead."""
    try:
        paths, end = _paths(record, at)
    except (MalformedError, struct.error):
        return CloseSession(None), at
    # A digest may read as two empty paths, which no znode has.
    return (CloseSession(paths), end) if all(paths) else (CloseSession(None), at)


def _paths(record: bytes, at: int) -> tuple[tuple[str, ...], int]:
    count, at = _count(record, at)
    paths = []
    for _ in range(count):
        path, at = decode_string(record, at)
        paths.append(path)
    return tuple(paths), at


def _multi(record: bytes, at: int) -> tuple[Multi, int]:
    count, at = _count(record, at)
    types, operations = [], []
    for _ in range(count):
        opcode, size = _TWO_INTS.unpack_from(record, at)
        decoder = _IN_MULTI.get(opcode)
        if decoder is None:
            raise MalformedError(f"operations of type {opcode} in a multi are unknown")
        at += _TWO_INTS.size
        operation, end = decoder(record, at)
        at += size
        if not end <= at <= len(record):
            raise MalformedError(f"an operation of {size} bytes does not fit in its multi")
        types.append(opcode)
        operations.append(operation)
    return Multi(tuple(types), tuple(operations)), at


_IN_MULTI: Final[Mapping[int, Callable[[bytes, int], tuple[Operation, int]]]] = {
    OpCode.CREATE: _create,
    OpCode.CREATE_2: _create,
    OpCode.CREATE_TTL: _create_ttl,
    OpCode.CREATE_CONTAINER: _create_container,
    OpCode.DELETE: _delete,
    OpCode.DELETE_CONTAINER: _delete,
    OpCode.SET_DATA: _set_data,
    OpCode.CHECK: _check,
    OpCode.ERROR: _error,
}

_DECODERS: Final[Mapping[int, Callable[[bytes, int], tuple[Content, int]]]] = {
    **_IN_MULTI,
    OpCode.CREATE: _old_or_new_create,
    OpCode.RECONFIG: _set_data,
    OpCode.SET_ACL: _set_acl,
    OpCode.MULTI: _multi,
    OpCode.CREATE_SESSION: _create_session,
    OpCode.CLOSE_SESSION: _close_session,
}
