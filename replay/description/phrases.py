"""Phrases that several descriptions share: brokers, leaders, assignments, counts."""

from collections.abc import Iterable, Sequence
from typing import Final

from controller.core.values import (
    NO_LEADER,
    Assignment,
    LeaderAndIsr,
    format_brokers,
    format_session,
)

_SHOWN: Final = 5


def broker_list(brokers: Iterable[int]) -> str:
    """Broker ids as Kafka's tools write them; "none" for none."""
    return format_brokers(brokers) or "none"


def first_few(texts: Iterable[str], separator: str = "; ") -> str:
    """The first few texts, and the number of the others."""
    items = list(texts)
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return (separator.join(items[:_SHOWN]) or "nothing") + more


def in_one_line(lines: Sequence[str]) -> str:
    """A description and the first few of its parts."""
    head, *parts = lines
    return f"{head}: {first_few(parts)}" if parts else head


def enumeration(texts: Iterable[str]) -> str:
    """Texts as an enumeration in a sentence."""
    *items, last = list(texts) or [""]
    return f"{', '.join(items)} and {last}" if items else last


def capitalized(text: str) -> str:
    """A text with a capital letter at its beginning."""
    return f"{text[:1].upper()}{text[1:]}"


def session_name(session: int) -> str:
    """A ZooKeeper session by its id."""
    return f"session {format_session(session)}"


def leader_in_words(broker: int) -> str:
    """The leader of a partition, or its absence."""
    return "no leader" if broker == NO_LEADER else f"leader {broker}"


def state_in_words(one: LeaderAndIsr) -> str:
    """A leader, its epoch and the ISR."""
    return f"{leader_in_words(one.leader)}, epoch {one.leader_epoch}, ISR {broker_list(one.isr)}"


def assignment_in_words(one: Assignment) -> str:
    """The replicas of an assignment, and those that are being added or removed."""
    parts = [f"replicas {broker_list(one.replicas)}"]
    if one.adding:
        parts.append(f"adding {broker_list(one.adding)}")
    if one.removing:
        parts.append(f"removing {broker_list(one.removing)}")
    return ", ".join(parts)
