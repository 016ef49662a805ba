"""The checksum chain: each record's hash covers the record and the hash of the previous one.

Events and commands have separate chains; both begin with the header. The chain detects accidents
and careless edits. It uses no key, so it does not protect against someone who recomputes it.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import msgspec

from eventstore.records import CommandRecord, EventRecord, Header, Tip

CHAIN_BYTES = 16

_encode = msgspec.msgpack.Encoder().encode
_new = tuple.__new__
"""Makes a record of its fields: faster than `NamedTuple._make`, for the loops below."""

Row = tuple[object, ...]
"""A record's fields in order, followed by its chain value."""


def link(previous: bytes, record: Row) -> bytes:
    """The chain value of a record that follows the chain value `previous`."""
    return blake2b(previous + _encode(record), digest_size=CHAIN_BYTES).digest()


def checksum(body: bytes) -> bytes:
    """The checksum of the stored body of a header, a closing record or a snapshot."""
    return blake2b(body, digest_size=CHAIN_BYTES).digest()


def start(header: Header, body: bytes) -> Tip:
    """The start of a segment's chains; `body` is the stored header."""
    before = header.predecessor
    return Tip(
        last_seq=header.first_seq - 1,
        commands=before.commands if before else 0,
        event_chain=blake2b(body, digest_size=CHAIN_BYTES, person=b"events").digest(),
        command_chain=blake2b(body, digest_size=CHAIN_BYTES, person=b"commands").digest(),
    )


def number_of(row: Row) -> int:
    """The number of a stored event."""
    seq = row[0]
    assert isinstance(seq, int), "the primary key"
    return seq


def value_of(row: Row) -> bytes:
    """The stored chain value of a row; a damaged row may have none."""
    value = row[-1]
    return value if isinstance(value, bytes) else b""


def event_fault(previous: bytes, expected: int, row: Row) -> str | None:
    """The defect of an event that should be number `expected` and follow the chain value
    `previous`; None if it has none.
    """
    seq = number_of(row)
    if seq != expected:
        return f"events {expected} to {seq - 1} are missing"
    if link(previous, row[:-1]) != row[-1]:
        return "it was changed, moved or inserted, or the previous one was"
    return None


def command_fault(previous: bytes, row: Row) -> str | None:
    """The defect of a command that should follow the chain value `previous`, as `event_fault`."""
    if link(previous, row[:-1]) != row[-1]:
        return "it was changed, moved or inserted, or the previous one was or is missing"
    return None


def sound_events(previous: bytes, expected: int, rows: Sequence[Row]) -> list[EventRecord]:
    """The first of these rows, up to the first one with a fault: the first one should be event
    number `expected` and follow the chain value `previous`. On the hot path of each fold."""
    found: list[EventRecord] = []
    for row in rows:
        event = _new(EventRecord, row[:-1])
        value = blake2b(previous + _encode(event), digest_size=CHAIN_BYTES).digest()
        if row[0] != expected or value != row[-1]:
            break
        found.append(event)
        previous, expected = value, expected + 1
    return found


def sound_commands(previous: bytes, rows: Sequence[Row]) -> list[CommandRecord]:
    """The first of these rows of commands, up to the first one with a fault: the first one should
    follow the chain value `previous`."""
    found: list[CommandRecord] = []
    for row in rows:
        command = _new(CommandRecord, row[:-1])
        value = blake2b(previous + _encode(command), digest_size=CHAIN_BYTES).digest()
        if value != row[-1]:
            break
        found.append(command)
        previous = value
    return found


def chained(
    previous: bytes, records: Iterable[EventRecord] | Iterable[CommandRecord]
) -> tuple[list[Row], bytes]:
    """The rows to store, and the last chain value. On the hot path of an append."""
    rows: list[Row] = []
    for record in records:
        previous = blake2b(previous + _encode(record), digest_size=CHAIN_BYTES).digest()
        rows.append((*record, previous))
    return rows, previous
