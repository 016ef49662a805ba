"""The details of a decision that differs: the delay, and the choice of each version."""

from typing import Any

import pytest
from msgspec import structs

from replay.diff.grouping import divergences
from replay.diff.messages import Decision
from tests.replay.diff.samples import decision


def choice(
    chosen: int,
    *passed_over: tuple[int, str],
    topic: str = "t",
    partition: int = 0,
    code: str = "offline",
) -> dict[str, Any]:
    """A choice as versions report it."""
    passed = [list(one) for one in passed_over]
    return {
        "topic": topic,
        "partition": partition,
        "chosen": chosen,
        "code": code,
        "passed_over": passed,
    }


def state(leader: int, *choices: dict[str, Any]) -> Decision:
    """A write of the state of t-0."""
    return structs.replace(decision({"leader": leader}), choices=list(choices))


def details(base: Decision | None, head: Decision | None) -> tuple[str, ...]:
    [found] = divergences([base] if base else [], [head] if head else [])
    return found.details


def test_different_choices_are_named_with_the_replicas_that_were_passed_over() -> None:
    base = state(-1, choice(-1, (1, "not online"), (2, "not in sync")))
    head = state(2, choice(2, (1, "not online"), code="unclean leader"))
    assert details(base, head) == (
        "base, t-0: chose no leader (offline), passed over 1 (not online), 2 (not in sync)",
        "head, t-0: chose 2 (unclean leader), passed over 1 (not online)",
    )


def test_equal_choices_are_not_named() -> None:
    assert details(state(1, choice(1)), state(2, choice(1))) == ()


def test_choice_of_one_version_is_named() -> None:
    chosen = "t-0: chose 1 (offline)"
    assert details(state(1, choice(1)), state(2)) == (f"base, {chosen}",)
    assert details(state(2), state(1, choice(1))) == (f"head, {chosen}",)
    assert details(state(1, choice(1)), None) == (f"base, {chosen}",)
    assert details(None, state(1, choice(1))) == (f"head, {chosen}",)


def test_choices_for_other_partitions_are_not_named() -> None:
    base = state(1, choice(1), choice(1, topic="u"), choice(1, partition=1))
    head = state(2, choice(2), choice(2, topic="u"), choice(2, partition=1))
    assert details(base, head) == (
        "base, t-0: chose 1 (offline)",
        "head, t-0: chose 2 (offline)",
    )


def test_all_choices_are_named_for_a_decision_that_names_no_partition() -> None:
    base, head = (
        structs.replace(
            decision(leader, target="/brokers/topics/t"),
            choices=[choice(leader, partition=number) for number in (0, 1)],
        )
        for leader in (1, 2)
    )
    assert details(base, head) == (
        "base, t-0: chose 1 (offline)",
        "head, t-0: chose 2 (offline)",
        "base, t-1: chose 1 (offline)",
        "head, t-1: chose 2 (offline)",
    )


@pytest.mark.parametrize(("base_s", "head_s", "how"), [(1, 5, "later"), (5, 1, "earlier")])
def test_decision_with_other_content_has_its_delay(base_s: int, head_s: int, how: str) -> None:
    base, head = (
        decision({"leader": second}, seq=second, time_ns=second * 1_000_000_000)
        for second in (base_s, head_s)
    )
    assert details(base, head) == (f"head makes this decision 4.0 s {how}, at event {head_s}",)


def test_decision_of_one_version_has_no_delay() -> None:
    assert details(decision(1, time_ns=5_000_000_000), None) == ()
    assert details(None, decision(1, time_ns=5_000_000_000)) == ()
