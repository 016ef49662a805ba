"""A comparison as Markdown, for a pull request."""

import re
from collections.abc import Iterator
from typing import Final

from replay.diff.comparing import BASE, HEAD, Comparison, Group
from replay.diff.reports import told

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")


def markdown(comparison: Comparison) -> str:
    """A heading, the summary, a table of the differences, each one in full."""
    return "\n".join(_lines(comparison)) + "\n"


def _lines(comparison: Comparison) -> Iterator[str]:
    yield "## Decisions: base and head"
    yield ""
    yield _plain(told.summary(comparison))
    yield ""
    yield f"- {_plain(told.side(BASE, comparison.base))}"
    yield f"- {_plain(told.side(HEAD, comparison.head))}"
    yield from (f"- **error**: {_plain(error)}" for error in comparison.errors)
    yield from (f"- accepted, but not there any more: {_plain(one)}" for one in comparison.unused)
    if comparison.groups:
        yield ""
        yield "| | What differs | Logs | Partitions | |"
        yield "|---|---|---|---|---|"
        for one in comparison.groups:
            state = "accepted" if one.accepted else "harmless" if one.is_harmless else "**differs**"
            counts = f"{len(one.logs)} | {len(one.partitions)}"
            yield f"| `{one.id}` | {_plain(told.title(one))} | {counts} | {state} |"
    for group in comparison.groups:
        yield ""
        yield from _group(group)
    supposed = told.supposed(comparison)
    if comparison.groups and supposed:
        yield ""
        yield "<details><summary>What was supposed where a version left the log</summary>"
        yield ""
        yield from (f"- {_plain(one)}" for one in supposed)
        yield ""
        yield "</details>"


def _group(group: Group) -> Iterator[str]:
    yield f"### {_plain(told.title(group))}"
    yield ""
    if group.accepted:
        yield f"Accepted: {_plain(group.accepted)}"
        yield ""
    yield f"First in {_plain(told.where(group.first))}:"
    yield ""
    yield "```"
    yield from (one.replace("```", "'''") for one in told.details(group.first))
    yield "```"
    yield ""
    rest = [
        told.followers(group.first),
        *told.outcome(group.first),
        told.outcomes_elsewhere(group),
        told.elsewhere(group),
    ]
    yield from (f"- {_plain(one)}" for one in rest if one)


def _plain(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)
