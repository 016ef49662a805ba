"""Encodes transactions and znodes as a server does (SerializeUtils, FileTxnLog, FileSnap).

This was written from zookeeper.jute independently: it shares only values with the readers in
replay/stock_clusters/zookeeper_log.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import BinaryIO
from zlib import adler32

from replay.stock_clusters.zookeeper_log.snapshot_file import SnapshotDigest
from replay.stock_clusters.zookeeper_log.transactions import (
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
    SetAcl,
    SetData,
    Transaction,
)
from replay.znode_tree.paths import ROOT
from replay.znode_tree.tree import Znode

_NULL = struct.pack(">i", -1)


def log_header(dbid: int = 0) -> bytes:
    """The header of a transaction log."""
    return b"ZKLG" + struct.pack(">iq", 2, dbid)


def log_record(transaction: Transaction) -> bytes:
    """A transaction with its checksum, length and trailer."""
    body = encode_transaction(transaction)
    return struct.pack(">qi", adler32(body), len(body)) + body + b"B"


def write_log(stream: BinaryIO, transactions: Iterable[Transaction], preallocated: int = 0) -> None:
    """Write a complete log, padded with zeros to `preallocated` bytes."""
    written = stream.write(log_header())
    for transaction in transactions:
        written += stream.write(log_record(transaction))
    stream.write(bytes(max(0, preallocated - written)))


def encode_transaction(transaction: Transaction) -> bytes:
    """A transaction without checksum, length and trailer."""
    header = struct.pack(
        ">qiqqi",
        transaction.session,
        transaction.cxid,
        transaction.zxid,
        transaction.time_ms,
        transaction.type,
    )
    digest = transaction.digest
    tail = b"" if digest is None else struct.pack(">iq", digest.version, digest.value)
    return header + _content(transaction.content) + tail


def _content(content: Content) -> bytes:
    match content:
        case Create(path, data, acls, is_ephemeral, parent_cversion):
            tail = struct.pack(">?i", is_ephemeral, parent_cversion)
            return _string(path) + _buffer(data) + _acls(acls) + tail
        case CreateTtl(path, data, acls, parent_cversion, ttl_ms):
            tail = struct.pack(">iq", parent_cversion, ttl_ms)
            return _string(path) + _buffer(data) + _acls(acls) + tail
        case CreateContainer(path, data, acls, parent_cversion):
            return _string(path) + _buffer(data) + _acls(acls) + _int(parent_cversion)
        case Delete(path):
            return _string(path)
        case SetData(path, data, version):
            return _string(path) + _buffer(data) + _int(version)
        case SetAcl(path, acls, version):
            return _string(path) + _acls(acls) + _int(version)
        case Check(path, version):
            return _string(path) + _int(version)
        case Multi(types, operations):
            parts = zip(types, map(_content, operations), strict=True)
            return _int(len(types)) + b"".join(_int(one) + _buffer(body) for one, body in parts)
        case CreateSession(timeout_ms):
            return _int(timeout_ms)
        case CloseSession(paths):
            return b"" if paths is None else _int(len(paths)) + b"".join(map(_string, paths))
        case Error(code):
            return _int(code)


def write_snapshot(
    stream: BinaryIO,
    sessions: Mapping[int, int],
    acls: Mapping[int, Acls],
    znodes: Iterable[tuple[str, int, Znode]],
    *,
    digest: SnapshotDigest | None = None,
    last_zxid: int | None = None,
) -> None:
    """Write a complete snapshot: session timeouts in ms, ACLs by number, znodes with parents
    first."""
    parts = [b"ZKSN" + struct.pack(">iq", 2, -1), _int(len(sessions))]
    parts += [struct.pack(">qi", session, timeout_ms) for session, timeout_ms in sessions.items()]
    parts.append(_int(len(acls)))
    parts += [struct.pack(">q", number) + _acls(of_number) for number, of_number in acls.items()]
    parts += [_znode(path, number, znode) for path, number, znode in znodes]
    parts.append(_string(ROOT))
    body = _with_checksum(b"".join(parts))
    if digest is not None:
        body = _with_checksum(body + _digest(digest))
    if last_zxid is not None:
        body = _with_checksum(body + struct.pack(">q", last_zxid))
    stream.write(body)


def _digest(digest: SnapshotDigest) -> bytes:
    head = struct.pack(">qi", digest.zxid, digest.version)
    # The first version of the digest was text.
    return head + (
        _string(f"{digest.value:x}") if digest.version < 2 else struct.pack(">q", digest.value)
    )


def _with_checksum(body: bytes) -> bytes:
    return body + struct.pack(">q", adler32(body)) + _string("/")


def _znode(path: str, number: int, znode: Znode) -> bytes:
    stat = struct.pack(
        ">qqqqqiiiqq",
        number,
        znode.czxid,
        znode.mzxid,
        znode.ctime,
        znode.mtime,
        znode.version,
        znode.creations,
        znode.aversion,
        znode.owner,
        znode.pzxid,
    )
    return _string("" if path == ROOT else path) + _buffer(znode.data) + stat


def _int(number: int) -> bytes:
    return struct.pack(">i", number)


def _buffer(data: bytes | None) -> bytes:
    return _NULL if data is None else _int(len(data)) + data


def _string(text: str) -> bytes:
    return _buffer(text.encode())


def _acls(acls: Acls) -> bytes:
    parts = [_int(acl.perms) + _string(acl.scheme) + _string(acl.id) for acl in acls]
    return _int(len(acls)) + b"".join(parts)
