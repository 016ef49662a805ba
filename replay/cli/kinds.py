"""Which kinds of event and decision may be asked for."""

from collections.abc import Iterable, Sequence
from typing import Any, get_args

import typer

from controller.core.canonical import EVENT_SCHEMAS
from controller.core.commands import Command
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from replay.logs.open_log import OpenedLog, RecordedLog
from replay.stock_clusters.imported_log.encoding import SCHEMAS
from replay.stock_clusters.imports.decisions import KINDS


def demand_kinds(reader: LogReader, kinds: Sequence[str]) -> None:
    """A kind that this version does not know is a slip, unless the log, of another one, has it.

    Raises typer.BadParameter, LogError.
    """
    schemas = SCHEMAS if reader.header.kind == "world-backed" else EVENT_SCHEMAS
    for kind in kinds:
        if kind in schemas or any(reader.events(EventFilter(kinds=(kind,)))):
            continue
        raise _unknown("event", kind, schemas)


def demand_decisions(log: OpenedLog, kinds: Sequence[str]) -> None:
    """Decisions are derived by this version: it knows all kinds. Raises typer.BadParameter."""
    commands: tuple[Any, ...] = get_args(Command)
    known = [one.__struct_config__.tag for one in commands]
    if not isinstance(log, RecordedLog):
        known = list(KINDS)
    for kind in kinds:
        if kind not in known:
            raise _unknown("decision", kind, known)


def _unknown(what: str, kind: str, known: Iterable[str]) -> typer.BadParameter:
    text = f"no {what} is a {kind!r}; there are {', '.join(sorted(known))}"
    return typer.BadParameter(text, param_hint="--kind")
