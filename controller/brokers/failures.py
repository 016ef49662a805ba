"""When a channel's trouble is told, and how long to wait before the next try. Pure."""

from controller.brokers.errors import ChannelError, RequestRefused, Unreachable

RETRY_S = 0.1
"""Between two tries of a broker that is down (KB 12.1.3)."""

REPEATED_FAULT_S = 1.0
"""Between two tries where trying again seldom helps; also the least time between two tellings."""

UNREACHABLE_REPORTED_AFTER_S = 1.0
"""A broker registers shortly before its port accepts: less than this is no trouble."""

CLOSED_REPORTED_AFTER_TIMES = 2
"""A broker that dies closes its connections too; one that closes again means the request."""


class FailureTracker:
    """The failures in a row of one channel."""

    def __init__(self) -> None:
        self._kind = ""
        self._times = 0
        self._since_s = 0.0
        self._reported: tuple[str, str] | None = None
        self._reported_at_s = 0.0

    def failed(self, error: ChannelError, began_s: float, now_s: float) -> bool:
        """A try that began at `began_s` failed now; says whether to tell of it."""
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
        """How long to wait before the next try."""
        first_close = (
            self._kind == RequestRefused.kind and self._times < CLOSED_REPORTED_AFTER_TIMES
        )
        return RETRY_S if self._kind == Unreachable.kind or first_close else REPEATED_FAULT_S

    def succeeded(self) -> bool:
        """A request was answered; says whether trouble had been told of, which is over now."""
        was_reported = self._reported is not None
        self._kind, self._reported = "", None
        return was_reported

    @property
    def is_reported(self) -> bool:
        """Whether the channel is in trouble that was told of."""
        return self._reported is not None

    def _is_certain(self, error: ChannelError, now_s: float) -> bool:
        match error:
            case Unreachable():
                return now_s - self._since_s >= UNREACHABLE_REPORTED_AFTER_S
            case RequestRefused():
                return self._times >= CLOSED_REPORTED_AFTER_TIMES
            case _:
                return True
