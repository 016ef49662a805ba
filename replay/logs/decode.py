"""Decodes the records of a recorded log into values of the core."""

from collections.abc import Iterator

import msgspec

from controller.core.canonical import decode_event
from controller.core.configuration import Configuration
from controller.core.errors import ConfigurationError
from controller.core.events import Recorded
from controller.event_log.records import ALL_EVENT_SCHEMAS
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from eventstore.records import CommandRecord, EventRecord, Header
from eventstore.upcasters import Upcasters
from replay.errors import ReplayError
from replay.logs.broker_log import refuse_broker_log
from replay.logs.older_events import SETTINGS_OF_OLDER_LOGS, UPCASTS
from replay.stock_clusters.imported_log.encoding import SCHEMAS
from replay.times import iso_time

UPCASTERS = Upcasters({**ALL_EVENT_SCHEMAS, **SCHEMAS}, UPCASTS)
"""Converts the events of older versions of refold, in either kind of log, to current ones."""


def require_recorded(header: Header) -> None:
    """Check that refold's daemon wrote the log. Raises ReplayError, which names the commands for
    others."""
    if header.kind != "recorded":
        raise ReplayError(
            "this is a recording of a stock cluster, or an imported log: it has no decisions of "
            "refold to fold again. "
            "`refold agree` compares the stock controller's decisions with derived ones, and "
            "`refold log show` without --format shows the records"
        )


def configuration_of(header: Header) -> Configuration:
    """The configuration of a log's fold. Raises ReplayError if it cannot be used."""
    refuse_broker_log(header)
    try:
        settings = SETTINGS_OF_OLDER_LOGS | header.configuration
        configuration = msgspec.convert(settings, Configuration)
        configuration.protocol  # noqa: B018 - parsed here, so that the error is raised here
    except (msgspec.ValidationError, ConfigurationError) as error:
        raise ReplayError(
            f"the configuration in the log's header cannot be used: {error}"
        ) from error
    return configuration


def decode_recorded(event: EventRecord) -> Recorded:
    """An event of the log as the fold needs it. Raises ReplayError if it cannot be decoded."""
    try:
        decoded = decode_event(event.payload)
    except msgspec.DecodeError as error:
        raise ReplayError(f"event {event.seq} ({event.kind}) cannot be decoded: {error}") from error
    return Recorded(event.seq, event.wall_ns, event.mono_ns, event.term, event.channel, decoded)


def time_of(reader: LogReader, seq: int) -> str:
    """The time of an event; "" if there is no such event."""
    wall_ns = wall_ns_of(reader, seq)
    return iso_time(wall_ns) if wall_ns else ""


def wall_ns_of(reader: LogReader, seq: int) -> int:
    """The wall-clock time of an event in ns; 0 if there is no such event."""
    found = next(reader.events(EventFilter(first_seq=seq, last_seq=seq)), None)
    return found.wall_ns if found is not None else 0


def records(reader: LogReader) -> Iterator[tuple[Recorded, list[CommandRecord]]]:
    """All events of a log, each with the commands that it caused."""
    for event, commands in reader.records():
        yield decode_recorded(event), commands
