"""The verdicts as a table."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from tools.planted_changes.verdicts import Outcome, Verdict

_CHANGE_MAX: Final = 78
_WIDTH: Final = max(len(one.value) for one in Outcome)


def table(verdicts: Sequence[Verdict]) -> str:
    """One line for each change, the details of those that are not found, and the counts."""
    width = min(_CHANGE_MAX, max(len(one.change) for one in verdicts))
    lines = [f"{'change':{width}}  {'outcome':{_WIDTH}}  rules that differ"]
    for one in verdicts:
        row = f"{one.change[:width]:{width}}  {one.outcome.value:{_WIDTH}}  {'; '.join(one.rules)}"
        lines.append(row.rstrip())
    bad = [one for one in verdicts if not one.is_good]
    lines += ["", *(_detail(one) for one in bad)] if bad else []
    counts = Counter(one.outcome.value for one in verdicts)
    summary = ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
    return "\n".join([*lines, "", f"{len(verdicts)} changes: {summary}"])


def _detail(verdict: Verdict) -> str:
    text = f"{verdict.outcome.value}: {verdict.change} ({verdict.place})"
    if verdict.expected:
        text += f", expected: {verdict.expected}"
    return f"{text}; {verdict.error}" if verdict.error else text
