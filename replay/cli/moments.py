"""Moments of a log, as options give them: a sequence number, or a wall clock."""

from datetime import UTC, datetime
from typing import Annotated, Final

import typer

_STORED_MAX: Final = 2**63 - 1
_MS_MAX: Final = 2**62

From = Annotated[
    str | None,
    typer.Option("--from", help="Time as 2026-11-21T03:59:01Z, or ms since 1970."),
]
To = Annotated[str | None, typer.Option("--to", help="Time, as --from.")]


def moment(text: str | None, option: str) -> tuple[int | None, int | None]:
    """The number, or the time in ns, that an option gives; one that no log can hold as the nearest
    that it can. Raises typer.BadParameter."""
    if text is None:
        return None, None
    if text.isdecimal():
        return min(int(text), _STORED_MAX), None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text} is neither a number nor a time such as 2026-11-21T03:59:01", param_hint=option
        ) from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    whole_s = found.replace(microsecond=0).timestamp()
    ns = int(whole_s) * 1_000_000_000 + found.microsecond * 1000
    return None, max(0, min(ns, _STORED_MAX))


def period(first: str | None, last: str | None) -> tuple[int | None, int | None]:
    """The wall clocks in ms that --from and --to give. Raises typer.BadParameter."""
    from_ms, to_ms = _time_ms(first, "--from"), _time_ms(last, "--to")
    if from_ms is not None and to_ms is not None and from_ms > to_ms:
        raise typer.BadParameter(f"{first} is after --to {last}", param_hint="--from")
    return from_ms, to_ms


def _time_ms(text: str | None, option: str) -> int | None:
    """The wall clock that an option gives."""
    if text is None:
        return None
    if text.isdecimal():
        return min(int(text), _MS_MAX)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text} is neither a time such as 2026-11-21T03:59:01Z nor a number of ms",
            param_hint=option,
        ) from None
    if moment.tzinfo is None:
        raise typer.BadParameter(
            f"{text} lacks its zone: write {moment.isoformat()}Z or {moment.isoformat()}+01:00",
            param_hint=option,
        )
    return int(moment.timestamp() * 1000)
