"""The awaitables of a procedure: the outcome of a command, a connection, or the next slice.

A procedure is a coroutine that the fold drives (docs/design.md#the-path-of-an-event). It awaits one
of the values below. The fold feeds events to that value until it is complete, then sends it back.
"""

import types
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from controller.core.commands import CommandId
from controller.core.errors import TermEnded, ZnodeError
from controller.core.events import (
    BrokerResponded,
    ChildrenRead,
    NumbersDrawn,
    TimerFired,
    TopicIdsDrawn,
    ZnodesRead,
    ZnodesWritten,
)
from controller.core.operations import OK

T = TypeVar("T")


class ZnodeColumns:
    """Columns of znodes that were read, one entry for each path, in the order of the paths."""

    __slots__ = ("czxids", "data", "errors", "missing", "mzxids", "owners", "versions")

    def __init__(self, count: int) -> None:
        self.missing = count
        self.errors: list[int] = [0] * count
        self.data: list[bytes | None] = [None] * count
        self.versions: list[int] = [0] * count
        self.czxids: list[int] = [0] * count
        self.mzxids: list[int] = [0] * count
        self.owners: list[int] = [0] * count

    def add(self, event: ZnodesRead) -> bool:
        """Store a reply packet. Returns whether all entries are there."""
        place = slice(event.offset, event.offset + len(event.errors))
        self.errors[place] = event.errors
        self.data[place] = event.data
        self.versions[place] = event.versions
        self.czxids[place] = event.czxids
        self.mzxids[place] = event.mzxids
        self.owners[place] = event.owners
        self.missing -= len(event.errors)
        return self.missing <= 0


class ParsedZnodes(ZnodeColumns, Generic[T]):
    """Znodes that are parsed as they arrive, while ZooKeeper reads the others. `parsed` has the
    content of each, the error of an unreadable one, or None if the znode was not read; the bytes
    are not kept.
    """

    __slots__ = ("_parse", "_paths", "parsed")

    def __init__(self, paths: Sequence[str], parse: Callable[[str, bytes | None, int], T]) -> None:
        super().__init__(len(paths))
        self.parsed: list[T | ZnodeError | None] = [None] * len(paths)
        self._paths = paths
        self._parse = parse

    def add(self, event: ZnodesRead) -> bool:
        """Store a reply packet. Returns whether all entries are there."""
        is_complete = super().add(event)
        for place, error in enumerate(event.errors, event.offset):
            if error == OK:
                try:
                    self.parsed[place] = self._parse(
                        self._paths[place], self.data[place], self.versions[place]
                    )
                except ZnodeError as unreadable:
                    self.parsed[place] = unreadable
                self.data[place] = None
        return is_complete


class Writes:
    """Results of writes, one entry for each operation, in the order of the operations."""

    __slots__ = ("errors", "missing", "versions")

    def __init__(self, count: int) -> None:
        self.missing = count
        self.errors: list[int] = [0] * count
        self.versions: list[int] = [0] * count

    def add(self, event: ZnodesWritten) -> bool:
        """Store a reply packet. Returns whether all entries are there."""
        place = slice(event.offset, event.offset + len(event.errors))
        self.errors[place] = event.errors
        self.versions[place] = event.versions
        self.missing -= len(event.errors)
        return self.missing <= 0


class Children:
    """The reply to a list of children."""

    __slots__ = ("children", "error")

    def __init__(self) -> None:
        self.error = 0
        self.children: list[str] = []

    def add(self, event: ChildrenRead) -> bool:
        """Store the reply; it is complete."""
        self.error, self.children = event.error, event.children
        return True


class CommandResults:
    """Results of several commands that do not wait for each other, by command."""

    __slots__ = ("missing", "results")

    def __init__(self, results: "dict[CommandId, Writes] | dict[CommandId, Children]") -> None:
        self.results: dict[CommandId, Any] = dict(results)
        self.missing = len(results)

    def add(self, event: ZnodesWritten | ChildrenRead) -> bool:
        """Store the outcome of one command. Returns whether all outcomes are there."""
        if self.results[event.command].add(event):
            self.missing -= 1
        return self.missing <= 0


class TopicIds:
    """Topic ids that were drawn."""

    __slots__ = ("topic_ids",)

    def __init__(self) -> None:
        self.topic_ids: list[bytes] = []

    def add(self, event: TopicIdsDrawn) -> bool:
        """Store the reply; it is complete."""
        self.topic_ids = event.topic_ids
        return True


class Numbers:
    """Numbers that were drawn."""

    __slots__ = ("numbers",)

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def add(self, event: NumbersDrawn) -> bool:
        """Store the reply; it is complete."""
        self.numbers = event.numbers
        return True


class BrokerResponses:
    """The responses of brokers to some requests, or the end of a timer."""

    __slots__ = ("_timer", "_waiting")

    def __init__(self, requests: list[CommandId], timer: str) -> None:
        self._waiting = dict.fromkeys(requests)
        self._timer = timer

    def add(self, event: BrokerResponded | TimerFired) -> bool:
        """Note a response. Returns whether all are there, or the timer has fired."""
        if isinstance(event, TimerFired):
            return event.timer == self._timer
        if event.command not in self._waiting:
            return False
        del self._waiting[event.command]
        return not self._waiting


class Wait:
    """A suspension until `result` of the command `id` is complete."""

    __slots__ = ("id", "result")

    def __init__(self, id: CommandId | None, result: Any) -> None:
        self.id = id
        self.result = result

    def awaits(self, command: CommandId) -> bool:
        """Whether the procedure awaits the outcome of this command."""
        if isinstance(self.result, CommandResults):
            return command in self.result.results
        return command == self.id


SLICE: Final = Wait(None, None)
"""Long work lets the daemon ping and flush here; no event comes in between."""
CONNECTED: Final = Wait(None, None)
"""Wait until the session is connected again."""
PAUSE: Final = Wait(None, None)
"""Long work is between two parts: urgent controller events are handled before it resumes."""
TERM_END: Final = Wait(None, None)
"""The session is known to have ended: only TermEnded ends this wait."""


@types.coroutine
def suspend(wait: Wait) -> Generator[Wait, Any, Any]:
    """Return control to the fold until the awaited value is complete."""
    return (yield wait)


def break_off(procedure: Coroutine[Wait, Any, None]) -> None:
    """End a procedure at its current await, because its session has ended."""
    with suppress(TermEnded):
        procedure.throw(TermEnded())
