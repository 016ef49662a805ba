"""What the two sides of a diff say to each other: lengths of 4 bytes, then msgpack maps.

The version's side answers to each request with any number of messages, the last of them `Folded`
or `Failed`. Kept stable: a field may be added with a default, since a reader passes over fields
that it does not know; anything else is a new PROTOCOL.
"""

import struct
from typing import IO, Any, Final

import msgspec
from msgspec import Struct

PROTOCOL: Final = 1
"""What is spoken here. `Hello` tells the one of the other side."""

DECISIONS_IN_A_MESSAGE: Final = 2000

_LENGTH: Final = struct.Struct(">I")


class Hello(Struct, frozen=True, tag_field="is", tag="hello"):
    """The first thing that a version says, and the only one that no other protocol may change."""

    protocol: int
    core_fingerprint: str
    code_version: str


class FoldLog(Struct, frozen=True, tag_field="is", tag="fold_log"):
    """Fold a log. `with_contents`: decisions come with their content and choices, but for those
    whose key is one of `known`, the keys of 16 bytes one after the other. `partitions` are those
    whose course is wanted. Of an imported log, `settings` are those of the brokers, and `since` is
    the event from which on the versions decide otherwise; 0: none is known."""

    log: str
    with_contents: bool = False
    known: bytes = b""
    partitions: tuple[tuple[str, int], ...] = ()
    settings: dict[str, str] = {}
    since: int = 0


class Decision(Struct, frozen=True, omit_defaults=True):
    """One thing that was decided.

    `key` is a digest of what it says, `channel` where it goes: order is promised within one only.
    `seq` is the event of the log that came last, `turn` the event of the version's own, `time_ns`
    its wall clock; `event` is the kind of the event, `cause` the controller event under way.
    `content` is made of plain values, by the names of fields; `choices` are those of its reason.
    """

    key: bytes
    channel: str
    kind: str
    target: str
    rule: str
    seq: int
    turn: int
    time_ns: int
    event: str
    cause: str = ""
    content: dict[str, Any] | None = None
    choices: list[dict[str, Any]] = []


class Decisions(Struct, frozen=True, tag_field="is", tag="decisions"):
    """Some of what was decided, in order."""

    decisions: list[Decision]


class FoldProgress(Struct, frozen=True, tag_field="is", tag="progress"):
    """How many events of the log are folded, of how many."""

    done: int
    total: int


class Sample(Struct, frozen=True):
    """A partition from a time on. `leader` -1: none; `is_online`: its leader is there."""

    time_ns: int
    leader: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    is_online: bool
    is_reassigned: bool = False


class PartitionTimeline(Struct, frozen=True):
    """What became of a partition, as the controller knew it."""

    topic: str
    partition: int
    moments: list[Sample]


class Disagreement(Struct, frozen=True):
    """Where this version does not decide as a stock controller did, in the words of `refold agree`:
    `verdict` is differs, missing or extra, `subject` decision or request; `explained` is the rule
    that says why it is no fault, "" if none does."""

    verdict: str
    subject: str
    kind: str
    seq: int
    zxid: int
    cause: str
    paths: tuple[str, ...]
    differences: tuple[str, ...]
    explained: str = ""


class Agreed(Struct, frozen=True):
    """How many decisions of stock controllers, and requests of theirs, could be judged, and how
    many of these the version made, too: also by the rules by which it was deciding."""

    decisions: int
    agreed: int
    disagreements: list[Disagreement]
    by_rule: dict[str, tuple[int, int]] = {}


class Folded(Struct, frozen=True, tag_field="is", tag="folded"):
    """The end of a log. `left_at` is the event at which the version wanted something that is not
    in the log, or became the controller of an imported one, 0 if never; `assumptions` what was
    supposed from then on, with how often. `is_beside`: another controller's decisions count,
    nothing follows from the version's own; then `agreed` says how far it decides as that one, None
    where a version does not tell."""

    events: int
    end_ns: int
    left_at: int = 0
    assumptions: dict[str, int] = {}
    courses: list[PartitionTimeline] = []
    is_beside: bool = False
    agreed: Agreed | None = None


class Failed(Struct, frozen=True, tag_field="is", tag="failed"):
    """The log cannot be folded. `is_fault`: by a fault of this version, not of the log."""

    text: str
    is_fault: bool = False


Answer = Hello | Decisions | FoldProgress | Folded | Failed

_encoder: Final = msgspec.msgpack.Encoder()
_answers: Final[msgspec.msgpack.Decoder[Answer]] = msgspec.msgpack.Decoder(Answer)
_requests: Final[msgspec.msgpack.Decoder[FoldLog]] = msgspec.msgpack.Decoder(FoldLog)


def write(stream: IO[bytes], message: Answer | FoldLog) -> None:
    """Say something."""
    body = _encoder.encode(message)
    stream.write(_LENGTH.pack(len(body)) + body)
    stream.flush()


def read_answer(stream: IO[bytes]) -> Answer | None:
    """What the version says next; None at its end. Raises msgspec.DecodeError."""
    body = _read(stream)
    return None if body is None else _answers.decode(body)


def read_request(stream: IO[bytes]) -> FoldLog | None:
    """What is asked for next; None if nothing more is. Raises msgspec.DecodeError."""
    body = _read(stream)
    return None if body is None else _requests.decode(body)


def _read(stream: IO[bytes]) -> bytes | None:
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    body = stream.read(length)
    return body if len(body) == length else None
