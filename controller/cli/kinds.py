"""Which kinds of event may be asked for."""

from collections.abc import Sequence

import typer

from controller.core.canonical import EVENT_SCHEMAS
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from replay.world_log.encoding import SCHEMAS


def demand_kinds(reader: LogReader, kinds: Sequence[str]) -> None:
    """A kind that this version does not know is a slip, unless the log, of another one, has it.

    Raises typer.BadParameter, LogError.
    """
    schemas = SCHEMAS if reader.header.kind == "world-backed" else EVENT_SCHEMAS
    for kind in kinds:
        if kind in schemas or any(reader.events(EventFilter(kinds=(kind,)))):
            continue
        known = ", ".join(sorted(schemas))
        raise typer.BadParameter(f"no event is a {kind!r}; there are {known}", param_hint="--kind")
