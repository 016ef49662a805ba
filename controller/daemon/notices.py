"""Writes the notices of a fold, and changes of its ZooKeeper session, as log messages."""

import logging
from typing import Any, Final

from controller.core.commands import IssuedCommand, Notice
from controller.core.events import SessionConnected, SessionDisconnected, SessionExpired

logger = logging.getLogger(__name__)

_LEVELS: Final = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


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
        case SessionExpired():
            logger.warning("the ZooKeeper session expired")
