"""A moment of a log, as options give it: a sequence number, or a wall clock."""

from datetime import UTC, datetime
from typing import Final

import typer

_STORED_MAX: Final = 2**63 - 1


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
