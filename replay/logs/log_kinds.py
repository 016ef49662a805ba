"""The kinds of logs: who wrote a log decides which events it has and which commands read it."""

from enum import StrEnum

from eventstore.records import Header
from replay.logs.broker_log import is_of_broker


class LogKind(StrEnum):
    """A kind of log. Its value is its name in messages."""

    DAEMON = "daemon log"
    BROKER = "0.8 broker log"
    IMPORTED = "imported log"


def kind_of_log(header: Header) -> LogKind:
    """The kind of the log with this header."""
    if header.kind != "recorded":
        return LogKind.IMPORTED
    return LogKind.BROKER if is_of_broker(header) else LogKind.DAEMON
