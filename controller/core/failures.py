"""Reports of what failed: an error that ended a procedure, and partitions that a step could not
handle, which are collected and reported in few notices."""

import traceback
from collections.abc import Sequence
from pathlib import PurePath

from controller.core.commands import Choice
from controller.core.controller import Controller
from controller.core.errors import CoreError
from controller.core.state import Partition

_SHOWN = 20
EXCERPT_CHARACTERS = 2000
"""The limit for content that is removed or replaced; the event that read it has all of it."""


def report_error(controller: Controller, code: str, subject: str, error: Exception) -> None:
    """Report an error that ended a procedure or a part of it. One that is no `CoreError` is a
    defect of the code, and the observer is called."""
    if not isinstance(error, CoreError):
        controller.observer.raises(error)
    controller.notice("error", code, subject, _error_text(error))


def _error_text(error: Exception) -> str:
    """An error as text that is the same on every machine and Python version."""
    if isinstance(error, CoreError):
        return str(error)
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {PurePath(where.filename).name}:{where.lineno}"


def listed(partitions: list[Partition]) -> str:
    """The names of the first partitions, and how many more there are."""
    return _with_rest([one.key for one in partitions[:_SHOWN]], len(partitions))


def listed_names(names: Sequence[tuple[str, int]]) -> str:
    """The names of the first partitions, given by topic and number, and how many more there are."""
    return _with_rest(names[:_SHOWN], len(names))


def _with_rest(first: Sequence[tuple[str, int]], count: int) -> str:
    names = ", ".join(f"{topic}-{number}" for topic, number in first)
    return names + (f" and {count - _SHOWN} more" if count > _SHOWN else "")


def excerpt(data: bytes | None) -> str:
    """The beginning of a znode's content, for a message."""
    return repr((data or b"")[:EXCERPT_CHARACTERS].decode("utf-8", "replace"))


class Failures:
    """The failures of one step, grouped by their text.

    A failure of a cluster concerns many partitions at once. One notice for each text names the
    first partitions and counts the rest. A text that `reported` has for a partition is not reported
    again.
    """

    def __init__(
        self, controller: Controller, code: str, reported: dict[Partition, str] | None = None
    ) -> None:
        self._controller = controller
        self._code = code
        self._reported = reported
        self._by_text: dict[str, list[Partition]] = {}
        self._elections: dict[Partition, Choice] = {}

    def add(self, partition: Partition, text: str, election: Choice | None = None) -> None:
        """Add a partition that could not be handled, and why. `election`: the candidates, if it got
        no leader because none is eligible."""
        self._controller.observer.fails(partition, self._code, text, election)
        if election is not None:
            self._elections[partition] = election
        if self._reported is not None:
            if self._reported.get(partition) == text:
                return
            self._reported[partition] = text
        self._by_text.setdefault(text, []).append(partition)

    def recovered(self, partition: Partition) -> None:
        """A partition is handled again: its next failure is reported."""
        if self._reported:
            self._reported.pop(partition, None)

    def add_unreadable(self, path: str, text: str) -> None:
        """Report a znode that cannot be used, at once."""
        self._controller.notice("error", "unreadable_znode", path, f"{text}; skipped")

    def report(self) -> None:
        """Issue one notice for each text."""
        for text, partitions in self._by_text.items():
            elections = tuple(self._elections[one] for one in partitions if one in self._elections)
            self._controller.notice("warning", self._code, listed(partitions), text, elections)
        self._by_text.clear()
        self._elections.clear()
