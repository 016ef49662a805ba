"""The common part of `refold events` and `refold decisions`: filter a log and print a line per
item."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, islice
from typing import Annotated, Protocol, TypeVar

import msgspec
import typer

from eventstore.reader import LogReader
from replay.cli.exit_status import errors_in_one_line
from replay.cli.log_notes import note_changed_commands
from replay.cli.options import log_positions, named_partition
from replay.cli.progress import progress
from replay.description.as_json import json_text
from replay.index.listing import Wanted
from replay.index.opening import index_of
from replay.index.store import Index, has_index
from replay.listing.known_names import KnownNames
from replay.listing.values import ListedDecision, ListedEvent
from replay.logs.open_log import OpenedLog, RecordedLog, open_any_log
from replay.logs.opened_broker_log import BrokerLog
from replay.progress import Progress

Topic = Annotated[
    str | None, typer.Option(metavar="T", help="Only about this topic or one of its partitions.")
]
Partition = Annotated[str | None, typer.Option(metavar="T-0", help="Only about this partition.")]
Broker = Annotated[int | None, typer.Option(min=0, help="Only about this broker.")]
Limit = Annotated[int | None, typer.Option(min=1, help="The maximum number of lines.")]


class ListedItem(Protocol):
    """An event or a decision in a list."""

    @property
    def term(self) -> int | None:
        """The controller epoch; None: the log has no terms."""

    @property
    def kind(self) -> str:
        """The kind of the event or decision."""

    @property
    def subjects(self) -> tuple[str, ...]:
        """The topics, partitions and brokers that the item is about."""


Item = TypeVar("Item", bound=ListedItem)
ListedLog = OpenedLog | BrokerLog
Source = Callable[[ListedLog, int, int, Progress], Iterator[Item]]
Indexed = Callable[[RecordedLog, Index, int, int, Progress], Iterator[Item]]


def place_of(one: ListedEvent | ListedDecision) -> str:
    """The number, the time and the term of an item, at the beginning of its line."""
    term = "" if one.term is None else f"  term {one.term}"
    return f"{one.seq:>8}  {one.time}{term}"


class Filter(msgspec.Struct):
    """The options that both commands have."""

    first: str | None
    last: str | None
    kinds: list[str]
    topic: str | None
    partition: str | None
    broker: int | None
    term: int | None
    limit: int | None

    def __post_init__(self) -> None:
        """Raises typer.BadParameter."""
        named_partition(self.partition, "--partition")
        log_positions(self.first, self.last)

    def range(self, reader: LogReader) -> tuple[int, int]:
        """The numbers of the first and the last event."""
        (first, from_ns), (last, to_ns) = log_positions(self.first, self.last)
        begin, end = reader.header.first_seq, reader.last_seq
        if from_ns is not None:
            first = (reader.last_seq_at(from_ns - 1) or 0) + 1
        if to_ns is not None:
            last = reader.last_seq_at(to_ns) or 0
        return max(begin, first or 0), end if last is None else min(end, last)

    @property
    def named(self) -> dict[str, str]:
        """The given topic, partition and broker."""
        broker = None if self.broker is None else f"broker {self.broker}"
        given = {"topic": self.topic, "partition": self.partition, "broker": broker}
        return {kind: name for kind, name in given.items() if name is not None}

    @property
    def wanted(self) -> Wanted:
        """The same for the index of a log."""
        return Wanted((*self.named.values(),), (*self.kinds,), self.term)

    def require_names(self, opened: ListedLog, index: Index | None) -> None:
        """Raises ReplayError if the log does not have the topic, partition or broker."""
        if self.named:
            in_events = index.names() if index is not None else None
            known = KnownNames(opened.reader, opened, in_events)
            for kind, name in self.named.items():
                known.require(kind, name)

    def fits(self, one: ListedItem) -> bool:
        """Whether an item matches the options."""
        return (
            all(each in one.subjects for each in self.named.values())
            and self.term in (None, one.term)
            and (not self.kinds or one.kind in self.kinds)
        )


def print_list(
    command: str,
    log: str,
    criteria: Filter,
    source: Source[Item],
    line: Callable[[Item], str],
    *,
    indexed: Indexed[Item] | None,
    demand: Callable[[ListedLog, Sequence[str]], None],
    as_json: bool,
    fits: Callable[[Item], bool] = lambda _: True,
) -> None:
    """Print the items of `source` that match, each as a `line` or as JSON. If the log has an index,
    they are those of `indexed`; None: the whole range is wanted.

    `demand` checks the kinds. Errors are printed in one line with an exit code.
    """
    text = json_text if as_json else line
    try:
        with ExitStack() as stack:
            stack.enter_context(errors_in_one_line(command))
            opened = stack.enter_context(open_any_log(log, is_checked=has_index))
            index = None
            with progress() as report:
                between = criteria.range(opened.reader)
                demand(opened, criteria.kinds)
                if indexed is not None and isinstance(opened, RecordedLog):
                    index = stack.enter_context(index_of(opened, report))
                if indexed is not None and isinstance(opened, RecordedLog) and index is not None:
                    items = indexed(opened, index, *between, report)
                else:
                    items = source(opened, *between, report)
                fitting = (one for one in items if criteria.fits(one) and fits(one))
                first = next(fitting, None)
            # The printed lines show the progress from here on.
            if first is None:
                criteria.require_names(opened, index)
                typer.echo(f"refold {command}: {log}: no {command} match", err=True)
                note_changed_commands(command, log, opened)
                return
            for one in islice(chain([first], fitting), criteria.limit):
                sys.stdout.write(f"{text(one)}\n")
            sys.stdout.flush()
            note_changed_commands(command, log, opened)
    except KeyboardInterrupt:
        raise typer.Exit() from None
