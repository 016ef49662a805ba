"""A comparison as text for a terminal."""

from collections.abc import Iterator

from replay.diff.comparing import BASE, HEAD, Comparison, Group
from replay.diff.reports import sentences


def text(comparison: Comparison) -> str:
    """The whole report, with the summary at the end."""
    return "\n".join(_lines(comparison)) + "\n"


def _lines(comparison: Comparison) -> Iterator[str]:
    yield sentences.version_line(BASE, comparison.base)
    yield sentences.version_line(HEAD, comparison.head)
    for group in comparison.groups:
        yield ""
        yield from _group(group)
    assumptions = sentences.assumptions(comparison)
    if comparison.groups and assumptions:
        yield ""
        yield "assumptions after a version left the log:"
        yield from (f"  {one}" for one in assumptions)
    yield ""
    for error in comparison.errors:
        yield f"error: {error}"
    yield from sentences.nondeterminism(comparison)
    for one in comparison.unused:
        yield f"note: {sentences.unused(one)}"
    yield from sentences.coverage(comparison)
    yield sentences.summary(comparison)


def _group(group: Group) -> Iterator[str]:
    yield f"{group.id}  {sentences.title(group)}"
    if group.accepted:
        yield f"  accepted: {group.accepted}"
    yield f"  {sentences.extent(group)}"
    yield from (f"  {one}" for one in (sentences.logs_with_earlier_difference(group),) if one)
    yield f"  first: {sentences.first_cause_place(group.first)}"
    yield from (f"    {one}" for one in sentences.details(group.first))
    yield from (f"  {one}" for one in sentences.effects(group))
