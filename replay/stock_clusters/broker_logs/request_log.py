"""Parses the request log: requests that a broker served, as JSON (RequestChannel).

Before Kafka 2.8 the same logger wrote a text form that cannot be parsed reliably. Lines in this
form are left out and noted.
"""

from math import ceil
from typing import Final

import msgspec
from msgspec import Struct

from replay.stock_clusters.broker_logs.lines import LogLine
from replay.stock_clusters.imported_log.api_requests import STOCK_APIS
from replay.stock_clusters.imported_log.events import RequestServed

_SERVED_BY_BROKERS: Final = (
    "LIST_PARTITION_REASSIGNMENTS",
    "CREATE_TOPICS",
    "DELETE_TOPICS",
    "CREATE_PARTITIONS",
    "ALTER_CONFIGS",
    "INCREMENTAL_ALTER_CONFIGS",
)
"""Requests of admin tools that are no events of a stock controller."""
_OF_CONTROLLERS: Final = ("LEADER_AND_ISR", "STOP_REPLICA", "UPDATE_METADATA")
WANTED: Final = frozenset(
    (*(name for one in STOCK_APIS for name in one.names), *_SERVED_BY_BROKERS, *_OF_CONTROLLERS)
)
"""Requests to a controller, and a controller's requests. The log also has all other requests."""

_OPENING: Final = "Completed request:"
_OF_TEXT_FORM: Final = (f"{_OPENING}RequestHeader(", f"{_OPENING} RequestHeader(")
TEXT_FORM: Final = "in the text form that Kafka wrote before 2.8"


class TextFormError(Exception):
    """A line is in the text form of Kafka before 2.8."""


class _Header(Struct):
    requestApiKeyName: str
    requestApiVersion: int
    correlationId: int
    clientId: str | None = None


class _Completed(Struct):
    requestHeader: _Header
    request: msgspec.Raw
    response: msgspec.Raw
    connection: str = ""
    totalTimeMs: float = 0.0


_decoder: Final = msgspec.json.Decoder(_Completed)


class MalformedLineError(Exception):
    """A line is not a completed request in JSON."""


def request_served(line: LogLine, broker: int) -> RequestServed | None:
    """The request in a line of `broker`'s log; None for requests that do not concern a controller.

    Raises MalformedLineError, TextFormError.
    """
    if line.message.startswith(_OF_TEXT_FORM):
        raise TextFormError
    if not line.message.startswith(_OPENING):
        raise MalformedLineError
    try:
        completed = _decoder.decode(line.message[len(_OPENING) :])
    except msgspec.DecodeError:
        raise MalformedLineError from None
    header = completed.requestHeader
    if header.requestApiKeyName not in WANTED:
        return None
    return RequestServed(
        broker,
        header.requestApiKeyName,
        header.requestApiVersion,
        header.clientId or "",
        header.correlationId,
        completed.connection,
        # The earliest possible arrival, so that no effect precedes it.
        line.time_ms - ceil(completed.totalTimeMs),
        bytes(completed.request),
        bytes(completed.response),
    )
