"""The number of an event where several logs are read together."""

from typing import Self

from msgspec import structs

from replay.why.facts import Because


class Place(int):
    """An event of one of several logs.

    It compares by the order of events over all logs, and prints as its number in its own log with
    the name of that log: "12 of run-20261121T040000.000000000Z".
    """

    seq: int
    log: str

    def __new__(cls, order: int, seq: int, log: str) -> Self:
        """`order` counts the events of all logs, `seq` those of `log`."""
        place = super().__new__(cls, order)
        place.seq, place.log = seq, log
        return place

    def __str__(self) -> str:
        return f"{self.seq} of {self.log}"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


def number(seq: int) -> int:
    """The number of an event in its own log."""
    return seq.seq if isinstance(seq, Place) else seq


def log_of(seq: int) -> str:
    """The name of the log that an event is in; "" where only one log is read."""
    return seq.log if isinstance(seq, Place) else ""


def plain_cause(because: Because | None) -> Because | None:
    """The same with the number of its event in its own log, and the name of that log."""
    if because is None:
        return None
    return structs.replace(because, seq=number(because.seq), log=log_of(because.seq))
