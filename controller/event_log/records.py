"""Converts the core's events and commands to log records."""

from controller.core.canonical import (
    EVENT_SCHEMAS,
    cause_of,
    digest,
    encode_event,
    encode_in_chunks,
    encode_reason,
    kind_of,
)
from controller.core.commands import Issued, target_of
from controller.core.events import Recorded
from eventstore.records import BODY_BYTES_MAX, CommandRecord, EventRecord


def event_record(recorded: Recorded) -> EventRecord:
    """The log record of an event."""
    event = recorded.event
    kind, cause = kind_of(event), cause_of(event)
    return EventRecord(
        recorded.seq,
        recorded.wall_ns,
        recorded.mono_ns,
        recorded.term,
        kind,
        EVENT_SCHEMAS[kind],
        recorded.channel,
        "exogenous" if cause is None else "reply",
        cause,
        encode_event(event),
    )


def command_record(issued: Issued) -> CommandRecord:
    """The log record of a command: its digest, and its body if that is small."""
    chunks = encode_in_chunks(issued.command)
    return CommandRecord(
        issued.id.cause,
        issued.id.ordinal,
        issued.term,
        kind_of(issued.command),
        target_of(issued.command),
        encode_reason(issued.reason),
        digest(*chunks),
        b"".join(chunks) if sum(map(len, chunks)) <= BODY_BYTES_MAX else None,
    )
