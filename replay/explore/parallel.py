"""Many runs on all cores.

The jobs are numbered; a worker takes the next number. A job depends only on the seed and its
number. Workers are new processes (spawn). They share nothing but that number, an event that stops
them, and a pipe each.

The garbage collector stays on. Without it, runs take about a tenth less time, but each leaves about
1 MB of memory.
"""

import multiprocessing
import os
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from replay.errors import ReplayError
from replay.explore.coverage import Coverage
from replay.explore.generators.attempt import BudgetSpent, Case, ViolationFound
from replay.explore.generators.strategies import ExplorationStart, do_job
from replay.explore.invariants.invariant import Violation
from replay.worker_processes import begin_worker, how_ended, signals_wait

_REPORT_S: Final = 0.5
"""How often a worker reports its coverage."""
_POLL_S: Final = 0.2
_END_S: Final = 1.0
"""How long workers may take to end their runs. Ctrl-C ends the command within 2 s."""


class Budget(Struct, frozen=True):
    """When an exploration ends: after `seconds`, after `runs`, at the first violation."""

    seconds: float | None = None
    runs: int | None = None

    def is_spent(self, runs: int, seconds: float) -> bool:
        """Whether this number of runs or seconds is enough."""
        if self.runs is not None and runs >= self.runs:
            return True
        return self.seconds is not None and seconds >= self.seconds


class ExplorationResult(Struct):
    """The result: the first violation that was found with its case, and the coverage."""

    coverage: Coverage
    seconds: float
    case: Case | None = None
    violation: Violation | None = None
    was_interrupted: bool = False


ReportCoverage = Callable[[Coverage, float], None]
"""Called with the coverage so far and the elapsed seconds."""

Prepare = Callable[[], None]
"""A function of a module, such as one that a test plants a defect with."""

_WorkOf = tuple[bytes, int, Prepare | None]
"""The task of a worker: the start as JSON, and the seed."""


class _FoundMessage(Struct, tag="found"):
    case: Case
    violation: Violation


class _CoverageMessage(Struct, tag="coverage"):
    coverage: Coverage


class _FailedMessage(Struct, tag="failed"):
    text: str


_Message = _FoundMessage | _CoverageMessage | _FailedMessage


def explore(
    start: ExplorationStart,
    seed: int,
    budget: Budget,
    workers: int,
    report: ReportCoverage = lambda coverage, seconds: None,
    prepare: Prepare | None = None,
) -> ExplorationResult:
    """Explore until the budget is spent, a violation is found, or Ctrl-C.

    `prepare` is called first in each worker, or here if there is only one.
    """
    if workers == 1:
        if prepare is not None:
            prepare()
        return _explore_here(start, seed, budget, report)
    pool = _Pool((msgspec.json.encode(start), seed, prepare))
    began = time.monotonic()
    explored = ExplorationResult(Coverage(), 0.0)
    try:
        pool.start(workers)
        while explored.case is None:
            pool.collect(explored)
            explored.seconds = time.monotonic() - began
            report(explored.coverage, explored.seconds)
            if budget.is_spent(explored.coverage.runs, explored.seconds):
                break
    except KeyboardInterrupt:
        explored.was_interrupted = True
    finally:
        pool.end(explored)
    explored.seconds = time.monotonic() - began
    return explored


def _explore_here(
    start: ExplorationStart, seed: int, budget: Budget, report: ReportCoverage
) -> ExplorationResult:
    """Explore in this process."""
    began = time.monotonic()
    explored = ExplorationResult(Coverage(), 0.0)

    def on_run(coverage: Coverage) -> bool:
        explored.coverage.add(coverage)
        explored.seconds = time.monotonic() - began
        report(explored.coverage, explored.seconds)
        return not budget.is_spent(explored.coverage.runs, explored.seconds)

    job = 0
    try:
        while True:
            do_job(start, seed, job, on_run)
            job += 1
    except ViolationFound as found:
        explored.case, explored.violation = found.case, found.violation
    except BudgetSpent:
        pass
    except KeyboardInterrupt:
        explored.was_interrupted = True
    explored.seconds = time.monotonic() - began
    return explored


class _Worker(NamedTuple):
    process: SpawnProcess
    messages: Connection


