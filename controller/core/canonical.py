"""The stored form of events and commands: msgpack in field order, and digests of commands.

The log stores these bytes and replay compares them: a change here changes every log. A tag names
a kind; the schema of an event is the version of its fields.
"""

import hashlib
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast, get_args

import msgspec

from controller.core.commands import (
    Command,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    Reason,
    UpdateMetadataRequest,
)
from controller.core.events import Event
from controller.core.prepared_topics import (
    JoinedEntries,
    PreparedPartitions,
    PreparedTopic,
    RequestEntries,
    TopicEntries,
)

_encoder = msgspec.msgpack.Encoder()
_event_decoder: msgspec.msgpack.Decoder[Event] = msgspec.msgpack.Decoder(Event)
_command_decoder: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(Command)
_reason_decoder: msgspec.msgpack.Decoder[Reason] = msgspec.msgpack.Decoder(Reason)

DIGEST_BYTES: Final = 16

_FORM: Final = "canonical"
_FEW_PARTITIONS: Final = 8

T = TypeVar("T")


def kind_of(value: msgspec.Struct | type[msgspec.Struct]) -> str:
    """The kind that an event or command is stored under."""
    return cast(str, value.__struct_config__.tag)


_LATER_SCHEMAS: Final = {"elect_leaders_received": 2}
"""Kinds whose fields have changed, with the present version. Others have version 1."""
EVENT_SCHEMAS: Final[dict[str, int]] = {
    kind: _LATER_SCHEMAS.get(kind, 1) for kind in map(kind_of, get_args(Event))
}
"""Every kind of event, with the version of its fields that this code writes and folds."""


def cause_of(event: msgspec.Struct) -> int | None:
    """The event whose command this one answers; None for an exogenous event."""
    command = getattr(event, "command", None)
    return command.cause if command is not None else None


def encode_event(event: msgspec.Struct) -> bytes:
    """The payload that the log stores."""
    return _encoder.encode(event)


def decode_event(payload: bytes) -> Event:
    """The event of a payload. Raises msgspec.DecodeError for anything else."""
    return decode_stored(_event_decoder.decode, payload)


def encode_command(command: msgspec.Struct) -> bytes:
    """A command's canonical body."""
    return b"".join(encode_in_chunks(command))


def encode_in_chunks(command: msgspec.Struct) -> list[bytes]:
    """A command's canonical body in chunks, of which other commands may share some."""
    if isinstance(command, (LeaderAndIsrRequest, UpdateMetadataRequest)):
        partitions = command.partitions
        # Sharing saves more than it costs if there are many partitions.
        if isinstance(partitions, RequestEntries) and len(partitions) > _FEW_PARTITIONS:
            return _encode_request(command, partitions)
    return [_encoder.encode(command)]


def _encode_request(
    command: LeaderAndIsrRequest | UpdateMetadataRequest, partitions: RequestEntries[Any]
) -> list[bytes]:
    """The canonical body of a request in chunks. The bytes of its partitions may be encoded
    already."""
    chunks = [_array_header(1 + len(command.__struct_fields__)), _encoder.encode(kind_of(command))]
    for field in command.__struct_fields__:
        if field == "partitions":
            chunks += (_array_header(len(partitions)), _all_entries(partitions))
        else:
            chunks.append(_encoder.encode(getattr(command, field)))
    return chunks


def _all_entries(partitions: RequestEntries[Any]) -> bytes:
    """All entries, without the header of an array. All UpdateMetadata requests of a batch have the
    same ones."""
    if partitions.canonical is None:
        if isinstance(partitions, JoinedEntries):
            partitions.canonical = b"".join(map(_entries, partitions.parts))
        else:
            partitions.canonical = _without_header(partitions)
    return partitions.canonical


def _without_header(entries: tuple[Any, ...]) -> bytes:
    return _encoder.encode(entries)[len(_array_header(len(entries))) :]


def _entries(part: TopicEntries[Any]) -> bytes:
    """The entries of a prepared topic, without the header of an array."""
    encoded = part.encoded.get(_FORM)
    if encoded is not None:
        return encoded
    if part.whole is None or not isinstance(part[0], LeaderAndIsrPartition):
        return _without_header(part)
    each = _encode_partitions(part.whole)
    return b"".join([each[place] for place in part.places])


def _encode_partitions(whole: PreparedPartitions) -> list[bytes]:
    """The LeaderAndIsr entries of a prepared topic: one is sent to all brokers with a replica."""
    each = whole.encoded.get(_FORM)
    if each is None:
        each = whole.encoded[_FORM] = list(map(_encoder.encode, whole.entries))
    return each


def encode_entries_ahead(prepared: PreparedTopic, *, for_all: bool) -> None:
    """Encode what is prepared of a topic as parts of canonical bodies. The entries of LeaderAndIsr
    are joined if it is `for_all` brokers."""
    parts: list[TopicEntries[Any]] = [prepared.update_metadata]
    if for_all:
        parts += prepared.leader_and_isr.values()
    elif prepared.update_metadata.whole is not None:
        _encode_partitions(prepared.update_metadata.whole)
    for part in parts:
        part.encoded[_FORM] = _entries(part)


def _array_header(length: int) -> bytes:
    """The header of a msgpack array."""
    if length < 1 << 4:
        return bytes([0x90 | length])
    if length < 1 << 16:
        return b"\xdc" + length.to_bytes(2, "big")
    return b"\xdd" + length.to_bytes(4, "big")


def decode_command(body: bytes) -> Command:
    """The command of a body. Raises msgspec.DecodeError for anything else."""
    return decode_stored(_command_decoder.decode, body)


def digest(body: bytes, *more: bytes) -> bytes:
    """The digest of a body, given whole or in chunks, which the log stores and replay compares."""
    hashed = hashlib.blake2b(body, digest_size=DIGEST_BYTES)
    for chunk in more:
        hashed.update(chunk)
    return hashed.digest()


def encode_reason(reason: Reason) -> bytes:
    """A reason as the log stores it."""
    return _encoder.encode(reason)


def decode_reason(data: bytes) -> Reason:
    """The reason of its stored form. Raises msgspec.DecodeError for anything else."""
    return decode_stored(_reason_decoder.decode, data)


def decode_stored(decode: Callable[[bytes], T], data: bytes) -> T:
    """The value of stored bytes. Raises msgspec.DecodeError for any bytes that `decode` rejects:
    msgspec itself raises other errors for text that is not UTF-8 and for deep nesting."""
    try:
        return decode(data)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from None
