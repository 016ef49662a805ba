"""A comparison as Markdown, for a pull request."""

import re
from collections.abc import Iterator
from typing import Final

from replay.diff.comparing import BASE, HEAD, Comparison, Group
from replay.diff.reports import sentences

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")


def markdown(comparison: Comparison) -> str:
    """A heading, the summary, a table of the differences, and each difference in full."""
    return "\n".join(_lines(comparison)) + "\n"


def _lines(comparison: Comparison) -> Iterator[str]:
    yield "## Decisions: base and head"
    yield ""
    yield _plain(sentences.summary(comparison))
    yield ""
    yield f"- {_plain(sentences.version_line(BASE, comparison.base))}"
    yield f"- {_plain(sentences.version_line(HEAD, comparison.head))}"
    yield from (f"- **error**: {_plain(error)}" for error in comparison.errors)
    yield from (f"- **{_plain(one)}**" for one in sentences.nondeterminism(comparison))
    yield from (f"- {_plain(sentences.unused(one))}" for one in comparison.unused)
    yield from (f"- {_plain(one)}" for one in sentences.coverage(comparison))
    if comparison.groups:
        yield ""
        yield "| | What differs | Logs | Partitions | |"
        yield "|---|---|---|---|---|"
        for one in comparison.groups:
            counts = f"{len(one.logs)} | {len(one.partitions)}"
            yield f"| `{one.id}` | {_plain(sentences.title(one))} | {counts} | {_state(one)} |"
    for group in comparison.groups:
        yield ""
        yield from _group(group)
    assumptions = sentences.assumptions(comparison)
    if comparison.groups and assumptions:
        yield ""
        yield "<details><summary>Assumptions after a version left the log</summary>"
        yield ""
        yield from (f"- {_plain(one)}" for one in assumptions)
        yield ""
        yield "</details>"


def _state(group: Group) -> str:
    if group.accepted:
        return "accepted"
    if group.is_harmless:
        return "harmless"
    return "after an earlier difference" if group.is_later else "**differs**"


def _group(group: Group) -> Iterator[str]:
    yield f"### {_plain(sentences.title(group))}"
    yield ""
    if group.accepted:
        yield f"Accepted: {_plain(group.accepted)}"
        yield ""
    if order := sentences.logs_with_earlier_difference(group):
        yield f"{order[0].upper()}{order[1:]}."
        yield ""
    yield f"First in {_plain(sentences.first_cause_place(group.first))}:"
    yield ""
    yield "```"
    yield from (one.replace("```", "'''") for one in sentences.details(group.first))
    yield "```"
    yield ""
    yield from (f"- {_plain(one)}" for one in sentences.effects(group))


def _plain(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)
