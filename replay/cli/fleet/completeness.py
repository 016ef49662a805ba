"""Printing what a table lacks: inputs that were set aside, and logs that are incomplete."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import typer

from controller.escaping import escape_unprintable

if TYPE_CHECKING:
    from replay.fleet.manifest import LogCompleteness
    from replay.fleet.set_aside import SetAsideInput

INCOMPLETE: Final = 1
"""The exit status of a command whose result lacks something that exists."""

_TEXTS_MAX: Final = 5


def print_incomplete(
    set_aside: "Sequence[SetAsideInput]",
    all_set_aside: int,
    logs: "Sequence[LogCompleteness]",
    all_incomplete: int,
) -> None:
    """Print some of the inputs that were set aside, and some of the logs that lack something or
    have warnings."""
    for one in set_aside:
        # A reason has no line breaks, so the path has none there either.
        in_reason = " ".join(one.path.split())
        is_named = one.reason.startswith(in_reason)
        rest = one.reason.removeprefix(in_reason) if is_named else f": {one.reason}"
        text = f"{one.path}{rest}"
        typer.echo(f"set aside: {escape_unprintable(text)}")
    if all_set_aside > len(set_aside):
        typer.echo(f"set aside: {all_set_aside - len(set_aside)} more")
    for log in logs:
        where = f"cluster {escape_unprintable(log.cluster)}, log {log.log}"
        _print_texts(f"incomplete: {where}", log.lacking)
        _print_texts(f"warning: {where}", log.warnings)
        if log.not_understood:
            typer.echo(f"warning: {where}: {log.not_understood} lines were not understood")
    shown = sum(bool(one.lacking) for one in logs)
    if all_incomplete > shown:
        typer.echo(f"incomplete: {all_incomplete - shown} more logs")


def _print_texts(head: str, texts: Sequence[str]) -> None:
    for text in texts[:_TEXTS_MAX]:
        typer.echo(f"{head}: {escape_unprintable(text)}")
    if len(texts) > _TEXTS_MAX:
        typer.echo(f"{head}: {len(texts) - _TEXTS_MAX} more")
