"""The process of a compared version: `python -m replay.diff.protocol`.

It reads requests (`messages`) from standard input, folds one log after the other, and writes the
responses to standard output.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import IO, Final

import msgspec
from msgspec import structs

from controller.fingerprint import code_version, core_fingerprint
from eventstore.errors import LogError
from eventstore.verify import verify
from replay.diff.messages import (
    DECISIONS_IN_A_MESSAGE,
    PROTOCOL,
    Decisions,
    FoldedLog,
    FoldFailure,
    FoldLog,
    FoldProgress,
    Hello,
    read_request,
    write,
)
from replay.diff.version.decisions import DecisionRecorder
from replay.diff.version.executed_lines import CORE, ExecutedLines
from replay.diff.version.fold_recorder import FoldRecorder, TimelineRecorder
from replay.diff.version.folding import fold_log
from replay.diff.version.outcomes import ConditionOutcomes
from replay.errors import ReplayError
from replay.logs.open_log import open_reader
from replay.progress import Progress

_PROGRESS_INTERVAL_S: Final = 0.5


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Write `Hello`, then respond to each request."""
    write(answers, Hello(PROTOCOL, core_fingerprint(), code_version(), str(CORE)))
    outcomes = ConditionOutcomes({})
    while (request := read_request(requests)) is not None:
        if request.conditions and not outcomes.is_of(request.conditions):
            outcomes = ConditionOutcomes(request.conditions)
        _answer(request, outcomes, answers)


def _answer(request: FoldLog, outcomes: ConditionOutcomes, answers: IO[bytes]) -> None:
    decisions = DecisionRecorder(with_contents=request.with_contents, known=request.known)
    recorder = FoldRecorder(decisions, TimelineRecorder(request.partitions))
    try:
        folded = _fold(request, recorder, answers)
    except (LogError, ReplayError) as error:
        write(answers, FoldFailure(str(error)))
        return
    except Exception as error:  # A bug in the version is reported with the log.
        where = _place_of(error)
        write(answers, FoldFailure(f"{type(error).__name__}: {error}{where}", is_fault=True))
        return
    found = decisions.decisions
    for begin in range(0, len(found), DECISIONS_IN_A_MESSAGE):
        write(answers, Decisions(found[begin : begin + DECISIONS_IN_A_MESSAGE]))
    write(answers, structs.replace(folded, outcomes=outcomes.take()))


def _fold(request: FoldLog, recorder: FoldRecorder, answers: IO[bytes]) -> FoldedLog:
    log = Path(request.log)
    for damage in verify(log).damages:
        raise ReplayError(f"{damage.file}, {damage.record}: {damage.text}")
    with open_reader(log) as reader, _write_progress(answers) as progress:
        if not request.with_executed:
            return fold_log(reader, recorder, progress, request.settings, request.since)
        with ExecutedLines() as executed:
            folded = fold_log(reader, recorder, progress, request.settings, request.since)
    return structs.replace(folded, executed=executed.by_file())


@contextmanager
def _write_progress(answers: IO[bytes]) -> Iterator[Progress]:
    """Write the progress regularly, from another thread: even if a decision never ends, the last
    message has the event before it."""
    last, is_over = FoldProgress(0, 0), Event()

    def report(what: str, done: int, total: int | None) -> None:
        nonlocal last
        last = FoldProgress(done, total or 0)

    def write_regularly() -> None:
        # If the comparing version has exited, the fold fails when it writes its result.
        with suppress(OSError):
            while not is_over.wait(_PROGRESS_INTERVAL_S):
                write(answers, last)

    thread = Thread(target=write_regularly, name="progress", daemon=True)
    thread.start()
    try:
        yield report
    finally:
        is_over.set()
        thread.join()


def _place_of(error: Exception) -> str:
    """The file and line that raised an error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    return f" ({Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno})"


def main() -> None:
    """The process. Other output of the version goes to standard error, not between messages."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        serve(sys.stdin.buffer, answers)
    except (msgspec.DecodeError, BrokenPipeError):
        sys.exit("replay.diff.protocol: the request cannot be read, or its sender exited")


if __name__ == "__main__":
    main()
