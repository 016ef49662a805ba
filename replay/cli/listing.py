"""The common part of `refold events` and `refold decisions`: filter a log and print a line per
item."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Generic, TypeVar

import msgspec
import typer

from eventstore.reader import LogReader
from replay.cli.exit_status import errors_in_one_line
from replay.cli.kinds import KindsCheck, logs_with_kinds, require_kinds
from replay.cli.log_notes import note_changed_commands
from replay.cli.options import log_positions, named_partition
from replay.cli.progress import progress
from replay.description.as_json import json_text
from replay.description.phrases import first_few
from replay.errors import ReplayError
from replay.index.listing import IndexSelection
from replay.index.opening import index_of
from replay.index.store import EventIndex, has_index
from replay.listing.known_names import KnownNames
from replay.listing.values import ListedDecision, ListedEvent, ListedItem
from replay.logs.open_log import OpenedLog, open_any_log
from replay.logs.opened_broker_log import BrokerLog
from replay.names import broker_name
from replay.progress import Progress
from replay.why.runs import in_order, logs_of

Topic = Annotated[
    str | None, typer.Option(metavar="T", help="Only about this topic or one of its partitions.")
]
Partition = Annotated[str | None, typer.Option(metavar="T-0", help="Only about this partition.")]
Broker = Annotated[int | None, typer.Option(min=0, help="Only about this broker.")]
Limit = Annotated[int | None, typer.Option(min=1, help="The maximum number of lines.")]


Item = TypeVar("Item", bound=ListedItem)
ListedLog = OpenedLog | BrokerLog
Source = Callable[[ListedLog, int, int, Progress], Iterator[Item]]
Indexed = Callable[[OpenedLog, EventIndex, int, int, Progress], Iterator[Item]]
NamesCheck = Callable[[ListedLog, EventIndex | None, Progress], None]
"""Raises ReplayError if a log does not have what a further option names."""


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
        """Check the values of --partition, --from and --to. Raises typer.BadParameter."""
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

    def require_times(self) -> None:
        """Check that --from and --to are times, for several logs: each log has its own event of a
        number. Raises typer.BadParameter."""
        if any(one.seq is not None for one in log_positions(self.first, self.last)):
            raise typer.BadParameter(
                "each log numbers its events from 1: give a time, or only one log",
                param_hint="--from, --to",
            )

    @property
    def named(self) -> dict[str, str]:
        """The given topic, partition and broker."""
        broker = None if self.broker is None else broker_name(self.broker)
        given = {"topic": self.topic, "partition": self.partition, "broker": broker}
        return {kind: name for kind, name in given.items() if name is not None}

    @property
    def wanted(self) -> IndexSelection:
        """The items that match the options."""
        return IndexSelection((*self.named.values(),), (*self.kinds,), self.term)

    def require_names(self, opened: ListedLog, index: EventIndex | None) -> None:
        """Check that the log has the topic, partition and broker of the options. Raises
        ReplayError."""
        if self.named:
            in_records = index.names() if index is not None else None
            known = KnownNames(opened.reader, opened, in_records)
            for kind, name in self.named.items():
                known.require(kind, name)


class Question(msgspec.Struct, Generic[Item], frozen=True):
    """The list of a command: the items of `source` that match. If a log has an index, they are
    those of `indexed`; None: the whole range is wanted. `unknown_kinds` checks the kinds, and
    `require_names` what the command's further options name."""

    command: str
    criteria: Filter
    source: Source[Item]
    indexed: Indexed[Item] | None
    unknown_kinds: KindsCheck
    fits: Callable[[Item], bool] = lambda _: True
    require_names: NamesCheck | None = None

    def items(
        self, opened: ListedLog, index: EventIndex | None, progress: Progress
    ) -> Iterator[Item]:
        """The items that match. Raises ReplayError, LogError."""
        between = self.criteria.range(opened.reader)
        if self.indexed and index is not None and not isinstance(opened, BrokerLog):
            found = self.indexed(opened, index, *between, progress)
        else:
            found = self.source(opened, *between, progress)
        wanted = self.criteria.wanted
        return (one for one in found if wanted.selects(one) and self.fits(one))

    def print(
        self,
        log: str,
        text: Callable[[Item], str],
        heading: str,
        limit: int | None,
        *,
        is_one_of_several: bool,
    ) -> tuple[int, ReplayError | None]:
        """Print the items of a log after a heading, at most `limit`. Returns how many there are;
        if there are none because the log does not have what was asked about, also the error. Raises
        ReplayError, LogError."""
        count = 0
        with ExitStack() as stack:
            opened = stack.enter_context(open_any_log(log, is_checked=has_index))
            index = None
            with progress() as report:
                if not is_one_of_several:
                    require_kinds(self.unknown_kinds, opened.reader, self.criteria.kinds)
                if self.indexed is not None and not isinstance(opened, BrokerLog):
                    index = stack.enter_context(index_of(opened, report))
                items = self.items(opened, index, report)
                first = next(items, None)
            # The printed lines show the progress from here on.
            if first is None:
                try:
                    self.criteria.require_names(opened, index)
                    if self.require_names is not None:
                        with progress() as report:
                            self.require_names(opened, index, report)
                except ReplayError as error:
                    return 0, error
            else:
                sys.stdout.write(heading)
                for one in islice(chain([first], items), limit):
                    count += 1
                    sys.stdout.write(f"{text(one)}\n")
                sys.stdout.flush()
            note_changed_commands(self.command, log, opened)
        return count, None


def print_list(
    log: str, question: Question[Item], line: Callable[[Item], str], *, as_json: bool
) -> None:
    """Print what a question finds in a log, or in each log of a folder in the order in which the
    logs begin: each item as a `line` or as JSON. Errors are printed in one line with an exit code.
    """
    try:
        with errors_in_one_line(question.command):
            _print_logs(log, question, line, as_json=as_json)
    except KeyboardInterrupt:
        raise typer.Exit() from None


def _print_logs(
    log: str, question: Question[Item], line: Callable[[Item], str], *, as_json: bool
) -> None:
    logs = logs_of([log])
    is_several = len(logs) > 1
    if is_several:
        question.criteria.require_times()
        logs, notes = logs_with_kinds(
            question.unknown_kinds, in_order(logs), question.criteria.kinds
        )
        for note in notes:
            typer.echo(f"refold {question.command}: {note}", err=True)
    limit, count = question.criteria.limit, 0
    faults: dict[str, ReplayError] = {}
    for one in logs:
        name = Path(one).name
        text = line
        if as_json:
            text = partial(_json_with_log, name) if is_several else json_text
        heading = f"{name}\n" if is_several and not as_json else ""
        left = None if limit is None else limit - count
        shown, fault = question.print(one, text, heading, left, is_one_of_several=is_several)
        count += shown
        if fault is not None:
            faults[name] = fault
        if count == limit:
            break
    if not count:
        if len(faults) == len(logs):
            raise _combined_error(faults)
        typer.echo(f"refold {question.command}: {log}: no {question.command} match", err=True)


def _combined_error(faults: dict[str, ReplayError]) -> ReplayError:
    """The errors of several logs in one; that of a single log is returned unchanged."""
    if len(faults) == 1:
        return next(iter(faults.values()))
    return ReplayError(first_few(f"{log}: {fault}" for log, fault in faults.items()))


def _json_with_log(log: str, one: ListedItem) -> str:
    return json_text({"log": log, **msgspec.to_builtins(one)})
