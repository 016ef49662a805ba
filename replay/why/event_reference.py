"""References to events, also of several logs that are read together."""

from typing import Self

from msgspec import Struct, structs

from replay.times import iso_time
from replay.why.facts import FAILOVERS, AssignmentWritten, Cause, Fact, StateWritten


class NumberInLog(int):
    """The number of an event in one of several logs.

    Numbers compare by the order of events over all logs. They print as the number in the event's
    log, with the name of that log: "12 of run-20261121T040000.000000000Z".
    """

    seq: int
    log: str

    def __new__(cls, order: int, seq: int, log: str) -> Self:
        """`order` counts the events of all logs, `seq` those of `log`."""
        number = super().__new__(cls, order)
        number.seq, number.log = seq, log
        return number

    def __str__(self) -> str:
        return f"{self.seq} of {self.log}"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


class EventReference(Struct, frozen=True):
    """An event, as plain values for --json. `log` names its log if several are read together."""

    seq: int
    time: str
    log: str = ""

    def __str__(self) -> str:
        return f"event {self.place} ({self.time})"

    @property
    def place(self) -> str:
        """The number of the event, with its log if several are read together."""
        return f"{self.seq} of {self.log}" if self.log else str(self.seq)


def reference_to(seq: int, wall_ns: int) -> EventReference:
    """The reference to an event with this number and wall-clock time."""
    return EventReference(number_in_log(seq), iso_time(wall_ns), log_of(seq))


def number_in_log(seq: int) -> int:
    """The number of an event in its log, as a plain number."""
    return seq.seq if isinstance(seq, NumberInLog) else seq


def log_of(seq: int) -> str:
    """The name of the log of an event; "" if only one log is read."""
    return seq.log if isinstance(seq, NumberInLog) else ""


def cause_of(fact: Fact) -> Cause | None:
    """The cause of a fact, as `plain_cause`. A failover that finds what another process wrote is
    not the cause of that write."""
    if isinstance(fact, AssignmentWritten | StateWritten) and not fact.rule and not fact.writer:
        is_found = fact.because is not None and fact.because.procedure in FAILOVERS
        if is_found:
            return None
    return plain_cause(fact.because)


def plain_cause(because: Cause | None) -> Cause | None:
    """The cause with the number of its event in its log, and the name of that log."""
    if because is None:
        return None
    return structs.replace(because, seq=number_in_log(because.seq), log=log_of(because.seq))
