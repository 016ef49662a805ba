"""Options that several commands have, and how their values are parsed.

All parsers raise typer.BadParameter for text that they cannot parse.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Final, NamedTuple

import typer

from replay.names import partition_named

WORKERS_MAX: Final = 256
"""The limit of --workers."""
_STORED_MAX: Final = 2**63 - 1
_MS_MAX: Final = 2**62
_TERM_MAX: Final = 2**31 - 1
_NS_PER_S: Final = 1_000_000_000
_NS_PER_US: Final = 1000

_LOG: Final = "A log of the daemon or an imported log, may be packed; an incident;"
Log = Annotated[str, typer.Argument(metavar="LOG", help=f"{_LOG} a saved run; or - for stdin.")]
LogWithoutStdin = Annotated[str, typer.Argument(metavar="LOG", help=f"{_LOG} or a saved run.")]
ListedLogs = Annotated[
    str,
    typer.Argument(
        metavar="LOG",
        help=f"{_LOG} a saved run; a folder of such logs; or - for stdin.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
JsonLines = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]
Kind = Annotated[
    list[str] | None,
    typer.Option(help="Only this kind of `refold log stats`. Can be repeated."),
]
Term = Annotated[int | None, typer.Option(min=0, max=_TERM_MAX, help="Only this controller epoch.")]
At = Annotated[
    str | None,
    typer.Option(metavar="SEQ|TIME", help="An event number or time; default: the end of the log."),
]

# A period, as wall clocks ------------------------------------------------------------------------

From = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="TIME", help="Time, such as 2026-11-21T03:59:01Z, or ms since 1970."
    ),
]
To = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Time, as --from.")]


def period(first: str | None, last: str | None) -> tuple[int | None, int | None]:
    """The wall clocks of --from and --to in ms."""
    from_ms, to_ms = _time_ms(first, "--from"), _time_ms(last, "--to")
    if from_ms is not None and to_ms is not None and from_ms > to_ms:
        raise _reversed_range_error(first, last)
    return from_ms, to_ms


def _time_ms(text: str | None, option: str) -> int | None:
    if text is None:
        return None
    if text.isdecimal():
        return min(int(text), _MS_MAX)
    time = _iso_time(text)
    if time is None:
        raise typer.BadParameter(
            f"{text} is neither a time such as 2026-11-21T03:59:01Z nor a number of ms",
            param_hint=option,
        )
    if time.tzinfo is None:
        raise typer.BadParameter(
            f"{text} has no time zone: write {time.isoformat()}Z or {time.isoformat()}+01:00",
            param_hint=option,
        )
    return int(time.timestamp() * 1000)


# A position in a log: an event number or a wall clock -------------------------------------------

FromPosition = Annotated[
    str | None, typer.Option("--from", metavar="SEQ|TIME", help="First event number, or time.")
]
ToPosition = Annotated[
    str | None, typer.Option("--to", metavar="SEQ|TIME", help="Last event number, or time.")
]


class LogPosition(NamedTuple):
    """A position in a log: the number of an event, or a wall clock in ns, or neither."""

    seq: int | None = None
    wall_ns: int | None = None


def log_position(text: str | None, option: str, *, is_begin: bool = False) -> LogPosition:
    """The position that an option names. Values above the largest stored number are reduced to it.

    A time without a zone is UTC. Printed times are cut to microseconds, so a time is the end of its
    microsecond, or the beginning of it for the begin of a period.
    """
    if text is None:
        return LogPosition()
    if text.isdecimal():
        return LogPosition(seq=min(int(text), _STORED_MAX))
    time = _iso_time(text)
    if time is None:
        raise typer.BadParameter(
            f"{text} is neither a number nor a time such as 2026-11-21T03:59:01", param_hint=option
        )
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    whole_s = int(time.replace(microsecond=0).timestamp())
    ns = whole_s * _NS_PER_S + time.microsecond * _NS_PER_US
    if not is_begin:
        ns += _NS_PER_US - 1
    return LogPosition(wall_ns=max(0, min(ns, _STORED_MAX)))


def log_positions(first: str | None, last: str | None) -> tuple[LogPosition, LogPosition]:
    """The positions of --from and --to, in this order."""
    begin, end = log_position(first, "--from", is_begin=True), log_position(last, "--to")
    if any(a is not None and b is not None and a > b for a, b in zip(begin, end, strict=True)):
        raise _reversed_range_error(first, last)
    return begin, end


def _iso_time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _reversed_range_error(first: str | None, last: str | None) -> typer.BadParameter:
    return typer.BadParameter(f"{first} is after --to {last}", param_hint="--from")


# Partitions and settings -------------------------------------------------------------------------


def named_partition(text: str | None, option: str) -> tuple[str, int] | None:
    """The topic and number of a partition in Kafka's notation: t-0."""
    if text is None:
        return None
    try:
        return partition_named(text)
    except ValueError as error:
        raise typer.BadParameter(f"{error}: write it as topic-0", param_hint=option) from None


BrokerConfig = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="A broker setting that changes decisions and is not in the log, such as"
        " unclean.leader.election.enable=true. Can be repeated.",
    ),
]


def broker_settings(texts: Iterable[str] | None) -> dict[str, str]:
    """The values of --broker-config."""
    found = settings(texts, "--broker-config", "KEY=VALUE")
    return {key.strip(): value.strip() for key, value in found.items()}


def settings(texts: Iterable[str] | None, option: str, form: str) -> dict[str, str]:
    """The values of an option of the form NAME=VALUE that can be repeated."""
    found: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{text} is not {form}", param_hint=option)
        found[name] = value
    return found
