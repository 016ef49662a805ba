"""Checks the values of --kind."""

from collections.abc import Iterable, Sequence
from typing import Any, get_args

import typer

from controller.core.canonical import EVENT_SCHEMAS
from controller.core.commands import Command
from controller.kafka_0_8.canonical import BROKER_COMMANDS, BROKER_EVENT_SCHEMAS
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from replay.logs.broker_log import is_of_broker
from replay.logs.open_log import OpenedLog, RecordedLog
from replay.logs.opened_broker_log import BrokerLog
from replay.stock_clusters.imported_log.encoding import SCHEMAS
from replay.stock_clusters.imports.decisions import KINDS


def require_event_kinds(reader: LogReader, kinds: Sequence[str]) -> None:
    """Refuse a kind of event that neither this version nor the log has. Another version may have
    written the log.

    Raises typer.BadParameter, LogError.
    """
    schemas = SCHEMAS if reader.header.kind == "world-backed" else EVENT_SCHEMAS
    if is_of_broker(reader.header):
        schemas = BROKER_EVENT_SCHEMAS
    for kind in kinds:
        if kind in schemas or any(reader.events(EventFilter(kinds=(kind,)))):
            continue
        raise _unknown("event", kind, schemas)


def require_decision_kinds(log: OpenedLog | BrokerLog, kinds: Sequence[str]) -> None:
    """Refuse an unknown kind of decision: this version derives the decisions, so it knows all
    kinds.

    Raises typer.BadParameter.
    """
    commands: tuple[Any, ...] = get_args(Command)
    known = [one.__struct_config__.tag for one in commands]
    if isinstance(log, BrokerLog):
        known = list(BROKER_COMMANDS)
    elif not isinstance(log, RecordedLog):
        known = list(KINDS)
    for kind in kinds:
        if kind not in known:
            raise _unknown("decision", kind, known)


def _unknown(what: str, kind: str, known: Iterable[str]) -> typer.BadParameter:
    text = f"{kind!r} is not a kind of {what}; use one of: {', '.join(sorted(known))}"
    return typer.BadParameter(text, param_hint="--kind")
