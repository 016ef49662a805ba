"""Why an operator's command failed."""

from collections.abc import Sequence


class OperatorError(Exception):
    """Base of the errors of operator commands."""


class StartRefused(OperatorError):
    """The daemon must not start. Each reason is one line that says what to do."""

    def __init__(self, reasons: Sequence[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__("\n".join(reasons))


class ZooKeeperUnavailable(OperatorError):
    """There is no session, or it was lost. The text says why."""


class NoDaemon(OperatorError):
    """No daemon answers on a status socket. The text says why."""


class LeftOverSocket(NoDaemon):
    """The daemon that listened on this socket was killed."""
