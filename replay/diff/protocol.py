"""The process of a compared version: `python -m replay.diff.protocol`.

It reads requests (`messages`) from standard input, folds one log after the other, and writes the
responses to standard output.
"""

import os
import sys
from pathlib import Path
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
    Failed,
    Folded,
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
from replay.errors import ReplayError
from replay.logs.open_log import open_reader
from replay.progress import Progress

_STEP: Final = 2000
"""The number of events between two messages about the progress."""


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Write `Hello`, then respond to each request."""
    write(answers, Hello(PROTOCOL, core_fingerprint(), code_version(), str(CORE)))
    while (request := read_request(requests)) is not None:
        _answer(request, answers)


def _answer(request: FoldLog, answers: IO[bytes]) -> None:
    decisions = DecisionRecorder(with_contents=request.with_contents, known=request.known)
    recorder = FoldRecorder(decisions, TimelineRecorder(request.partitions))
    try:
        folded = _fold(request, recorder, answers)
    except (LogError, ReplayError) as error:
        write(answers, Failed(str(error)))
        return
    except Exception as error:  # A bug in the version is reported with the log.
        where = _place_of(error)
        write(answers, Failed(f"{type(error).__name__}: {error}{where}", is_fault=True))
        return
    found = decisions.decisions
    for begin in range(0, len(found), DECISIONS_IN_A_MESSAGE):
        write(answers, Decisions(found[begin : begin + DECISIONS_IN_A_MESSAGE]))
    write(answers, folded)


def _fold(request: FoldLog, recorder: FoldRecorder, answers: IO[bytes]) -> Folded:
    log = Path(request.log)
    for damage in verify(log).damages:
        raise ReplayError(f"{damage.file}, {damage.record}: {damage.text}")
    with open_reader(log) as reader:
        if not request.with_executed:
            return fold_log(reader, recorder, _progress(answers), request.settings, request.since)
        with ExecutedLines() as executed:
            folded = fold_log(reader, recorder, _progress(answers), request.settings, request.since)
    return structs.replace(folded, executed=executed.by_file())


def _progress(answers: IO[bytes]) -> Progress:
    def report(what: str, done: int, total: int | None) -> None:
        if done % _STEP == 0:
            write(answers, FoldProgress(done, total or 0))

    return report


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