class _Pool:
    """The worker processes.

    Each has its own pipe for messages: if a worker is killed, only its unfinished message is lost.
    """

    def __init__(self, work: _WorkOf) -> None:
        self._work = work
        self._context = multiprocessing.get_context("spawn")
        self._stop = self._context.Event()
        self._job = self._context.Value("q", 0)
        self._workers: list[_Worker] = []
        self._open: dict[Connection, SpawnProcess] = {}

    def start(self, workers: int) -> None:
        """Start the worker processes."""
        for _ in range(workers):
            messages, sender = self._context.Pipe(duplex=False)
            shared = (self._work, self._job, self._stop, sender)
            process = self._context.Process(target=_work, args=shared, daemon=True)
            with signals_wait():
                process.start()
                self._workers.append(_Worker(process, messages))
                self._open[messages] = process
            # The pipe ends with the worker only if no other process can write to it.
            sender.close()

    def collect(self, explored: ExplorationResult) -> None:
        """Take the messages of the workers. Raises ReplayError if a worker failed or ended."""
        for messages in wait(list(self._open), timeout=_POLL_S):
            assert isinstance(messages, Connection)
            try:
                content = messages.recv_bytes()
            except (EOFError, OSError):
                self._join_worker(self._open.pop(messages), explored)
            else:
                self._add(content, explored)

    def _join_worker(self, process: SpawnProcess, explored: ExplorationResult) -> None:
        """A worker ends when it has found a violation, or is stopped."""
        process.join()
        if explored.case is None and not self._stop.is_set():
            raise ReplayError(
                f"a worker process ended {how_ended(process.exitcode)}; is there enough memory? "
                "Run again, perhaps with fewer --workers"
            )

    def _add(self, content: bytes, explored: ExplorationResult) -> None:
        message = msgspec.json.decode(content, type=_Message)
        match message:
            case _FoundMessage(case=case, violation=violation):
                if explored.case is None:
                    explored.case, explored.violation = case, violation
            case _CoverageMessage(coverage=coverage):
                explored.coverage.add(coverage)
            case _FailedMessage(text=text):
                raise ReplayError(f"a worker failed: {text}")

    def end(self, explored: ExplorationResult) -> None:
        """Stop the workers, and take their last messages. A run that takes long is given up."""
        self._stop.set()
        end = time.monotonic() + _END_S
        try:
            while self._open and time.monotonic() < end:
                self.collect(explored)
        finally:
            for process, messages in self._workers:
                process.kill()
                process.join()
                messages.close()


def _work(work: _WorkOf, next_job: Any, stop: Any, messages: Connection) -> None:
    """One worker."""
    begin_worker()
    document, seed, prepare = work
    if prepare is not None:
        prepare()
    start = msgspec.json.decode(document, type=ExplorationStart)
    reporter = _Reporter(messages, stop)
    try:
        while not stop.is_set():
            with next_job.get_lock():
                job = next_job.value
                next_job.value += 1
            do_job(start, seed, job, reporter.on_run)
    except ViolationFound as found:
        reporter.flush()
        reporter.send(_FoundMessage(found.case, found.violation))
    except BudgetSpent:
        reporter.flush()
    except BrokenPipeError:
        # The main process has ended.
        os._exit(1)
    except Exception as error:
        reporter.send(_FailedMessage(f"{type(error).__name__}: {error}"))


class _Reporter:
    """Adds up the coverage of a worker's runs between two messages."""

    def __init__(self, messages: Connection, stop: Any) -> None:
        self._messages = messages
        self._stop = stop
        self._coverage = Coverage()
        self._sent = time.monotonic()

    def on_run(self, coverage: Coverage) -> bool:
        """Called after each run."""
        self._coverage.add(coverage)
        if time.monotonic() - self._sent >= _REPORT_S:
            self.flush()
        return not self._stop.is_set()

    def flush(self) -> None:
        """Send what is not sent yet."""
        self.send(_CoverageMessage(self._coverage))
        self._coverage = Coverage()
        self._sent = time.monotonic()

    def send(self, message: _Message) -> None:
        """Send a message to the main process."""
        self._messages.send_bytes(msgspec.json.encode(message))
