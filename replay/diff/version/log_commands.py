"""Finds the commands that a version has in common with the log. They get the log's outcomes.

A command of the log can be taken after its event, or, unless it is a read, up to AHEAD_NS before:
a version that reads less is earlier.
"""

from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Final

from msgspec import Struct, field

from controller.core.canonical import digest, encode_command, kind_of
from controller.core.commands import (
    BrokerRequest,
    Command,
    CommandId,
    Issued,
    ReadStats,
    ReadZnodes,
    WriteAtomically,
    WriteZnodes,
)
from controller.core.operations import Create, SetData, WriteOperation
from eventstore.records import CommandRecord
from replay.diff.version.recorded_history import decoded_body

AHEAD_NS: Final = 200_000_000
"""The time by which a common command may be earlier than in the log."""

ItemKey = tuple[str, str, bytes | None]
Item = tuple["LogCommand", int]


class LogCommand(Struct, eq=False):
    """A command of the log, with the time of its event.

    The version's command that takes it is the `counterpart`; commands that take parts are in
    `items`. The first `answered` items have outcomes.
    """

    id: CommandId
    kind: str
    digest: bytes
    command: Command | None
    at_ns: int
    is_over: bool = False
    answered: int = 0
    counterpart: Issued | None = None
    items: dict[int, tuple[Issued, int]] = field(default_factory=dict)
    """By position in this command: the version's command, and the position there."""

    @property
    def is_free(self) -> bool:
        """Whether no part of the command is taken or answered."""
        return (
            self.counterpart is None and not self.items and not self.is_over and not self.answered
        )


class LogCommands:
    """The commands of the log that the version may issue, too."""

    def __init__(self) -> None:
        self.of: dict[CommandId, LogCommand] = {}
        self._by_digest: dict[bytes, deque[LogCommand]] = defaultdict(deque)
        self._items: dict[ItemKey, deque[Item]] = defaultdict(deque)

    def add(self, record: CommandRecord, at_ns: int) -> None:
        """Add a stored command."""
        id = CommandId(record.cause, record.ordinal)
        one = LogCommand(id, record.kind, record.digest, decoded_body(record), at_ns)
        self._add_command(one)
        for place, key in enumerate(_keys(one.command) if one.command is not None else ()):
            self._items[key].append((one, place))

    def add_request(self, id: CommandId, request: BrokerRequest, at_ns: int) -> None:
        """Add a request of the log's controller to a broker."""
        key = digest(encode_command(request))
        self._add_command(LogCommand(id, kind_of(request), key, request, at_ns))

    def _add_command(self, one: LogCommand) -> None:
        self.of[one.id] = one
        self._by_digest[one.digest].append(one)

    def adopt(self, issued: Issued) -> None:
        """Add a command that both have in common, and that has no outcome yet."""
        one = LogCommand(issued.id, "", b"", issued.command, 0, counterpart=issued)
        self.of[issued.id] = one

    def end(self, id: CommandId) -> None:
        """Note the last outcome of a command: it cannot be taken any more."""
        one = self.of.pop(id, None)
        if one is not None:
            one.is_over = True

    def take(self, issued: Issued, now_ns: int, *, ahead: bool) -> LogCommand | None:
        """Take the same command of the log as a whole; None if the log has none."""
        waiting = self._by_digest.get(digest(encode_command(issued.command)))
        if not waiting:
            return None
        for one in waiting:
            if one.is_free and _is_near(one, now_ns, ahead=ahead):
                waiting.remove(one)
                one.counterpart = issued
                return one
        return None

    def take_items(self, issued: Issued, now_ns: int) -> dict[int, LogCommand]:
        """Take the same items from commands of the log, by position in the version's command.

        The items of a read are taken only if the log has all of them and has already issued one of
        them. Otherwise the outcome would be late.
        """
        is_read = isinstance(issued.command, (ReadZnodes, ReadStats))
        found = {
            place: item
            for place, key in enumerate(_keys(issued.command))
            if (item := self._free_item(key, now_ns)) is not None
        }
        if is_read and not (
            len(found) == len(issued.command.paths)  # type: ignore[union-attr]
            and any(one.at_ns <= now_ns for one, _ in found.values())
        ):
            return {}
        for place, (one, there) in found.items():
            one.items[there] = (issued, place)
        return {place: one for place, (one, _) in found.items()}

    def _free_item(self, key: ItemKey, now_ns: int) -> Item | None:
        waiting = self._items.get(key)
        while waiting and waiting[0][0].is_over:
            waiting.popleft()
        for one, place in waiting or ():
            is_taken = one.is_over or one.counterpart is not None or place in one.items
            is_taken = is_taken or place < one.answered
            if not is_taken and _is_near(one, now_ns, ahead=True):
                return one, place
        return None


def _is_near(one: LogCommand, now_ns: int, *, ahead: bool) -> bool:
    return one.at_ns <= now_ns + (AHEAD_NS if ahead else 0)


def _keys(command: Command) -> Iterator[ItemKey]:
    """The items of a command that can be taken separately. An atomic write has none."""
    match command:
        case ReadZnodes(paths=paths):
            for path in paths:
                yield path, "data", None
        case ReadStats(paths=paths):
            for path in paths:
                yield path, "stat", None
        case WriteZnodes(operations=operations):
            for one in operations:
                yield _operation_key(one)
        case WriteAtomically():
            return
        case _:
            return


def _operation_key(one: WriteOperation) -> ItemKey:
    data = one.data if isinstance(one, (Create, SetData)) else None
    return one.path, str(one.__struct_config__.tag), data
