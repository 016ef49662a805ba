"""What runs in each version: `python -m replay.diff.protocol` speaks `messages` on its standard
streams. It folds one log after the other, until nothing more is asked."""

import os
import sys
from pathlib import Path
from typing import IO, Final

import msgspec

from controller.fingerprint import code_version, core_fingerprint
from eventstore.errors import LogError
from eventstore.reader import LogReader
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
from replay.diff.version.decided import Deciding
from replay.diff.version.fold_options import Wanted
from replay.diff.version.folding import fold_log
from replay.diff.version.imported import fold_imported
from replay.diff.version.partition_timelines import Courses
from replay.errors import ReplayError
from replay.logs.decode import UPCASTERS
from replay.progress import Progress

_STEP: Final = 2000
"""Events from one message about the progress to the next."""


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Say hello, then do what is asked for."""
    write(answers, Hello(PROTOCOL, core_fingerprint(), code_version()))
    while (request := read_request(requests)) is not None:
        _answer(request, answers)


def _answer(request: FoldLog, answers: IO[bytes]) -> None:
    deciding = Deciding(with_contents=request.with_contents, known=request.known)
    wanted = Wanted(deciding, Courses(request.partitions))
    try:
        folded = _fold(request, wanted, answers)
    except (LogError, ReplayError) as error:
        write(answers, Failed(str(error)))
        return
    except Exception as error:  # Whatever a version does wrong is told, with the log it was at.
        where = _place_of(error)
        write(answers, Failed(f"{type(error).__name__}: {error}{where}", is_fault=True))
        return
    decisions = deciding.decisions
    for place in range(0, len(decisions), DECISIONS_IN_A_MESSAGE):
        write(answers, Decisions(decisions[place : place + DECISIONS_IN_A_MESSAGE]))
    write(answers, folded)


def _fold(request: FoldLog, wanted: Wanted, answers: IO[bytes]) -> Folded:
    log = Path(request.log)
    for damage in verify(log).damages:
        raise ReplayError(f"{damage.file}, {damage.record}: {damage.text}")
    with LogReader.open(log, UPCASTERS) as reader:
        progress = _progress(answers)
        if reader.header.kind == "recorded":
            return fold_log(reader, wanted, progress)
    return fold_imported(log, wanted, request.settings, progress, request.since)


def _progress(answers: IO[bytes]) -> Progress:
    def report(what: str, done: int, total: int | None) -> None:
        if done % _STEP == 0:
            write(answers, FoldProgress(done, total or 0))

    return report


def _place_of(error: Exception) -> str:
    """The last line of the version's own code that it comes from."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    return f" ({Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno})"


def main() -> None:
    """The process: what it prints by accident must not come between the messages."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        serve(sys.stdin.buffer, answers)
    except (msgspec.DecodeError, BrokenPipeError):
        sys.exit("replay.diff.protocol: spoken to in another protocol, or not any more")


if __name__ == "__main__":
    main()
