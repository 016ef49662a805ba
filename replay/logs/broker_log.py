"""Logs of brokers of the 0.8 design (docs/design-0.8.md). The configuration in the header names the
design; one log is one run of one broker."""

import msgspec

from controller.kafka_0_8.canonical import decode_broker_event
from controller.kafka_0_8.configuration import FIRST_RULES, KAFKA_0_8, BrokerConfiguration
from controller.kafka_0_8.events import RecordedBrokerEvent
from controller.kafka_0_8.fold import BrokerFold
from eventstore.reader import LogReader
from eventstore.records import EventRecord, Header
from replay.errors import ReplayError


def is_of_broker(header: Header) -> bool:
    """Whether the header says that a broker of the 0.8 design wrote the log."""
    return header.configuration.get("design") == KAFKA_0_8


def refuse_broker_log(header: Header) -> None:
    """Refuse a log that a broker of the 0.8 design wrote, and name the commands that read it.
    Raises ReplayError."""
    if is_of_broker(header):
        broker = header.configuration.get("broker_id")
        raise ReplayError(
            f"this is a log of broker {broker} of the 0.8 design, which this command does not read "
            "yet; `refold replay`, `log show`, `events`, `decisions`, `inspect` and `why` (one log "
            "at a time) read it. "
            "`refold decisions LOG --partition T-0` lists what was decided about a partition, and "
            "the rule of each decision (docs/design-0.8.md)"
        )


def broker_configuration_of(header: Header) -> BrokerConfiguration:
    """The configuration of a broker's fold. Raises ReplayError if it cannot be used."""
    try:
        found = {"rules": FIRST_RULES} | header.configuration
        return msgspec.convert(found, BrokerConfiguration)
    except msgspec.ValidationError as error:
        raise ReplayError(
            f"the configuration in the log's header cannot be used: {error}"
        ) from error


def broker_event(record: EventRecord) -> RecordedBrokerEvent:
    """An event of the log as the fold needs it. Raises ReplayError if it cannot be decoded."""
    try:
        event = decode_broker_event(record.payload)
    except msgspec.DecodeError as error:
        raise ReplayError(
            f"event {record.seq} ({record.kind}) cannot be decoded: {error}"
        ) from error
    times = (record.wall_ns, record.mono_ns)
    return RecordedBrokerEvent(record.seq, *times, record.term, record.channel, event)


def broker_fold_at_start(reader: LogReader) -> BrokerFold:
    """The fold before the first event. Raises ReplayError if the log does not begin with event 1:
    there are no snapshots of these folds."""
    first = reader.header.first_seq
    if first != 1:
        raise ReplayError(
            f"the log begins with event {first}: its earlier segments were removed, and logs of "
            "the 0.8 design have no snapshots"
        )
    return BrokerFold(broker_configuration_of(reader.header))
