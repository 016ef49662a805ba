"""Many runs on all cores.

The jobs are numbered; a worker takes the next number. What a job does depends only on the seed and
its number. Workers are new processes (spawn), so they share nothing but a few queues.

The garbage collector stays on. Without it, runs take about a tenth less time, but each leaves about
1 MB of memory.
"""

import multiprocessing
import queue
import signal
import time
from collections.abc import Callable
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, Final

import msgspec
from msgspec import Struct

from replay.errors import ReplayError
from replay.explore.coverage import Coverage
from replay.explore.generators.attempt import BudgetSpent, Case, Found
from replay.explore.generators.strategies import Start, do_job
from replay.explore.invariants.invariant import Violation

_REPORT_S: Final = 0.5
"""How often a worker reports its coverage."""
_POLL_S: Final = 0.2
_END_S: Final = 5.0
_QUEUED_MAX: Final = 1_000


class Budget(Struct, frozen=True):
    """When an exploration ends: after `seconds`, after `runs`, at the first violation."""

    seconds: float | None = None
    runs: int | None = None


class Explored(Struct):
    """The result: the first violation that was found with its case, and the coverage."""

    coverage: Coverage
    seconds: float
    case: Case | None = None
    violation: Violation | None = None
    was_interrupted: bool = False


Reporting = Callable[[Coverage, float], None]
"""Called with the coverage so far and the elapsed seconds."""

Prepare = Callable[[], None]
"""A function of a module, such as one that a test plants a defect with."""

_WorkOf = tuple[bytes, int, Prepare | None]
"""What a worker does: the start as JSON, and the seed."""


class _FoundMessage(Struct, tag="found"):
    case: Case
    violation: Violation


class _CoverageMessage(Struct, tag="coverage"):
    coverage: Coverage


class _FailedMessage(Struct, tag="failed"):
    text: str


_Message = _FoundMessage | _CoverageMessage | _FailedMessage


def explore(
    start: Start,
    seed: int,
    budget: Budget,
    workers: int,
    report: Reporting = lambda coverage, seconds: None,
    prepare: Prepare | None = None,
) -> Explored:
    """Explore until the budget is spent, a violation is found, or Ctrl-C.

    `prepare` is called first in each worker, or here if there is only one.
    """
    if workers == 1:
        if prepare is not None:
            prepare()
        return _explore_here(start, seed, budget, report)
    context = multiprocessing.get_context("spawn")
    pool = _Pool(context, (msgspec.json.encode(start), seed, prepare), workers)
    began = time.monotonic()
    explored = Explored(Coverage(), 0.0)
    try:
        while explored.case is None:
            if not pool.is_alive():
                pool.collect(explored)
                if explored.case is None:
                    raise ReplayError("all workers have ended; is there enough memory?")
                break
            pool.collect(explored)
            explored.seconds = time.monotonic() - began
            report(explored.coverage, explored.seconds)
            if _is_spent(budget, explored.coverage.runs, explored.seconds):
                break
    except KeyboardInterrupt:
        explored.was_interrupted = True
    finally:
        pool.end(explored)
    explored.seconds = time.monotonic() - began
    return explored


def _explore_here(start: Start, seed: int, budget: Budget, report: Reporting) -> Explored:
    """Explore in this process."""
    began = time.monotonic()
    explored = Explored(Coverage(), 0.0)

    def on_run(coverage: Coverage) -> bool:
        explored.coverage.add(coverage)
        explored.seconds = time.monotonic() - began
        report(explored.coverage, explored.seconds)
        return not _is_spent(budget, explored.coverage.runs, explored.seconds)

    job = 0
    try:
        while True:
            do_job(start, seed, job, on_run)
            job += 1
    except Found as found:
        explored.case, explored.violation = found.case, found.violation
    except BudgetSpent:
        pass
    except KeyboardInterrupt:
        explored.was_interrupted = True
    return explored


def _is_spent(budget: Budget, runs: int, seconds: float) -> bool:
    if budget.runs is not None and runs >= budget.runs:
        return True
    return budget.seconds is not None and seconds >= budget.seconds


class _Pool:
    """The worker processes, and the queue of their messages."""

    def __init__(self, context: SpawnContext, work: _WorkOf, workers: int) -> None:
        self._stop = context.Event()
        self._messages: Any = context.Queue(_QUEUED_MAX)
        # Kept: the lock of a value is removed with its last reference in this process.
        self._job = context.Value("q", 0)
        self._processes: list[SpawnProcess] = []
        # A worker inherits that it ignores Ctrl-C, also while it starts.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            for _ in range(workers):
                process = context.Process(
                    target=_work, args=(work, self._job, self._stop, self._messages), daemon=True
                )
                process.start()
                self._processes.append(process)
        finally:
            signal.signal(signal.SIGINT, before)

    def is_alive(self) -> bool:
        """Whether a worker is left."""
        return any(one.is_alive() for one in self._processes)

    def collect(self, explored: Explored) -> None:
        """Take the messages of the workers. Raises ReplayError if a worker failed."""
        try:
            message = self._messages.get(timeout=_POLL_S)
            while True:
                self._take(message, explored)
                message = self._messages.get_nowait()
        except queue.Empty:
            pass

    def _take(self, content: bytes, explored: Explored) -> None:
        message = msgspec.json.decode(content, type=_Message)
        match message:
            case _FoundMessage(case=case, violation=violation):
                if explored.case is None:
                    explored.case, explored.violation = case, violation
            case _CoverageMessage(coverage=coverage):
                explored.coverage.add(coverage)
            case _FailedMessage(text=text):
                raise ReplayError(f"a worker failed: {text}")

    def end(self, explored: Explored) -> None:
        """Stop the workers, and take their last messages."""
        self._stop.set()
        end = time.monotonic() + _END_S
        while self.is_alive() and time.monotonic() < end:
            self.collect(explored)
        for process in self._processes:
            if process.is_alive():
                process.terminate()
            process.join()
        self.collect(explored)
        self._messages.close()
        self._messages.cancel_join_thread()


def _work(work: _WorkOf, next_job: Any, stop: Any, messages: Any) -> None:
    """One worker. The main process handles Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    document, seed, prepare = work
    if prepare is not None:
        prepare()
    start = msgspec.json.decode(document, type=Start)
    reporter = _Reporter(messages, stop)
    try:
        while not stop.is_set():
            with next_job.get_lock():
                job = next_job.value
                next_job.value += 1
            do_job(start, seed, job, reporter.on_run)
    except Found as found:
        reporter.flush()
        messages.put(msgspec.json.encode(_FoundMessage(found.case, found.violation)))
    except BudgetSpent:
        reporter.flush()
    except Exception as error:
        messages.put(msgspec.json.encode(_FailedMessage(f"{type(error).__name__}: {error}")))


class _Reporter:
    """Adds up the coverage of a worker's runs between two messages."""

    def __init__(self, messages: Any, stop: Any) -> None:
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
        self._messages.put(msgspec.json.encode(_CoverageMessage(self._coverage)))
        self._coverage = Coverage()
        self._sent = time.monotonic()
