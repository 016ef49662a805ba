"""The checksum chain: each record's hash covers the record and the hash of the one before it.

Events and commands have a chain each; both begin with the header. The chain finds accidents and
careless edits; it holds no key, so it is no proof against someone who computes it anew.
"""

from collections.abc import Iterable
from hashlib import blake2b

import msgspec

from eventstore.records import CommandRecord, EventRecord, Header, Tip

CHAIN_BYTES = 16

_encode = msgspec.msgpack.Encoder().encode

Row = tuple[object, ...]
"""A record's fields in order, with its chain value at the end."""


def link(previous: bytes, record: Row) -> bytes:
    """The chain value of a record (without one) that follows the value `previous`."""
    return blake2b(previous + _encode(record), digest_size=CHAIN_BYTES).digest()


def checksum(body: bytes) -> bytes:
    """The checksum of a header's or closing record's stored body."""
    return blake2b(body, digest_size=CHAIN_BYTES).digest()


def start(header: Header, body: bytes) -> Tip:
    """Where the chains of a segment begin; `body` is the header as it is stored."""
    before = header.predecessor
    return Tip(
        last_seq=header.first_seq - 1,
        commands=before.commands if before else 0,
        event_chain=blake2b(body, digest_size=CHAIN_BYTES, person=b"events").digest(),
        command_chain=blake2b(body, digest_size=CHAIN_BYTES, person=b"commands").digest(),
    )


def chained(
    previous: bytes, records: Iterable[EventRecord] | Iterable[CommandRecord]
) -> tuple[list[Row], bytes]:
    """The rows to store, and the chain value of the last one. On the hot path of an append."""
    rows: list[Row] = []
    for record in records:
        previous = blake2b(previous + _encode(record), digest_size=CHAIN_BYTES).digest()
        rows.append((*record, previous))
    return rows, previous
