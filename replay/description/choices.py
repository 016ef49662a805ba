"""The choice of a leader: the broker that was chosen, and the candidates that were passed over."""

from collections.abc import Iterable

from msgspec import Struct

from controller.core.commands import Choice


class Candidate(Struct, frozen=True):
    """A replica that was passed over, and the reason."""

    broker: int
    why: str


class Chosen(Struct, frozen=True):
    """The decision about one partition: the chosen broker (-1: none), the reason, and the
    candidates that were passed over."""

    partition: str
    chosen: int
    why: str
    passed_over: list[Candidate]


def chosen(choice: Choice) -> Chosen:
    """A choice of the core as plain values."""
    partition = f"{choice.topic}-{choice.partition}"
    return Chosen(
        partition, choice.chosen, choice.code, candidates(choice.passed_over, choice.chosen)
    )


def candidates(
    passed_over: Iterable[tuple[int, str]], chosen: int | None = None
) -> list[Candidate]:
    """The candidates that were passed over: all but the chosen one."""
    return [Candidate(broker, why) for broker, why in passed_over if broker != chosen]


def candidates_in_words(found: Iterable[Candidate]) -> str:
    """Each candidate with its reason, "1 is not online, 2 is not in sync"; "" for none."""
    return ", ".join(f"{one.broker} is {one.why}" for one in found)


def passed_over_in_words(passed_over: Iterable[tuple[int, str]]) -> str:
    """The same for candidates as the core has them; says so if there are none."""
    return candidates_in_words(candidates(passed_over)) or "no replica was passed over"
