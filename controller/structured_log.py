"""Log messages on standard error: one JSON object per line, or text on a terminal."""

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

from controller.escaping import escape_unprintable

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """One JSON object per line: time (UTC), level, logger, message, then the `extra` attributes.
    The entries of a dict `extra["fields"]` become top-level fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line of JSON."""
        document = {
            "time": utc_time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        line = msgspec.json.encode(document, enc_hook=str).decode()
        if line.isprintable():
            return line
        # Names that clients choose may contain characters that control a terminal.
        return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in line)


class TextLines(logging.Formatter):
    """Formats messages as text for people: time, level, message, then the fields as name=value. The
    message begins with the subject if it does not name it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, followed by the traceback if there is one."""
        fields, message = _fields(record), record.getMessage()
        subject = str(fields.get("subject", ""))
        if subject not in message:
            message = f"{subject}: {message}"
        named = "".join(f" {name}={value}" for name, value in fields.items())
        text = escape_unprintable(message + named)
        line = f"{utc_time(record.created)} {record.levelname:7} {text}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


MessageForm = Literal["auto", "json", "text"]

Level = Literal["info", "warning", "error"]
LEVELS: Final[Mapping[Level, int]] = {
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
"""The levels in the logging module."""


def configure(form: MessageForm, *more: str, level: Level = "info") -> None:
    """Log refold's messages from `level` on to standard error, those of libraries from "warning"
    on, or from "error" on if that is the level. `more` are further packages of refold."""
    is_text = form == "text" or (form == "auto" and sys.stderr.isatty())
    handler = logging.StreamHandler()
    handler.setFormatter(TextLines() if is_text else JsonLines())
    least = LEVELS[level]
    logging.basicConfig(level=max(logging.WARNING, least), handlers=[handler], force=True)
    for package in ("controller", "eventstore", *more):
        logging.getLogger(package).setLevel(least)
    # refold reports failures of these libraries itself, once; the libraries would log every
    # attempt.
    for library in ("aiokafka", "aiozk"):
        logging.getLogger(library).setLevel(logging.CRITICAL)


def utc_time(seconds: float) -> str:
    """A moment of the wall clock in ISO 8601, with milliseconds."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    extra = {name: value for name, value in vars(record).items() if name not in _STANDARD}
    fields = extra.pop("fields", {})
    return {**extra, **fields}
