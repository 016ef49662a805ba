"""The records of a log: events, the commands beside them, and what stands around them."""

from typing import Any, Literal, NamedTuple

from msgspec import Struct

FORMAT = 1
"""The version of the layout of segments and streams that this code writes."""

BODY_BYTES_MAX = 4096
"""A command's body above this size is not stored: folding the log again gives it."""

Origin = Literal["exogenous", "reply"]


class EventRecord(NamedTuple):
    """What was observed. Times are nanoseconds; `cause` is the event whose command this answers.

    `schema` is the version of the payload's layout for its `kind`; `channel` the connection on
    which it came: order is promised within a channel only.
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
    """What was decided on the event `cause`. `digest` is of the whole canonical body; `body` is
    None where that is larger than `BODY_BYTES_MAX`."""

    cause: int
    ordinal: int
    term: int
    kind: str
    target: str
    reason: bytes
    digest: bytes
    body: bytes | None


class Tip(Struct, frozen=True):
    """How far a log has come: its last event, its number of commands, both checksum chains."""

    last_seq: int
    commands: int
    event_chain: bytes
    command_chain: bytes


class Header(Struct, frozen=True, kw_only=True):
    """What a segment's records need to be understood. `predecessor` is where the segment before
    this one ended; None in a log's first segment."""

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
    """The last record of a log whose daemon stopped cleanly: nothing came after `tip`."""

    closed_ns: int
    tip: Tip
