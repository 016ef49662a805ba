"""A comparison for a terminal."""

from collections.abc import Iterator

from replay.diff.comparing import BASE, HEAD, Comparison, Group
from replay.diff.reports import told


def text(comparison: Comparison) -> str:
    """All of it, the summary last."""
    return "\n".join(_lines(comparison)) + "\n"


def _lines(comparison: Comparison) -> Iterator[str]:
    yield told.side(BASE, comparison.base)
    yield told.side(HEAD, comparison.head)
    for group in comparison.groups:
        yield ""
        yield from _group(group)
    supposed = told.supposed(comparison)
    if comparison.groups and supposed:
        yield ""
        yield "supposed, where a version asked for what is not in the log:"
        yield from (f"  {one}" for one in supposed)
    yield ""
    for error in comparison.errors:
        yield f"error: {error}"
    for one in comparison.unused:
        yield f"note: accepted, but not there any more: {one}"
    yield told.summary(comparison)


def _group(group: Group) -> Iterator[str]:
    yield f"{group.id}  {told.title(group)}"
    if group.accepted:
        yield f"  accepted: {group.accepted}"
    yield f"  {told.counted(group)}"
    yield f"  first: {told.where(group.first)}"
    yield from (f"    {one}" for one in told.details(group.first))
    rest = [
        told.followers(group.first),
        *told.outcome(group.first),
        told.outcomes_elsewhere(group),
        told.elsewhere(group),
    ]
    yield from (f"  {one}" for one in rest if one)
