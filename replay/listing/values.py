"""The items of the lists."""

from collections.abc import Iterable
from typing import Final, Protocol, get_args

from msgspec import Struct

from controller.core.canonical import kind_of
from controller.core.commands import Step
from controller.kafka_0_8.canonical import BROKER_STEPS
from eventstore.records import EventRecord
from replay.description.choices import LeaderChoice
from replay.names import controller_name
from replay.times import iso_time

STEPS: Final = frozenset(map(kind_of, get_args(Step))) | BROKER_STEPS


class ListedItem(Protocol):
    """An event or a decision in a list."""

    @property
    def term(self) -> int | None:
        """The controller epoch; None: the log has no terms."""

    @property
    def kind(self) -> str:
        """The kind of the event or decision."""

    @property
    def subjects(self) -> tuple[str, ...]:
        """The topics, partitions and brokers that the item is about."""


class ListedEvent(Struct, frozen=True):
    """An event. `term` is None in a log of the 0.8 design, which has no terms. `cause` is the event
    that caused the command of which this is the outcome, or that shows the same change of a znode
    in more detail."""

    seq: int
    time: str
    term: int | None
    kind: str
    channel: str
    cause: int | None
    text: str
    subjects: tuple[str, ...]


def listed_event(
    record: EventRecord,
    text: str,
    subjects: Iterable[str],
    cause: int | None = None,
    *,
    has_terms: bool = True,
) -> ListedEvent:
    """The item for a record, with its description, its subjects, and its cause if the record does
    not name one."""
    return ListedEvent(
        record.seq,
        iso_time(record.wall_ns),
        record.term if has_terms else None,
        record.kind,
        record.channel,
        record.cause or cause,
        text,
        tuple(dict.fromkeys(subjects)),
    )


class ListedDecision(Struct, frozen=True):
    """A decision. `seq` is the event at which it was made; for an imported log, the record of the
    write. `term` is None in a log of the 0.8 design. `command` names the command in a recorded log,
    "" in an imported log. `verdict` is that of `refold agree`, "" for a recorded log and if there
    is none. `is_kraft`: `broker` is the id of a KRaft controller."""

    seq: int
    time: str
    term: int | None
    broker: int
    kind: str
    command: str
    text: str
    rule: str
    choices: list[LeaderChoice]
    subjects: tuple[str, ...]
    verdict: str = ""
    is_kraft: bool = False

    @property
    def who(self) -> str:
        """The process that made the decision."""
        return controller_name(self.broker, is_kraft=self.is_kraft)

    @property
    def is_step(self) -> bool:
        """Whether it only prepares a decision: a read, a timer or a channel."""
        return self.kind in STEPS
