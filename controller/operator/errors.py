"""Why something that an operator asked for cannot be done."""

from collections.abc import Sequence


class OperatorError(Exception):
    """Base of this room's errors."""


class StartRefused(OperatorError):
    """The daemon must not start; each reason is one line that says what to do."""

    def __init__(self, reasons: Sequence[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__("\n".join(reasons))


class ZooKeeperUnavailable(OperatorError):
    """No session, or none any more; the text says why."""
