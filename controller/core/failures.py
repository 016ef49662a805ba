"""Partitions that a step could not handle: collected, then told to the operator together."""

import traceback
from collections.abc import Sequence
from pathlib import PurePath

from controller.core.commands import Choice
from controller.core.controller import Controller
from controller.core.errors import CoreError
from controller.core.state import Partition

_SHOWN = 20
EXCERPT_CHARACTERS = 2000
"""Of content that is removed or replaced: all of it stands in the event that read it."""


def describe(error: Exception) -> str:
    """An error in words that are the same on every machine and Python version."""
    if isinstance(error, CoreError):
        return str(error)
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {PurePath(where.filename).name}:{where.lineno}"


def listed(partitions: list[Partition]) -> str:
    """The names of the first of them, and how many more there are."""
    return listed_names([one.key for one in partitions])


def listed_names(names: Sequence[tuple[str, int]]) -> str:
    """The same for partitions by topic and number."""
    first = ", ".join(f"{topic}-{number}" for topic, number in names[:_SHOWN])
    rest = len(names) - _SHOWN
    return first + (f" and {rest} more" if rest > 0 else "")


def excerpt(data: bytes | None) -> str:
    """The content of a znode for a message."""
    return repr((data or b"")[:EXCERPT_CHARACTERS].decode("utf-8", "replace"))


class Failures:
    """What went wrong in one step, grouped by what went wrong.

    A failure of a cluster touches many partitions at once: one line for each kind names the first
    of them and counts the rest. What `told` holds of a partition is not told again.
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
        """A partition that stays as it is, and why. `election`: the candidates, if it got no leader
        because none of them is eligible."""
        self._controller.observer.fails(partition, self._code, text, election)
        if election is not None:
            self._elections[partition] = election
        if self._reported is not None:
            if self._reported.get(partition) == text:
                return
            self._reported[partition] = text
        self._by_text.setdefault(text, []).append(partition)

    def recovered(self, partition: Partition) -> None:
        """What failed before is well now: told anew should it fail again."""
        if self._reported:
            self._reported.pop(partition, None)

    def add_unreadable(self, path: str, text: str) -> None:
        """A znode that cannot be used; told at once."""
        self._controller.notice("error", "unreadable_znode", path, f"{text}; skipped")

    def report(self) -> None:
        """One notice a kind of failure."""
        for text, partitions in self._by_text.items():
            elections = tuple(self._elections[one] for one in partitions if one in self._elections)
            self._controller.notice("warning", self._code, listed(partitions), text, elections)
        self._by_text.clear()
        self._elections.clear()
