"""Runs a version of the code in a process, which exchanges `messages`."""

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final, Self

import msgspec
from msgspec import Struct, field

from replay.diff.messages import (
    PROTOCOL,
    Decision,
    Decisions,
    FoldedLog,
    FoldFailure,
    FoldLog,
    FoldProgress,
    Hello,
    read_response,
    write,
)
from replay.diff.references import Version
from replay.errors import DiffError
from replay.progress import Progress, unreported

_NO_PROTOCOL: Final = re.compile(r"No module named '?replay(\.diff(\.protocol)?)?\b(?!\.)")
"""Python's error for a version without the protocol."""

START_S: Final = 300.0
"""How long a version may take to start: on a busy machine, the imports alone take long."""
_CHECK_INTERVAL_S: Final = 1.0


class FoldResult(Struct):
    """The response of a version for a log."""

    decisions: list[Decision] = field(default_factory=list)
    folded: FoldedLog = FoldedLog(0, 0)


def environment_of(version: Version, hash_seed: int | None = None) -> dict[str, str]:
    """The environment for a process of a version. The version's code is imported first, whatever
    the current folder is and whatever is installed."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    if hash_seed is not None:
        environment["PYTHONHASHSEED"] = str(hash_seed)
    if version.folder is None:
        environment["PYTHONSAFEPATH"] = "1"
    else:
        environment["PYTHONPATH"] = str(version.folder)
    return environment


class VersionProcess:
    """A process of a version. It folds one log at a time. A context manager."""

    def __init__(
        self,
        version: Version,
        *,
        hash_seed: int | None = None,
        patience_s: float | None = None,
        start_s: float = START_S,
    ) -> None:
        """`patience_s` is how long the version may report no progress, by default forever. If it is
        set, the version is stopped after `start_s` if it does not start.

        Raises DiffError if the version cannot be started or has another protocol.
        """
        self.version = version
        self._patience_s = patience_s
        self._start_s = start_s
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        self._process = subprocess.Popen(
            [version.python, "-m", "replay.diff.protocol"],
            cwd=version.folder,
            env=environment_of(version, hash_seed),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        try:
            self.hello = self._watched_hello()
        except BaseException:
            self.close()
            raise

    def _watched_hello(self) -> Hello:
        if self._patience_s is None:
            return self._hello()
        with _watch_progress(self._process, self._start_s) as watch:
            try:
                return self._hello()
            except DiffError:
                if not watch.is_hanging:
                    raise
                raise DiffError(
                    f"{self.version.reference} does not start within {self._start_s:g} s"
                ) from None

    def _hello(self) -> Hello:
        assert self._process.stdout is not None
        try:
            hello = read_response(self._process.stdout)
        except msgspec.DecodeError:
            hello = None
        if not isinstance(hello, Hello):
            last = self._last_error()
            if _NO_PROTOCOL.search(last):
                raise DiffError(
                    f"{self.version.reference} is too old for refold diff: it has no "
                    "replay.diff.protocol. Name a later version"
                )
            raise DiffError(f"{self.version.reference} does not start: {last}")
        if hello.protocol != PROTOCOL:
            raise DiffError(
                f"{self.version.reference} has protocol {hello.protocol} of refold diff, this "
                f"version has {PROTOCOL}: use that version's refold diff"
            )
        return hello

    def fold(self, request: FoldLog, progress: Progress = unreported) -> FoldResult:
        """Fold a log. Raises DiffError. After an error the process cannot be used again."""
        if self._patience_s is None:
            return self._fold(request, progress)
        with _watch_progress(self._process, self._patience_s) as watch:
            try:
                return self._fold(request, _report_to_both(watch.report, progress))
            except DiffError:
                if not watch.is_hanging:
                    raise
                raise DiffError(
                    f"{self.version.reference}, {request.log}: no progress for "
                    f"{self._patience_s:g} s after event {watch.done}; the process was stopped"
                ) from None

    def _fold(self, request: FoldLog, progress: Progress) -> FoldResult:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        result = FoldResult()
        try:
            write(self._process.stdin, request)
            while True:
                match read_response(self._process.stdout):
                    case Decisions(decisions=decisions):
                        result.decisions += decisions
                    case FoldProgress(done=done, total=total):
                        progress("folding", done, total)
                    case FoldedLog() as folded:
                        result.folded = folded
                        return result
                    case FoldFailure(text=text, is_fault=is_fault):
                        raise DiffError(self._failure(request, text, is_fault=is_fault))
                    case _:
                        break
        except (BrokenPipeError, msgspec.DecodeError):
            pass
        raise DiffError(f"{self.version.reference} exited at {request.log}: {self._last_error()}")

    def _failure(self, request: FoldLog, text: str, *, is_fault: bool) -> str:
        if is_fault:
            return f"{self.version.reference} failed at {request.log}: {text}"
        return f"{request.log} cannot be used with {self.version.reference}: {text}"

    def _last_error(self) -> str:
        """Stop the process; the error at the end of its standard error, with the place."""
        self._process.kill()
        self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        if not lines:
            return f"exit status {self._process.returncode}, no error message"
        places = [one.strip() for one in lines if one.lstrip().startswith("File ")]
        return f"{lines[-1]} ({places[-1]})" if places else lines[-1]

    def close(self) -> None:
        """Close the streams and wait for the process; kill it if it does not exit."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        try:
            self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _report_to_both(one: Progress, other: Progress) -> Progress:
    def report(what: str, done: int, total: int | None) -> None:
        one(what, done, total)
        other(what, done, total)

    return report


class _ProgressWatch:
    """Records when a version last made progress."""

    def __init__(self) -> None:
        self.is_hanging = False
        self.done = 0
        self.last_progress = time.monotonic()

    def report(self, what: str, done: int, total: int | None) -> None:
        """Record progress, unless the version is still at the same event."""
        if done != self.done:
            self.done = done
            self.last_progress = time.monotonic()


@contextmanager
def _watch_progress(
    process: subprocess.Popen[bytes], patience_s: float
) -> Iterator[_ProgressWatch]:
    """Kill the process if it makes no progress."""
    watch, is_over = _ProgressWatch(), Event()

    def check() -> None:
        while not is_over.wait(min(_CHECK_INTERVAL_S, patience_s)):
            if time.monotonic() - watch.last_progress > patience_s:
                watch.is_hanging = True
                process.kill()
                return

    thread = Thread(target=check, name="patience", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        is_over.set()
        thread.join()
