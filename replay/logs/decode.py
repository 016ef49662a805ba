"""Reading a recorded log as the values of the core."""

from collections.abc import Iterator

import msgspec

from controller.core.canonical import EVENT_SCHEMAS, decode_event
from controller.core.configuration import Configuration
from controller.core.errors import ConfigurationError
from controller.core.events import Recorded
from eventstore.reader import LogReader
from eventstore.records import CommandRecord, EventRecord, Header
from eventstore.upcasters import Upcasters
from replay.errors import ReplayError
from replay.logs.older_events import UPCASTS
from replay.stock_clusters.imported_log.encoding import SCHEMAS

UPCASTERS = Upcasters({**EVENT_SCHEMAS, **SCHEMAS}, UPCASTS)
"""Takes the events of every older refold, of either kind of log, to those of this one."""


def demand_recorded(header: Header) -> None:
    """Raises ReplayError for a log whose outcomes are not recorded."""
    if header.kind != "recorded":
        raise ReplayError(
            "this is no recorded log but a world-backed one, of another controller: there is "
            "nothing of refold's own to fold again. `refold log show` without --format shows "
            "what is in it"
        )


def configuration_of(header: Header) -> Configuration:
    """What the fold of a log was configured with. Raises ReplayError."""
    try:
        configuration = msgspec.convert(header.configuration, Configuration)
        configuration.protocol  # noqa: B018 - parsed now, so that the error comes here
    except (msgspec.ValidationError, ConfigurationError) as error:
        raise ReplayError(
            f"the configuration in the log's header cannot be used: {error}"
        ) from error
    return configuration


def recorded(event: EventRecord) -> Recorded:
    """An event of the log as the fold takes it. Raises ReplayError."""
    try:
        decoded = decode_event(event.payload)
    except msgspec.DecodeError as error:
        raise ReplayError(f"event {event.seq} ({event.kind}) cannot be decoded: {error}") from error
    return Recorded(event.seq, event.wall_ns, event.mono_ns, event.term, event.channel, decoded)


def records(reader: LogReader) -> Iterator[tuple[Recorded, list[CommandRecord]]]:
    """All events of a log with the commands that each one caused."""
    for event, commands in reader.records():
        yield recorded(event), commands
