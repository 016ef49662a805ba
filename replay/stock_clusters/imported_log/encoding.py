"""Encodes an imported log's events: msgpack in field order, like the core's events."""

from typing import Final, cast, get_args

import msgspec

from controller.core.canonical import decode_stored
from eventstore.records import EventRecord
from replay.errors import ReplayError
from replay.stock_clusters.imported_log.events import ImportedEvent

SCHEMAS: Final[dict[str, int]] = {
    tag: 1
    for tag in (
        "world_begun",
        "sessions_restored",
        "znodes_restored",
        "sessions_gone",
        "znodes_gone",
        "world_resumed",
        "transactions_missing",
        "import_ended",
        "transaction",
        "observed",
        "request_inferred",
        "controller_logged",
        "state_change_logged",
        "request_served",
    )
}
"""Every kind of event, with the schema version that this code writes and reads."""

encode_event: Final = msgspec.msgpack.Encoder().encode
"""Encode an event as the payload that the log stores."""

_decoder: Final[msgspec.msgpack.Decoder[ImportedEvent]] = msgspec.msgpack.Decoder(ImportedEvent)


_KINDS: Final[dict[type, str]] = {
    one: cast(str, one.__struct_config__.tag) for one in get_args(ImportedEvent)
}


def kind_of(event: ImportedEvent) -> str:
    """The kind that an event is stored under."""
    return _KINDS[type(event)]


def decode_event(payload: bytes) -> ImportedEvent:
    """Decode a payload. Raises msgspec.DecodeError."""
    return decode_stored(_decoder.decode, payload)


def event_of(record: EventRecord) -> ImportedEvent:
    """The event of a record in its current schema. Raises ReplayError."""
    try:
        return decode_event(record.payload)
    except msgspec.DecodeError as error:
        raise ReplayError(
            f"event {record.seq} ({record.kind}) cannot be decoded: {error}"
        ) from error
