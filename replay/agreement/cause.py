"""The controller event and the rule that a fold followed when it decided or sent a request."""

from typing import Final

from msgspec import Struct


class FoldCause(Struct, frozen=True):
    """A controller event by its name (`trigger_name`), and the rule of the fold's last command.

    Both are empty if no event had begun.
    """

    event: str = ""
    rule: str = ""

    def __str__(self) -> str:
        """The cause as reports show it."""
        return f"{self.event}: {self.rule}" if self.event else ""


NO_CAUSE: Final = FoldCause()
