"""`refold events`: the events of a log, in words."""

from collections.abc import Iterator
from functools import partial

import typer

from controller.escaping import escape_unprintable
from replay.cli.kinds import unknown_event_kinds
from replay.cli.listing import (
    Broker,
    Filter,
    Limit,
    ListedLog,
    Partition,
    Question,
    Topic,
    place_of,
    print_list,
)
from replay.cli.options import FromPosition, JsonLines, Kind, ListedLogs, Term, ToPosition
from replay.cli.single_options import SingleOptions
from replay.index import listing as from_index
from replay.index.listing import IndexSelection
from replay.index.store import EventIndex
from replay.listing import broker as broker_log
from replay.listing import imported, recorded
from replay.listing.values import ListedEvent
from replay.logs.open_log import OpenedLog, RecordedLog
from replay.logs.opened_broker_log import BrokerLog
from replay.progress import Progress

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(name="events", cls=SingleOptions)
def events(
    log: ListedLogs,
    first: FromPosition = None,
    last: ToPosition = None,
    kind: Kind = None,
    topic: Topic = None,
    partition: Partition = None,
    broker: Broker = None,
    term: Term = None,
    limit: Limit = None,
    as_json: JsonLines = False,
) -> None:
    """List events in words, one per line: changes, requests, and the outcome of each command.
    `refold log show` shows events as they are stored.

    Exit status: 0 done, 2 LOG cannot be used, or has no such topic, partition or broker.
    """
    criteria = Filter(first, last, kind or [], topic, partition, broker, term, limit)
    question = Question(
        "events",
        criteria,
        _source,
        indexed=partial(_events_from_index, criteria.wanted)
        if criteria.wanted != IndexSelection()
        else None,
        unknown_kinds=unknown_event_kinds,
    )
    print_list(log, question, _line, as_json=as_json)


def _source(log: ListedLog, first: int, last: int, progress: Progress) -> Iterator[ListedEvent]:
    if isinstance(log, BrokerLog):
        return (event for event, _ in broker_log.events_and_decisions(log, first, last, progress))
    if isinstance(log, RecordedLog):
        return (event for event, _ in recorded.events_and_decisions(log, first, last, progress))
    return imported.events(log, first, last, progress)


def _events_from_index(
    wanted: IndexSelection,
    log: OpenedLog,
    index: EventIndex,
    first: int,
    last: int,
    progress: Progress,
) -> Iterator[ListedEvent]:
    return from_index.events(log, index, wanted, first, last, progress)


def _line(one: ListedEvent) -> str:
    return escape_unprintable(f"{place_of(one)}  {one.text}")
