"""What `refold events` and `refold decisions` have in common: a range of a log, what of it is
wanted, a line each."""

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Annotated, Final, Protocol, TypeVar

import msgspec
import typer

from eventstore.errors import LogError
from eventstore.reader import LogReader
from replay.cli.moments import moment
from replay.cli.progress import progress
from replay.cli.subjects import partition as named_partition
from replay.errors import ReplayError
from replay.logs.open_log import OpenedLog, open_log
from replay.progress import Progress

_UNUSABLE: Final = 2
_TERM_MAX: Final = 2**31 - 1

Log = Annotated[
    str,
    typer.Argument(
        metavar="LOG",
        help='A log of the daemon or an imported one, also packed, an incident, or "-".',
    ),
]
From = Annotated[
    str | None, typer.Option("--from", metavar="SEQ|TIME", help="First number, or time.")
]
To = Annotated[str | None, typer.Option("--to", metavar="SEQ|TIME", help="Last number, or time.")]
Topic = Annotated[
    str | None, typer.Option(metavar="T", help="About this topic or a partition of it.")
]
Partition = Annotated[str | None, typer.Option(metavar="T-0", help="About this partition.")]
Broker = Annotated[int | None, typer.Option(min=0, help="About this broker.")]
Term = Annotated[int | None, typer.Option(min=0, max=_TERM_MAX, help="The controller epoch.")]
Limit = Annotated[int | None, typer.Option(min=1, help="End after so many.")]
Json = Annotated[bool, typer.Option("--json", help="JSON, one object a line.")]


class Listed(Protocol):
    """What both lists are made of."""

    @property
    def term(self) -> int:
        """The controller epoch."""

    @property
    def kind(self) -> str:
        """Of the event or the decision."""

    @property
    def subjects(self) -> tuple[str, ...]:
        """What it is about."""


Item = TypeVar("Item", bound=Listed)
Source = Callable[[OpenedLog, int, int, Progress], Iterator[Item]]


class Wanted(msgspec.Struct, kw_only=True):
    """What the options that both commands have ask for."""

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
        first, last = moment(self.first, "--from"), moment(self.last, "--to")
        if any(a is not None and b is not None and a > b for a, b in zip(first, last, strict=True)):
            raise typer.BadParameter(f"{self.first} is after --to {self.last}", param_hint="--from")

    def range(self, reader: LogReader) -> tuple[int, int]:
        """The numbers of the first and the last event."""
        first, from_ns = moment(self.first, "--from")
        last, to_ns = moment(self.last, "--to")
        begin, end = reader.header.first_seq, reader.last_seq
        if from_ns is not None:
            first = (reader.last_seq_at(from_ns - 1) or 0) + 1
        if to_ns is not None:
            last = reader.last_seq_at(to_ns) or 0
        return max(begin, first or 0), end if last is None else min(end, last)

    def fits(self, one: Listed) -> bool:
        """Whether it is asked for."""
        broker = None if self.broker is None else f"broker {self.broker}"
        asked = (self.topic, self.partition, broker)
        return (
            all(each is None or each in one.subjects for each in asked)
            and self.term in (None, one.term)
            and (not self.kinds or one.kind in self.kinds)
        )


def show(
    command: str,
    log: str,
    wanted: Wanted,
    source: Source[Item],
    line: Callable[[Item], str],
    *,
    demand: Callable[[OpenedLog, Sequence[str]], None],
    as_json: bool,
    fits: Callable[[Item], bool] = lambda _: True,
) -> None:
    """Write what is wanted of a log, a line each, if `demand` does not refuse its kinds; an exit
    code in the place of a traceback."""
    text = _in_json if as_json else line
    try:
        with open_log(log) as opened:
            with progress() as report:
                between = wanted.range(opened.reader)
                demand(opened, wanted.kinds)
                items = source(opened, *between, report)
                fitting = (one for one in items if wanted.fits(one) and fits(one))
                first = next(fitting, None)
            # From here on lines tell how far it is.
            if first is None:
                typer.echo(f"refold {command}: {log}: nothing matches", err=True)
                return
            for one in islice(chain([first], fitting), wanted.limit):
                sys.stdout.write(f"{text(one)}\n")
    except (LogError, ReplayError) as error:
        typer.echo(f"refold {command}: {error}", err=True)
        raise typer.Exit(_UNUSABLE) from None
    except KeyboardInterrupt:
        raise typer.Exit() from None


def _in_json(one: Listed) -> str:
    return msgspec.json.encode(one).decode()
