"""A plan follows from its seed, and leaves enough brokers for producers."""

from itertools import islice
from typing import get_args

from tests.lab.incidents.random_plan import (
    BROKERS,
    SHORT_SEED,
    STAYING,
    Act,
    BringBack,
    CreateTopic,
    DeleteTopic,
    LeaveToStock,
    RandomPlan,
    Reassign,
    TakeDown,
    TakeOver,
)

SEEDS = range(20)
ACTS = 300


def acts_of(seed: int) -> list[Act]:
    return [act for act, _ in islice(RandomPlan(seed).acts(), ACTS)]


def test_same_seed_makes_the_same_acts() -> None:
    assert acts_of(7) == acts_of(7)
    assert acts_of(7) != acts_of(8)


def test_short_incident_has_acts_of_every_kind() -> None:
    assert {type(one) for one in acts_of(SHORT_SEED)[:16]} == set(get_args(Act))


def test_at_most_one_broker_is_down_at_a_time() -> None:
    for seed in SEEDS:
        down = None
        for act in acts_of(seed):
            match act:
                case TakeDown(broker):
                    assert down is None
                    down = broker
                case BringBack(broker):
                    assert broker == down
                    down = None


def test_refold_takes_the_role_only_after_leaving_it() -> None:
    for seed in SEEDS:
        moves = [act for act in acts_of(seed) if isinstance(act, LeaveToStock | TakeOver)]
        assert moves
        assert all(isinstance(act, LeaveToStock) for act in moves[::2])
        assert all(isinstance(act, TakeOver) for act in moves[1::2])


def test_replicas_are_distinct_and_permanent_topics_have_three() -> None:
    for seed in SEEDS:
        for act in acts_of(seed):
            if isinstance(act, Reassign):
                for (topic, _), target in act.targets.items():
                    assert (
                        len(set(target)) == len(target) == (3 if topic in STAYING else len(target))
                    )
                    assert set(target) <= set(BROKERS)


def test_topics_are_created_once_and_deleted_after_that() -> None:
    for seed in SEEDS:
        living: set[str] = set()
        gone: set[str] = set()
        for act in acts_of(seed):
            match act:
                case CreateTopic(topic):
                    assert topic not in living | gone
                    living.add(topic)
                case DeleteTopic(topic):
                    living.remove(topic)
                    gone.add(topic)
