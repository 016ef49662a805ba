"""The records of a log: events, commands, headers and closing records."""

from typing import Any, Literal, NamedTuple

from msgspec import Struct

FORMAT = 1
"""The format version of segments and streams that this code writes."""

BODY_BYTES_MAX = 4096
"""A larger command body is not stored, since folding the log produces it again."""

Origin = Literal["exogenous", "reply"]


class EventRecord(NamedTuple):
    """An observation. Times are in nanoseconds; `cause` is the event whose command this answers.

    `schema` is the version of the payload's layout for its `kind`. `channel` is the connection that
    it arrived on; order is guaranteed only within a channel.
    """

    seq: int
    wall_ns: int
    mono_ns: int
    term: int
    kind: str
    schema: int
    channel: str
    origin: Origin
    cause: int | None
    payload: bytes


class CommandRecord(NamedTuple):
    """A decision on the event `cause`. `digest` covers the whole canonical body; `body` is None
    if it is larger than `BODY_BYTES_MAX`."""

    cause: int
    ordinal: int
    term: int
    kind: str
    target: str
    reason: bytes
    digest: bytes
    body: bytes | None


class Tip(Struct, frozen=True):
    """The end of a log: its last event, its number of commands, and both checksum chains."""

    last_seq: int
    commands: int
    event_chain: bytes
    command_chain: bytes


class Header(Struct, frozen=True, kw_only=True):
    """The data that is needed to interpret a segment's records. `predecessor` is the end of the
    previous segment; None in a log's first segment.
    """

    kind: Literal["recorded", "world-backed"]
    core_fingerprint: str
    code_version: str
    configuration: dict[str, Any]
    cluster_id: str
    created_ns: int
    first_seq: int = 1
    predecessor: Tip | None = None
    format: int = FORMAT


class Closing(Struct, frozen=True):
    """The last record of a log whose daemon stopped cleanly. Nothing follows `tip`."""

    closed_ns: int
    tip: Tip
