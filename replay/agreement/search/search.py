"""The search for assumptions under which the fold decides as Kafka did.

The first comparison assumes nothing and does not look at Kafka's decisions. Only if they differ,
each hypothesis in turn proposes other assumptions, and the log is compared again. Assumptions are
kept if fewer divergences remain.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from replay.agreement.assumptions import NO_ASSUMPTIONS, Assumptions, Choices
from replay.agreement.results import AgreementResult

RECORDS_MAX: Final = 500_000
"""The repeated comparisons of one hypothesis read at most this many records."""

Compare = Callable[[Choices], AgreementResult]
Question = TypeVar("Question")


class ComparisonRun(NamedTuple):
    """A comparison: the choices it made under its assumptions, and its result."""

    choices: Choices
    result: AgreementResult

    @property
    def divergences(self) -> int:
        """How many divergences remain."""
        return len(self.result.divergences)


class Hypothesis(ABC, Generic[Question]):
    """An explanation for divergences, by name. A question is one thing that it may explain.

    `runs_min` and `runs_max` limit the comparisons, `unanswered_max` the questions without an
    answer, and `combined_max` the assumptions that are combined for one question. `needs_choices`:
    the alternatives are taken from the recorded choices.
    """

    name: ClassVar[str]
    runs_min: ClassVar[int] = 0
    combined_max: ClassVar[int] = 1
    unanswered_max: ClassVar[int | None] = None
    needs_choices: ClassVar[bool] = False

    def __init__(self, runs_max: int) -> None:
        self.runs_max = runs_max

    def runs(self, records: int) -> int:
        """How often a log with this number of records may be compared again."""
        return min(self.runs_max, max(self.runs_min, RECORDS_MAX // max(records, 1)))

    @abstractmethod
    def questions(self, run: ComparisonRun) -> Sequence[Question]:
        """The differences that this hypothesis may explain in a run, in order."""

    @abstractmethod
    def alternatives(self, run: ComparisonRun, question: Question) -> Iterator[Assumptions]:
        """The assumptions to try, the most likely first."""

    def is_answered(self, question: Question, run: ComparisonRun) -> bool:
        """Whether a run no longer raises the question."""
        return True

    def same_cause(self, question: Question, run: ComparisonRun) -> Sequence[Question]:
        """The questions that have the same cause, including this one."""
        return (question,)

    def next_question(self, before: ComparisonRun, after: ComparisonRun) -> Question | None:
        """The question that an alternative raises instead, for a combined alternative."""
        return None

    def accept(self, question: Question, before: ComparisonRun, after: ComparisonRun) -> None:
        """Note that the assumptions of `after` are kept."""

    @abstractmethod
    def report(self, final: ComparisonRun) -> None:
        """Add what this hypothesis explains to the result."""


def search(
    compare: Compare,
    hypotheses: Sequence[Hypothesis[Any]],
    records: int,
    begin: Assumptions = NO_ASSUMPTIONS,
    has_time: Callable[[], bool] = lambda: True,
) -> ComparisonRun:
    """Compare a log under the assumptions that explain most divergences, in addition to those of
    `begin`. `records`: how many the log has. `has_time`: whether another comparison may begin."""
    is_recorded = any(one.needs_choices and one.runs(records) for one in hypotheses)

    def run(assumptions: Assumptions) -> ComparisonRun:
        choices = Choices(assumptions, is_recorded=is_recorded)
        return ComparisonRun(choices, compare(choices))

    best = run(begin)
    for one in hypotheses:
        best = _Improvement(run, one, best, one.runs(records), has_time).result()
    for one in hypotheses:
        one.report(best)
    return best


class _Improvement(Generic[Question]):
    """Improves a run by one hypothesis."""

    def __init__(
        self,
        run: Callable[[Assumptions], ComparisonRun],
        hypothesis: Hypothesis[Question],
        best: ComparisonRun,
        runs_max: int,
        has_time: Callable[[], bool],
    ) -> None:
        self._run = run
        self._has_time = has_time
        self._hypothesis = hypothesis
        self._best = best
        self._runs_left = runs_max

    def result(self) -> ComparisonRun:
        hypothesis = self._hypothesis
        given_up: set[Question] = set()
        unanswered = 0
        while self._may_run() and unanswered != hypothesis.unanswered_max:
            open_questions = (
                one for one in hypothesis.questions(self._best) if one not in given_up
            )
            question = next(open_questions, None)
            if question is None:
                break
            other = self._better(question, self._best, hypothesis.combined_max)
            if other is None:
                given_up.update(hypothesis.same_cause(question, self._best))
                unanswered += 1
            else:
                hypothesis.accept(question, self._best, other)
                self._best = other
        return self._best

    def _better(
        self, question: Question, before: ComparisonRun, combined: int
    ) -> ComparisonRun | None:
        """A run that answers the question and leaves fewer divergences than the best so far.

        The first one that raises no other question; if all do, the one with the fewest divergences.
        """
        hypothesis = self._hypothesis
        better: ComparisonRun | None = None
        for assumptions in hypothesis.alternatives(before, question):
            if not self._may_run():
                break
            self._runs_left -= 1
            other = self._run(assumptions)
            if not hypothesis.is_answered(question, other):
                continue
            following = hypothesis.next_question(before, other)
            if other.divergences < self._best.divergences:
                if following is None:
                    return other
                if better is None or other.divergences < better.divergences:
                    better = other
            elif better is None and following is not None and combined > 1:
                found = self._better(following, other, combined - 1)
                if found is not None:
                    return found
        return better

    def _may_run(self) -> bool:
        return self._runs_left > 0 and self._has_time()
