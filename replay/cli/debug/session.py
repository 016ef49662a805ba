"""The program's questions to the model. One thread does all of it, one question after another."""

import asyncio
import shlex
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Final, TypeVar

from msgspec import Struct, structs
from rich.console import RenderableType

from replay.cli.what_if_report import answer_parts
from replay.cluster_view.views import ClusterView
from replay.debug.cursor import Cursor, EventsAround
from replay.debug.event_view import EventView
from replay.errors import ReplayError
from replay.index.history import explain_by
from replay.index.store import EventIndex
from replay.inspect.changes import Change, changes
from replay.logs.decode import time_of
from replay.logs.open_log import OpenedLog
from replay.progress import Progress
from replay.what_if.changes import WhatIfChanges
from replay.what_if.continuing import what_if
from replay.what_if.saved_run import incident_of
from replay.why.daemon_terms import events_to_choose
from replay.why.explanations.explanation import Explanation
from replay.why.subject import Subject

_AROUND: Final = 100
_MARGIN: Final = 30
_OPTIONS: Final = ("set", "drop", "delay", "crash", "restart", "cancel-reassignment")

Result = TypeVar("Result")


class CancelledError(Exception):
    """The user pressed Escape."""


class DebugView(Struct, frozen=True):
    """The content of the panels: the events around the cursor, the event there, the state before
    and after it, and the differences. `damage`: why the later events cannot be read, if they
    cannot. `to_choose`: the `events_to_choose`."""

    around: Sequence[EventView]
    damage: str
    event: EventView
    before: ClusterView
    after: ClusterView
    changes: list[Change]
    to_choose: str


class DebugSession:
    """A log that is debugged."""

    def __init__(
        self, path: str, log: OpenedLog, cursor: Cursor, index: EventIndex | None = None
    ) -> None:
        """`index`: that of the log, for explanations."""
        self.path = path
        self.log = log
        self.cursor = cursor
        self.start = time_of(log.reader, cursor.first_seq)
        """The time of the first event."""
        self._index = index
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._cancelled = Event()
        self._around = EventsAround([])
        self._filter = ""

    async def run_in_thread(self, work: Callable[[Progress], Result], progress: Progress) -> Result:
        """Run some work in the thread. `progress` is called there. Raises CancelledError,
        ReplayError, LogError."""

        def report(what: str, done: int, total: int | None) -> None:
            if self._cancelled.is_set():
                raise CancelledError
            progress(what, done, total)

        self._cancelled.clear()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, work, report)

    def cancel(self) -> None:
        """End the work that runs at its next report."""
        self._cancelled.set()

    def close(self) -> None:
        """End the thread."""
        self.cancel()
        self._thread.shutdown()

    def view(self) -> DebugView:
        """The panels at the cursor. The list of events moves only when the cursor is near its
        end."""
        cursor = self.cursor
        before, after = cursor.clusters()
        if not self._is_inside():
            self._around = cursor.events_around(_AROUND, _AROUND)
            self._filter = cursor.filter
        events, damage = self._around
        event = next((one for one in events if one.seq == cursor.seq), None)
        return DebugView(
            events,
            damage,
            event or cursor.event,
            before,
            after,
            changes(before, after),
            events_to_choose(self.log.reader, after),
        )

    def _is_inside(self) -> bool:
        numbers = [one.seq for one in self._around.events]
        if self._filter != self.cursor.filter or self.cursor.seq not in numbers:
            return False
        place = numbers.index(self.cursor.seq)
        is_at_start = numbers[0] == self.cursor.first_seq or place >= _MARGIN
        is_at_end = numbers[-1] == self.cursor.last_seq or len(numbers) - place > _MARGIN
        return is_at_start and is_at_end

    def why(self, subject: Subject, progress: Progress) -> Explanation:
        """The explanation of `refold why` at the cursor."""
        return explain_by(self._index, self.log, subject, self.cursor.seq, progress)

    def what_if(self, text: str, progress: Progress) -> list[RenderableType]:
        """The answer of `refold what-if` to the options in `text`. If they change only settings,
        the continuation begins at the cursor."""
        asked = changes_named(text)
        if structs.replace(asked, set=()).is_empty:
            asked = structs.replace(asked, begin=self.cursor.seq)
        incident = incident_of(self.path, self.log, progress)
        answer, _ = what_if(incident, asked, progress)
        return [*answer_parts(answer, incident, [])]


def changes_named(text: str) -> WhatIfChanges:
    """The changes that options of `refold what-if` name. Raises ReplayError."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ReplayError(f"the options cannot be read: {error}") from None
    found: dict[str, list[str]] = {one: [] for one in _OPTIONS}
    rest = iter(words)
    for word in rest:
        option, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or option not in found:
            known = ", ".join(f"--{one}" for one in _OPTIONS)
            raise ReplayError(f"{word} is not one of {known}")
        given = value if equals else next(rest, None)
        if given is None:
            raise ReplayError(f"{word} needs a value")
        found[option].append(given)
    drops = found.pop("drop")
    if not all(one.isdecimal() for one in drops):
        raise ReplayError("--drop needs the number of an event")
    several = {name.replace("-", "_"): tuple(values) for name, values in found.items()}
    asked = WhatIfChanges(drop=tuple(map(int, drops)), **several)  # type: ignore[arg-type]
    if asked.is_empty:
        raise ReplayError("nothing is changed: give an option, such as --crash broker=2@81")
    return asked
