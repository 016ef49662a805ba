"""What a check says."""

from typing import Literal

from msgspec import Struct

Level = Literal["ok", "warning", "error"]


class Finding(Struct, frozen=True):
    """One thing that a check found; `advice` says what to do where not all is well."""

    check: str
    level: Level
    text: str
    advice: str = ""

    @property
    def line(self) -> str:
        """The finding in one line."""
        return f"{self.text}: {self.advice}" if self.advice else self.text
