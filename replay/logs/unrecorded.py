"""Commands that were decided, but that a log does not have."""

from typing import NamedTuple

from controller.core.commands import CommandId
from replay.logs.folding import AnyIssued


class UnrecordedCommand(NamedTuple):
    """A command that is not stored, with the kind of the event that caused it."""

    event_kind: str
    issued: AnyIssued


class UnrecordedCommands:
    """The decided commands at the end of a log that are not stored.

    After a crash the last commands are not in the log, and may not have been carried out. A command
    is missing for another reason if a later command is stored, or if an event of the log answers a
    command of the same or a later event: the daemon stores commands before it stores answers.
    """

    def __init__(self) -> None:
        self._held_back: list[UnrecordedCommand] = []

    def __len__(self) -> int:
        return len(self._held_back)

    @property
    def first(self) -> CommandId | None:
        """The first command that is not stored; None if all are."""
        return self._held_back[0].issued.id if self._held_back else None

    def add(
        self, event_kind: str, issued: AnyIssued, *, is_stored: bool
    ) -> list[UnrecordedCommand]:
        """Add the next decided command. Returns the earlier ones that are missing for another
        reason."""
        if is_stored:
            return self.release(issued.id.cause)
        self._held_back.append(UnrecordedCommand(event_kind, issued))
        return []

    def release(self, last_seq: int) -> list[UnrecordedCommand]:
        """Remove and return the commands of events up to `last_seq`."""
        if not self._held_back:
            return []
        released = [one for one in self._held_back if one.issued.id.cause <= last_seq]
        self._held_back = self._held_back[len(released) :]
        return released
