"""The choice of a leader in words: the rule, and the candidates that were passed over.

The rules are in controller/core/election.py.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from controller.core.commands import Choice
from controller.core.election import FIRST_LEADER, PREFERRED, UNCLEAN_LEADER
from replay.names import partition_name


class Candidate(Struct, frozen=True):
    """A replica that was passed over, and the reason."""

    broker: int
    why: str


class LeaderChoice(Struct, frozen=True):
    """The decision about one partition: the chosen broker (-1: none), the reason, and the
    candidates that were passed over."""

    partition: str
    chosen: int
    why: str
    passed_over: list[Candidate]


def leader_choice(choice: Choice) -> LeaderChoice:
    """A choice of the core as plain values."""
    partition = partition_name(choice.topic, choice.partition)
    return LeaderChoice(
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


def candidates_clause(found: Iterable[Candidate]) -> str:
    """The candidates that were passed over, with their reasons, as the last clause of a sentence;
    "" for none."""
    text = candidates_in_words(found)
    return f"; passed over: {text}" if text else ""


def candidates_in_brief(choice: Mapping[str, Any]) -> list[str]:
    """The candidates of a choice that is decoded from JSON, each as "1 (not online)"."""
    return [f"{broker} ({why})" for broker, why, *_ in choice.get("passed_over") or ()]


def rule_in_words(rule: str, code: str) -> str:
    """The chosen leader in words, by the rule and the code of the choice."""
    if rule == PREFERRED.name:
        return "the preferred replica"
    if rule == FIRST_LEADER or code == UNCLEAN_LEADER:
        return "the first replica that was online"
    return "the first replica that was online and in sync"


def passed_over_in_words(passed_over: Iterable[tuple[int, str]]) -> str:
    """Each candidate, as the core has them, with its reason; says so if there are none."""
    return candidates_in_words(candidates(passed_over)) or "no replica was passed over"
