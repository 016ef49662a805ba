"""The failovers in a log as spans: one trace for each term that began in the log."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from controller.core.commands import Issued, Notice
from controller.core.events import Recorded
from controller.core.fold_observer import FoldObserver
from eventstore.reader import LogReader
from replay.logs.decode import decode_recorded
from replay.logs.recorded_fold import fold_at_start, fold_event

_BEGINS: Final = "elected"
_ENDS: Final = {"failover_done": "", "failover_failed": "failed", "resigned": "resigned"}
"""The notices that end a failover, and what is wrong then."""


class FailoverStep(NamedTuple):
    """The work of the controller by one rule. Times are nanoseconds since 1970."""

    rule: str
    begin_ns: int
    end_ns: int
    first_event: int
    commands: int


class FailoverSpan(NamedTuple):
    """From the election to the end of the failover. `fault`: empty if it was completed."""

    term: int
    begin_ns: int
    end_ns: int
    first_event: int
    last_event: int
    fault: str
    text: str
    steps: tuple[FailoverStep, ...]


def failovers(reader: LogReader) -> Iterator[FailoverSpan]:
    """Fold a log of the daemon, and yield each failover when it ends; one that the log does not
    end is not yielded. A step lasts until the first command of the next one."""
    fold = fold_at_start(reader)
    observer = fold.controller.observer = _Observer()
    for record in reader.events():
        fold_event(fold, decode_recorded(record))
        yield from observer.take()


class _Observer(FoldObserver):
    def __init__(self) -> None:
        self._found: list[FailoverSpan] = []
        self._began: tuple[int, int, int] | None = None
        self._steps: list[FailoverStep] = []
        self._begin_ns = 0
        self._now_ns = 0
        self._seq = 0

    def take(self) -> list[FailoverSpan]:
        found, self._found = self._found, []
        return found

    def folds(self, recorded: Recorded) -> None:
        # The monotonic clock counts: the wall clock may be set back.
        self._begin_ns = self._begin_ns or recorded.wall_ns - recorded.mono_ns
        self._now_ns = self._begin_ns + recorded.mono_ns
        self._seq = recorded.seq

    def issues(self, issued: Issued) -> None:
        if isinstance(issued.command, Notice):
            self._notice(issued.command, issued.term)
        elif self._began is not None:
            self._command(issued.reason.rule)

    def _notice(self, notice: Notice, term: int) -> None:
        if notice.code == _BEGINS:
            self._began, self._steps = (term, self._now_ns, self._seq), []
        elif notice.code in _ENDS and self._began is not None:
            term, begin_ns, first = self._began
            self._end_step()
            steps, fault = tuple(self._steps), _ENDS[notice.code]
            self._found.append(
                FailoverSpan(
                    term, begin_ns, self._now_ns, first, self._seq, fault, notice.text, steps
                )
            )
            self._began = None

    def _command(self, rule: str) -> None:
        if self._steps and self._steps[-1].rule == rule:
            last = self._steps[-1]
            self._steps[-1] = last._replace(commands=last.commands + 1)
            return
        self._end_step()
        self._steps.append(FailoverStep(rule, self._now_ns, self._now_ns, self._seq, 1))

    def _end_step(self) -> None:
        if self._steps:
            self._steps[-1] = self._steps[-1]._replace(end_ns=self._now_ns)
