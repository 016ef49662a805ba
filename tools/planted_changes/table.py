"""The verdicts as a table."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from tools.planted_changes.verdicts import Verdict

_CHANGE_MAX: Final = 78


def table(verdicts: Sequence[Verdict]) -> str:
    """One line for each change, the details of those that are not found, and the counts."""
    width = min(_CHANGE_MAX, max(len(one.change) for one in verdicts))
    lines = [f"{'change':{width}}  {'outcome':18}  rules that differ"]
    lines += [
        f"{one.change[:width]:{width}}  {one.outcome.value:18}  {'; '.join(one.rules)}".rstrip()
        for one in verdicts
    ]
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
