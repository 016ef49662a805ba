"""A comparison as workflow commands of GitHub Actions: one annotation per difference."""

from collections.abc import Iterator, Sequence

from replay.diff.comparing import HEAD, Comparison, Group
from replay.diff.one_sided import OneSidedCondition
from replay.diff.reports import sentences
from replay.diff.uncovered import UncoveredCode


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
        lines += [one for one in (sentences.logs_with_earlier_difference(group),) if one]
        lines += [
            sentences.first_cause_place(first),
            *sentences.details(first),
            *sentences.outcome(first),
        ]
        lines += [one for one in (sentences.outcomes_elsewhere(group),) if one]
        yield f"::{level} title={_property(sentences.title(group))}::{_data(chr(10).join(lines))}"
    for entry in comparison.unused:
        yield f"::notice title=refold diff::{_data(sentences.unused(entry))}"
    for place in comparison.uncovered:
        yield _annotation("warning", place, place.lines, sentences.never_executed(place))
    for one in comparison.one_sided:
        yield _annotation("warning", one, (one.line,), sentences.with_one_outcome(one))
    for place in comparison.undistinguished:
        yield _annotation("notice", place, place.lines, sentences.without_difference(place))
    for reason in comparison.unmeasured:
        yield f"::warning title=refold diff::{_data(sentences.not_measured(reason))}"
    yield sentences.summary(comparison)


def _annotation(
    level: str, code: UncoveredCode | OneSidedCondition, lines: Sequence[int], text: str
) -> str:
    where = f"file=controller/core/{_property(code.file)}," if code.side == HEAD else ""
    where += f"line={lines[0]}," if where and lines else ""
    return f"::{level} {where}title=refold diff::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
