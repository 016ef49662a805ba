"""Errors in the operator's settings."""

from collections.abc import Sequence


class SettingsError(Exception):
    """The settings cannot be used. Each problem is one line with key, value and source."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problems))
