"""Decides when to report a channel's failures and how long to wait before a retry. Pure."""

from controller.brokers.errors import ChannelError, RefusedByBroker, Unreachable

RETRY_S = 0.1
"""Retry interval for a broker that is down (KB 12.1.3)."""

REPEATED_FAULT_S = 1.0
"""Retry interval for failures that a retry seldom fixes; also the minimum time between two
reports."""

UNREACHABLE_REPORTED_AFTER_S = 1.0
"""A broker registers shortly before its port accepts connections: shorter outages are not
reported."""

CLOSED_REPORTED_AFTER_TIMES = 2
"""A broker that stops closes its connections too. If it closes another one, the request is the
cause."""


class FailureTracker:
    """The consecutive failures of one channel."""

    def __init__(self) -> None:
        self._kind = ""
        self._times = 0
        self._since_s = 0.0
        self._reported: tuple[str, str] | None = None
        self._reported_at_s = 0.0

    def record_failure(self, error: ChannelError, began_s: float, now_s: float) -> bool:
        """An attempt that began at `began_s` failed. Return whether to report it."""
        if error.kind != self._kind:
            self._kind, self._times, self._since_s = error.kind, 0, began_s
        self._times += 1
        reason = (error.kind, str(error))
        if not self._is_certain(error, now_s) or reason == self._reported:
            return False
        if self._reported is not None and now_s - self._reported_at_s < REPEATED_FAULT_S:
            return False
        self._reported, self._reported_at_s = reason, now_s
        return True

    def pause_s(self) -> float:
        """The wait before the next attempt."""
        first_close = (
            self._kind == RefusedByBroker.kind and self._times < CLOSED_REPORTED_AFTER_TIMES
        )
        return RETRY_S if self._kind == Unreachable.kind or first_close else REPEATED_FAULT_S

    def record_success(self) -> bool:
        """A request was answered. Return whether failures were reported before, which are over
        now."""
        was_reported = self._reported is not None
        self._kind, self._reported = "", None
        return was_reported

    @property
    def is_reported(self) -> bool:
        """Whether the channel is failing and that was reported."""
        return self._reported is not None

    def _is_certain(self, error: ChannelError, now_s: float) -> bool:
        match error:
            case Unreachable():
                return now_s - self._since_s >= UNREACHABLE_REPORTED_AFTER_S
            case RefusedByBroker():
                return self._times >= CLOSED_REPORTED_AFTER_TIMES
            case _:
                return True
