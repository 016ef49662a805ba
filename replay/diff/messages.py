"""The messages between the two sides of a diff: a length of 4 bytes, then a msgpack map.

The compared version responds to each request with any number of messages, of which the last one is
`FoldedLog` or `FoldFailure`. The messages are stable: a field may be added with a default, because
readers ignore unknown fields. Any other change needs a new PROTOCOL. Fields that were renamed keep
their name in the messages.
"""

import struct
from typing import IO, Any, Final

import msgspec
from msgspec import Struct, field

from replay.diff.conditions import Place

PROTOCOL: Final = 1
"""The version of these messages. `Hello` has the version of the other side."""

DECISIONS_IN_A_MESSAGE: Final = 2000

_LENGTH: Final = struct.Struct(">I")


class Hello(Struct, frozen=True, tag_field="is", tag="hello"):
    """The first message of a version. It has this form in all protocols. `core` is the folder of
    its core's source; "" if the version is too old to report it."""

    protocol: int
    core_fingerprint: str
    code_version: str
    core: str = ""


class FoldLog(Struct, frozen=True, tag_field="is", tag="fold_log"):
    """The request to fold a log.

    `with_contents`: send the content and the choices of decisions, except for those with a key in
    `known`, the concatenation of keys of 16 bytes. `partitions` are the partitions whose timelines
    are sent. For an imported log, `settings` are broker settings, and `since` is the first event at
    which the versions decide differently, or 0. `with_executed`: measure which lines of the core
    are executed. `conditions` are the places whose outcomes are measured, by the file's path in the
    core.
    """

    log: str
    with_contents: bool = False
    known: bytes = b""
    partitions: tuple[tuple[str, int], ...] = ()
    settings: dict[str, str] = {}
    since: int = 0
    with_executed: bool = False
    conditions: dict[str, list[Place]] = {}


class Decision(Struct, frozen=True, omit_defaults=True):
    """One decision.

    `key` is a digest of its content. `channel` is its destination: order matters within a channel
    only. `seq` is the last event of the log before it, `turn` the number of the event that the
    version folded, `time_ns` the wall clock of that event, `event` its kind, and `cause` the
    controller event that was processed. `content` has plain values by field name; `choices` are
    those of the reason. `is_fenced`: a write that was refused because another controller had been
    elected, so it has no effect. `begun_ns` is the time of the first write of the same rule for the
    same controller event, 0 if the version does not know it.
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
    is_fenced: bool = False
    begun_ns: int = 0


class Decisions(Struct, frozen=True, tag_field="is", tag="decisions"):
    """A part of the decisions, in order."""

    decisions: list[Decision]


class FoldProgress(Struct, frozen=True, tag_field="is", tag="progress"):
    """The number of folded events, and of all events."""

    done: int
    total: int


class PartitionSample(Struct, frozen=True):
    """The state of a partition from a time on. `leader` is -1 for none. `is_online`: the leader is
    alive. `is_in_deletion`: its topic is queued for deletion."""

    time_ns: int
    leader: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    is_online: bool
    is_reassigned: bool = False
    is_in_deletion: bool = False


class PartitionTimeline(Struct, frozen=True):
    """The states of a partition in order, as the controller knew them."""

    topic: str
    partition: int
    samples: list[PartitionSample] = field(name="moments")


class Disagreement(Struct, frozen=True):
    """A decision in which this version and a stock controller differ, as in `refold agree`.

    `verdict` is differs, missing or extra; `subject` is decision or request. `cause` is the
    controller event and the rule in one text, which this protocol has for both (`EVENT: RULE`).
    `explained` is the rule by which the difference is not a fault, or "".
    """

    verdict: str
    subject: str
    kind: str
    seq: int
    zxid: int
    cause: str
    paths: tuple[str, ...]
    differences: tuple[str, ...]
    explained: str = ""

    @property
    def event_and_rule(self) -> tuple[str, str]:
        """The two parts of `cause`."""
        event, _, rule = self.cause.partition(": ")
        return event, rule


class AgreementSummary(Struct, frozen=True):
    """The agreement with stock controllers: how many of their decisions and requests were compared,
    and how many the version made, too; `by_rule` has the same numbers for each rule."""

    decisions: int
    agreed: int
    disagreements: list[Disagreement]
    by_rule: dict[str, tuple[int, int]] = {}


class FoldedLog(Struct, frozen=True, tag_field="is", tag="folded"):
    """The last message for a log.

    `left_at` is the event at which the version left the log, or became the controller of an
    imported cluster; 0 if the version did neither. `assumptions` are the assumptions after that,
    with their counts. `is_shadow`: the version was not the controller, so its decisions have no
    consequences. Then `agreed` is its agreement with the log's controllers, or None if the version
    is too old to report it. `executed` are the executed lines by the file's path in the core; None:
    not measured. `outcomes` are those of the request's conditions, in their order, by file; None:
    the version is too old to report them.
    """

    events: int
    end_ns: int
    left_at: int = 0
    assumptions: dict[str, int] = {}
    timelines: list[PartitionTimeline] = field(default_factory=list, name="courses")
    is_shadow: bool = field(default=False, name="is_beside")
    agreed: AgreementSummary | None = None
    executed: dict[str, list[int]] | None = None
    outcomes: dict[str, list[int]] | None = None


class FoldFailure(Struct, frozen=True, tag_field="is", tag="failed"):
    """The log cannot be folded. `is_fault`: because of a bug in the version, not of the log."""

    text: str
    is_fault: bool = False


Response = Hello | Decisions | FoldProgress | FoldedLog | FoldFailure

_encoder: Final = msgspec.msgpack.Encoder()
_responses: Final[msgspec.msgpack.Decoder[Response]] = msgspec.msgpack.Decoder(Response)
_requests: Final[msgspec.msgpack.Decoder[FoldLog]] = msgspec.msgpack.Decoder(FoldLog)


def write(stream: IO[bytes], message: Response | FoldLog) -> None:
    """Write a message."""
    body = _encoder.encode(message)
    stream.write(_LENGTH.pack(len(body)) + body)
    stream.flush()


def read_response(stream: IO[bytes]) -> Response | None:
    """Read the version's next message; None at the end. Raises msgspec.DecodeError."""
    body = _read_body(stream)
    return None if body is None else _responses.decode(body)


def read_request(stream: IO[bytes]) -> FoldLog | None:
    """Read the next request; None at the end. Raises msgspec.DecodeError."""
    body = _read_body(stream)
    return None if body is None else _requests.decode(body)


def _read_body(stream: IO[bytes]) -> bytes | None:
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    body = stream.read(length)
    return body if len(body) == length else None
