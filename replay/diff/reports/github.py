"""A comparison as workflow commands of GitHub Actions: one annotation per difference."""

from collections.abc import Iterator

from replay.diff.comparing import HEAD, Comparison, Group
from replay.diff.reports import sentences


def github(comparison: Comparison, failing: list[Group]) -> str:
    """The groups in `failing` become errors, the others notices."""
    return "\n".join(_lines(comparison, failing)) + "\n"


def _lines(comparison: Comparison, failing: list[Group]) -> Iterator[str]:
    for error in comparison.errors:
        yield f"::error title=refold diff::{_data(error)}"
    for text in sentences.nondeterminism(comparison):
        yield f"::error title=refold diff::{_data(text)}"
    for group in comparison.groups:
        level = "error" if group in failing else "notice"
        first = group.first
        lines = [f"{sentences.title(group)}, {sentences.extent(group)} [{group.id}]"]
        lines += [f"accepted: {group.accepted}"] if group.accepted else []
        lines += [sentences.where(first), *sentences.details(first), *sentences.outcome(first)]
        lines += [one for one in (sentences.outcomes_elsewhere(group),) if one]
        yield f"::{level} title={_property(sentences.title(group))}::{_data(chr(10).join(lines))}"
    for one in comparison.unused:
        yield f"::notice title=refold diff::{_data(sentences.unused(one))}"
    for place in comparison.uncovered:
        where = f"file=controller/core/{_property(place.file)}," if place.side == HEAD else ""
        where += f"line={place.lines[0]}," if where and place.lines else ""
        text = f"changed and never executed: {sentences.place(place)}"
        yield f"::warning {where}title=refold diff::{_data(text)}"
    for reason in comparison.unmeasured:
        yield f"::warning title=refold diff::executed lines not measured: {_data(reason)}"
    yield sentences.summary(comparison)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
