"""The hypothesis that queued events were processed in another order, or reads came at another time.

It explains a divergence if the fold decides as Kafka did in another order that was possible.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from msgspec import structs

from replay.agreement.assumptions import (
    Assumptions,
    Choices,
    ControllerStep,
    OpenChoice,
)
from replay.agreement.results import EITHER_ORDER, AgreementResult, Divergence
from replay.agreement.search.search import ComparisonRun, Hypothesis

RUNS_MAX: Final = 100
_CHOICES_MAX: Final = 10
"""The last choices before a divergence that are reconsidered."""
_RECORDS_AFTER: Final = 100
"""A divergence may begin this many records after the choice that caused it."""
_MOMENTS_MAX: Final = 4


class EventOrder(Hypothesis[Divergence]):
    """A question is a divergence."""

    name = EITHER_ORDER.name
    combined_max = 3
    unanswered_max = 5
    needs_choices = True

    def __init__(self, runs_max: int = RUNS_MAX) -> None:
        super().__init__(runs_max)
        self._explained: list[Divergence] = []

    def questions(self, run: ComparisonRun) -> Sequence[Divergence]:
        return run.result.divergences

    def alternatives(self, run: ComparisonRun, question: Divergence) -> Iterator[Assumptions]:
        assumptions = run.choices.assumptions
        for moments in _other_moments(run.choices, question):
            yield structs.replace(assumptions, moments={**assumptions.moments, **moments})

    def is_answered(self, question: Divergence, run: ComparisonRun) -> bool:
        return question not in run.result.divergences

    def same_cause(self, question: Divergence, run: ComparisonRun) -> Sequence[Divergence]:
        return [one for one in run.result.divergences if one.batch_key == question.batch_key]

    def next_question(self, before: ComparisonRun, after: ComparisonRun) -> Divergence | None:
        return next(iter(_new(after.result, before.result)), None)

    def accept(self, question: Divergence, before: ComparisonRun, after: ComparisonRun) -> None:
        said = self.same_cause(question, before)
        self._explained += [one for one in said if one not in after.result.divergences]

    def report(self, final: ComparisonRun) -> None:
        """Add the divergences back as explained by this rule."""
        for one in self._explained:
            final.result.explain(structs.replace(one, explained=self.name))


def _other_moments(
    choices: Choices, divergence: Divergence
) -> Iterator[Mapping[ControllerStep, int]]:
    """Other moments for the last choices before a divergence, beginning with the choices about the
    event that diverges."""
    made = [
        one
        for one in choices.made.values()
        if one.broker == divergence.controller
        and one.since <= divergence.seq
        and divergence.since <= one.at + _RECORDS_AFTER
    ]
    made = [_reads_about(divergence, one) if one.is_logged else one for one in made]
    made.sort(
        key=lambda one: (one.at >= divergence.since, _concerns(one, divergence), one.at),
        reverse=True,
    )
    others = ((one, _moments(choices, one, divergence.seq)) for one in made)
    for one, moments in islice((each for each in others if each[1]), _CHOICES_MAX):
        for at in moments[:_MOMENTS_MAX]:
            listed = _read_of_children(one, choices)
            if listed is not None and at < one.at:
                yield {one.step: at, listed: at}
            yield {one.step: at}


def _read_of_children(choice: OpenChoice, choices: Choices) -> ControllerStep | None:
    """The next read, if it reads the children that this one listed: it follows at once."""
    step = choice.step._replace(read=choice.step.read + 1)
    following = choices.made.get(step) if choice.step.read else None
    if following is None or not following.paths:
        return None
    is_listed = all(
        any(path.startswith(f"{one}/") for one in choice.paths) for path in following.paths
    )
    return step if is_listed else None


def _concerns(choice: OpenChoice, divergence: Divergence) -> bool:
    return bool(_reads_about(divergence, choice).paths)


def _reads_about(divergence: Divergence, choice: OpenChoice) -> OpenChoice:
    """The choice, with only those of its znodes that the divergence is about."""
    paths = [one for one in choice.paths if any(each.startswith(one) for each in divergence.paths)]
    return choice._replace(paths=paths)


def _moments(choices: Choices, choice: OpenChoice, until: int) -> list[int]:
    """Other possible moments: of a read, before or after each change of its znodes; of an event, at
    once or after the events that were processed next. An event whose line may be that of another
    one began at a later line."""
    known = {choice.at, choices.assumptions.moments.get(choice.step)}
    if choice.step.read:
        changed = choices.changes_of(choice.paths, choice.since, max(choice.at, until))
        earlier = [one for one in changed if one <= choice.at]
        later = [one + 1 for one in changed if one > choice.at and not choice.is_latest]
        return [one for one in earlier[::-1] + later if one not in known]
    following = sorted(
        one.at
        for one in choices.made.values()
        if one.step.session == choice.step.session
        and not one.step.read
        and choice.at <= one.at <= until
        and one.step != choice.step
    )
    first = choice.at + 1 if choice.is_logged else choice.since
    moments = dict.fromkeys([first, *(at + 1 for at in following), until])
    return [at for at in moments if at not in known]


def _new(after: AgreementResult, before: AgreementResult) -> list[Divergence]:
    """The divergences that only `after` has, in order."""
    new = Counter(after.divergences) - Counter(before.divergences)
    return sorted(new, key=lambda one: one.seq)
