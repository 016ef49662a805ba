"""Writes the notices of a fold, and changes of its ZooKeeper session, as log messages."""

import logging
import time
from typing import Any, Final

import anyio

from controller.core.commands import IssuedCommand, Notice
from controller.core.events import SessionConnected, SessionDisconnected, SessionExpired
from controller.core.values import format_session

logger = logging.getLogger(__name__)

_LEVELS: Final = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_WINDOW_SECONDS: Final = 60.0


class NoticeLog:
    """Logs notices, of each code at most `per_minute_max` in a minute (None: no limit).

    A cluster can have a hundred thousand partitions, and standard error may block. The event log
    has every notice.
    """

    def __init__(self, per_minute_max: int | None = None) -> None:
        self.per_minute_max = per_minute_max
        self._windows: dict[str, _Window] = {}

    def log(self, notice: Notice, issued: IssuedCommand[Any]) -> None:
        """Log a notice, or count it as left out."""
        now_s = time.monotonic()
        window = self._windows.get(notice.code)
        if window is not None and window.is_over(now_s):
            self._end(notice.code)
            window = None
        if window is None:
            window = self._windows[notice.code] = _Window(now_s)
        if self.per_minute_max is not None and window.logged >= self.per_minute_max:
            window.left_out += 1
            window.level = max(window.level, _LEVELS[notice.level])
            return
        window.logged += 1
        log_notice(notice, issued)

    def report_left_out(self, *, is_end: bool = False) -> None:
        """Log how many notices were left out, for each code whose minute is over. With `is_end`:
        for all codes."""
        now_s = time.monotonic()
        for code in [
            one for one, window in self._windows.items() if is_end or window.is_over(now_s)
        ]:
            self._end(code)

    async def keep(self) -> None:
        """Report what was left out, until cancelled."""
        try:
            while True:
                await anyio.sleep(1)
                self.report_left_out()
        finally:
            self.report_left_out(is_end=True)

    def _end(self, code: str) -> None:
        window = self._windows.pop(code)
        if window.left_out:
            logger.log(
                window.level,
                "%d more messages with this code were left out (refold.messages.per.minute); "
                "refold log show --commands prints all of them",
                window.left_out,
                extra={"fields": {"code": code, "left_out": window.left_out}},
            )


class _Window:
    """A minute in which messages of one code are counted. `level`: the highest one left out."""

    def __init__(self, began_s: float) -> None:
        self._began_s = began_s
        self.logged = 0
        self.left_out = 0
        self.level = logging.NOTSET

    def is_over(self, now_s: float) -> bool:
        return now_s - self._began_s >= _WINDOW_SECONDS


def log_notice(notice: Notice, issued: IssuedCommand[Any]) -> None:
    """Log one line for the operator."""
    fields = {
        "code": notice.code,
        "subject": notice.subject,
        "event": issued.id.cause,
        "term": issued.term,
    }
    logger.log(_LEVELS[notice.level], "%s", notice.text, extra={"fields": fields})


def log_session(event: object, meanwhile: str = "the daemon acts on nothing meanwhile") -> None:
    """Log an event of the ZooKeeper session, after the fold has processed it. `meanwhile` is what
    happens without a connection."""
    match event:
        case SessionConnected(server=server, renewed=renewed):
            what = "session resumed" if renewed else "new session"
            logger.info("ZooKeeper %s: %s", server, what)
        case SessionDisconnected(cause=cause):
            logger.warning("lost the connection to ZooKeeper, %s: %s", meanwhile, cause)
        case SessionExpired(session_id=session_id):
            logger.warning("the ZooKeeper session %s expired", format_session(session_id))
