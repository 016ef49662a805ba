"""What the lists are made of."""

from msgspec import Struct

from controller.core.commands import Choice


class ListedEvent(Struct, frozen=True):
    """Something observed. `cause` is the event whose command it answers."""

    seq: int
    time: str
    term: int
    kind: str
    channel: str
    cause: int | None
    text: str
    subjects: tuple[str, ...]


class Candidate(Struct, frozen=True):
    """A replica that was not taken, and why."""

    broker: int
    why: str


class Chosen(Struct, frozen=True):
    """What was decided of one partition: the broker chosen (-1: none), why, and who was not."""

    partition: str
    chosen: int
    why: str
    passed_over: list[Candidate]


class Decision(Struct, frozen=True):
    """Something decided. `seq` is the event that it was decided at, of an imported log the record
    of what was written; `command` names it in a recorded log, "" in an imported one. `verdict` is
    what refold agree says of it, "" in a recorded log and where it was not judged."""

    seq: int
    time: str
    term: int
    broker: int
    kind: str
    command: str
    text: str
    rule: str
    choices: list[Chosen]
    subjects: tuple[str, ...]
    verdict: str = ""


def chosen(choice: Choice) -> Chosen:
    """A choice of the core, for people."""
    passed_over = [Candidate(*one) for one in choice.passed_over if one[0] != choice.chosen]
    partition = f"{choice.topic}-{choice.partition}"
    return Chosen(partition, choice.chosen, choice.code, passed_over)
