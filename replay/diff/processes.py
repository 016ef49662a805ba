"""A version as a process, spoken to by `messages`."""

import os
import re
import subprocess
import tempfile
from typing import Final, Self

import msgspec
from msgspec import Struct, field

from replay.diff.errors import DiffError
from replay.diff.messages import (
    PROTOCOL,
    Decision,
    Decisions,
    Failed,
    Folded,
    FoldLog,
    FoldProgress,
    Hello,
    read_answer,
    write,
)
from replay.diff.references import Version
from replay.progress import Progress, unreported

_NO_PROTOCOL: Final = re.compile(r"No module named '?replay(\.diff(\.protocol)?)?\b(?!\.)")
"""What Python says where the protocol itself is not there."""


class Answered(Struct):
    """What a version has to say of a log."""

    decisions: list[Decision] = field(default_factory=list)
    folded: Folded = Folded(0, 0)


def environment_of(version: Version) -> dict[str, str]:
    """That of a process of a version: its own code comes first, wherever it is started and whatever
    else is installed."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    if version.folder is None:
        environment["PYTHONSAFEPATH"] = "1"
    else:
        environment["PYTHONPATH"] = str(version.folder)
    return environment


class VersionProcess:
    """One process of a version. A context manager; folds one log at a time."""

    def __init__(self, version: Version) -> None:
        """Raises DiffError where it cannot be started, or speaks another protocol."""
        self.version = version
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - for as long as the process
        self._process = subprocess.Popen(
            [version.python, "-m", "replay.diff.protocol"],
            cwd=version.folder,
            env=environment_of(version),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        try:
            self.hello = self._hello()
        except BaseException:
            self.close()
            raise

    def _hello(self) -> Hello:
        assert self._process.stdout is not None
        try:
            hello = read_answer(self._process.stdout)
        except msgspec.DecodeError:
            hello = None
        if not isinstance(hello, Hello):
            last = self._last_words()
            if _NO_PROTOCOL.search(last):
                raise DiffError(
                    f"{self.version.reference} is from before refold diff: it has no "
                    "replay.diff.protocol. Name a later version"
                )
            raise DiffError(f"{self.version.reference} does not start: {last}")
        if hello.protocol != PROTOCOL:
            raise DiffError(
                f"{self.version.reference} speaks protocol {hello.protocol} of refold diff, this "
                f"version {PROTOCOL}: run the diff of that version"
            )
        return hello

    def fold(self, request: FoldLog, progress: Progress = unreported) -> Answered:
        """Fold a log. Raises DiffError."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        answered = Answered()
        try:
            write(self._process.stdin, request)
            while True:
                match read_answer(self._process.stdout):
                    case Decisions(decisions=decisions):
                        answered.decisions += decisions
                    case FoldProgress(done=done, total=total):
                        progress("folding", done, total)
                    case Folded() as folded:
                        answered.folded = folded
                        return answered
                    case Failed(text=text, is_fault=is_fault):
                        raise DiffError(self._failure(request, text, is_fault=is_fault))
                    case _:
                        break
        except (BrokenPipeError, msgspec.DecodeError):
            pass
        raise DiffError(f"{self.version.reference} ended at {request.log}: {self._last_words()}")

    def _failure(self, request: FoldLog, text: str, *, is_fault: bool) -> str:
        if is_fault:
            return f"{self.version.reference} fails at {request.log}: {text}"
        return f"{request.log} cannot be used with {self.version.reference}: {text}"

    def _last_words(self) -> str:
        """The end of what it said on its standard error: the error and where it is."""
        self._process.kill()
        self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        if not lines:
            return f"it ended with status {self._process.returncode} and said nothing"
        places = [one.strip() for one in lines if one.lstrip().startswith("File ")]
        return f"{lines[-1]} ({places[-1]})" if places else lines[-1]

    def kill(self) -> None:
        """End it where it stands, from any thread: `fold` raises DiffError then."""
        self._process.kill()

    def close(self) -> None:
        """End the process."""
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
