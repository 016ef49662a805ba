"""Converts the events and commands of a core to log records, and records to them.

Both cores are here: the controller's, and that of a broker of the 0.8 design (docs/design-0.8.md).
A kind that both have is the same in both.
"""

from typing import Any, Final

from controller.core.canonical import (
    EVENT_SCHEMAS,
    cause_of,
    decode_command,
    decode_event,
    digest,
    encode_event,
    encode_in_chunks,
    encode_reason,
    kind_of,
)
from controller.core.commands import Command, Issued, target_of
from controller.core.events import Event, Recorded
from controller.kafka_0_8.canonical import (
    BROKER_COMMANDS,
    BROKER_EVENT_SCHEMAS,
    decode_broker_command,
    decode_broker_event,
)
from controller.kafka_0_8.commands import BrokerCommand, IssuedByBroker
from controller.kafka_0_8.commands import target_of as broker_target_of
from controller.kafka_0_8.events import BrokerEvent, RecordedBrokerEvent
from eventstore.records import BODY_BYTES_MAX, CommandRecord, EventRecord

ALL_EVENT_SCHEMAS: Final = {**BROKER_EVENT_SCHEMAS, **EVENT_SCHEMAS}
"""Every kind of event of both cores, with the version of its fields."""


def event_record(recorded: Recorded | RecordedBrokerEvent) -> EventRecord:
    """The log record of an event."""
    event = recorded.event
    kind, cause = kind_of(event), cause_of(event)
    return EventRecord(
        recorded.seq,
        recorded.wall_ns,
        recorded.mono_ns,
        recorded.term,
        kind,
        ALL_EVENT_SCHEMAS[kind],
        recorded.channel,
        "exogenous" if cause is None else "reply",
        cause,
        encode_event(event),
    )


def command_record(issued: Issued | IssuedByBroker) -> CommandRecord:
    """The log record of a command: its digest, and its body if that is small."""
    (cause, ordinal), term, command, reason = issued
    chunks = encode_in_chunks(command)
    is_small = sum(map(len, chunks)) <= BODY_BYTES_MAX
    return CommandRecord(
        cause,
        ordinal,
        term,
        kind_of(command),
        target_of_issued(issued),
        encode_reason(reason),
        digest(*chunks),
        b"".join(chunks) if is_small else None,
    )


def target_of_issued(issued: Issued | IssuedByBroker) -> str:
    """The target of a command: a path, a broker, a partition, a timer."""
    if isinstance(issued, IssuedByBroker):
        return broker_target_of(issued.command)
    return target_of(issued.command)


def decode_stored_event(kind: str, payload: bytes) -> Event | BrokerEvent:
    """The event of a record. Raises msgspec.DecodeError."""
    if kind not in EVENT_SCHEMAS and kind in BROKER_EVENT_SCHEMAS:
        return decode_broker_event(payload)
    return decode_event(payload)


def decode_stored_command(kind: str, body: bytes) -> Command | BrokerCommand:
    """The command of a record. Raises msgspec.DecodeError."""
    decode: Any = decode_broker_command if kind in BROKER_COMMANDS else decode_command
    command: Command | BrokerCommand = decode(body)
    return command
