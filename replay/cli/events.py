"""`refold events`: what was observed, in plain words."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from replay.cli.kinds import demand_kinds
from replay.cli.listing import (
    Broker,
    From,
    Json,
    Limit,
    Log,
    Partition,
    Term,
    To,
    Topic,
    Wanted,
    show,
)
from replay.listing import observed, recorded
from replay.listing.values import ListedEvent
from replay.logs.open_log import OpenedLog, RecordedLog
from replay.progress import Progress

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(name="events")
def events(
    log: Log,
    first: From = None,
    last: To = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Kind, as `refold log stats` names it; may be given again."),
    ] = None,
    topic: Topic = None,
    partition: Partition = None,
    broker: Broker = None,
    term: Term = None,
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """List what was observed, one event a line, in plain words: what changed, what was asked for,
    what came of each command. `refold log show` shows events as they are stored.

    Exit status: 0 done, 2 LOG cannot be used.
    """
    wanted = Wanted(
        first=first,
        last=last,
        kinds=kind or [],
        topic=topic,
        partition=partition,
        broker=broker,
        term=term,
        limit=limit,
    )
    show("events", log, wanted, _source, _line, demand=_demand, as_json=as_json)


def _demand(log: OpenedLog, kinds: Sequence[str]) -> None:
    demand_kinds(log.reader, kinds)


def _source(log: OpenedLog, first: int, last: int, progress: Progress) -> Iterator[ListedEvent]:
    if isinstance(log, RecordedLog):
        return (event for event, _ in recorded.listed(log, first, last, progress))
    return observed.events(log, first, last, progress)


def _line(one: ListedEvent) -> str:
    return f"{one.seq:>8}  {one.time}  term {one.term}  {one.text}"
