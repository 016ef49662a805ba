"""Invariants while reassignments are requested by every route, cancelled and interrupted.

A cancelled reassignment ends with the original replicas in their order, or waits and reports that.
This holds for any order of responses, ISR changes, failures and writes of other clients.
"""

from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from controller.core.values import Assignment
from tests.controller.core.procedures.reassignment.dropping import recorded, strays
from tests.controller.core.procedures.reassignment.interrupted_cluster import (
    BROKERS,
    CHANGED_RECORD,
    CHANGED_TOPIC,
    NAMES,
    TOPICS,
    InterruptedCluster,
    Step,
)
from tests.controller.core.procedures.reassignment.interrupting import (
    assert_nothing_is_left,
    cancel_all,
    record,
    remove_cancel,
)
from tests.controller.core.replaying import assert_replays
from tests.controller.core.unreliable import Delivery

brokers = st.sampled_from(BROKERS)
names = st.sampled_from(NAMES)
targets = st.lists(brokers, min_size=1, max_size=3, unique=True)
many = st.dictionaries(names, targets, min_size=1)
bad = st.dictionaries(names, st.lists(brokers, max_size=3), min_size=1)
deliveries = st.sampled_from([one for one in Delivery if one is not Delivery.ANSWERED])

single = st.one_of(
    st.tuples(st.just("submit"), many),
    st.tuples(st.just("submit"), bad),
    st.tuples(st.just("extra"), many),
    st.tuples(st.just("request"), many),
    st.tuples(st.just("api"), names, st.one_of(targets, st.none())),
    st.tuples(st.just("cancel")),
    st.tuples(st.sampled_from(("cancel", "force"))),
    st.tuples(st.just("remove cancel")),
    st.tuples(st.just("isr"), names, st.sets(brokers)),
    st.tuples(st.just("isr"), names, st.just(set(BROKERS))),
    st.tuples(st.just("toggle"), brokers),
    st.tuples(st.just("desert"), names),
    st.tuples(st.just("bounce"), brokers),
    st.tuples(st.just("slow"), st.sets(brokers)),
    st.tuples(st.just("answer"), st.integers(0, 9)),
    st.tuples(st.just("late")),
    st.tuples(st.just("fail"), brokers, names),
    st.tuples(st.just("change record"), names, st.sampled_from(CHANGED_RECORD)),
    st.tuples(st.just("change record"), st.sampled_from((b"garbage", None))),
    st.tuples(st.just("change topic"), names, st.sampled_from(CHANGED_TOPIC)),
    st.tuples(st.just("lose"), st.integers(0, 12), deliveries),
    st.tuples(st.just("expire")),
    st.tuples(st.just("seize"), st.booleans()),
    st.tuples(st.just("complete elsewhere"), names),
    st.tuples(st.just("cancel briefly")),
    st.tuples(st.just("cancel, then submit"), many),
)
"""The daemon processes a lost reply or a lost role during the next event."""


@st.composite
def cancelled_move(draw: st.DrawFn) -> list[Step]:
    """A partition moves away, and the last target never catches up. The originals may restart, so
    that a target leads. The move is cancelled, and the leader fails."""
    name = draw(names)
    topic, number = name
    others = [one for one in BROKERS if one not in TOPICS[topic][number]]
    target = draw(st.permutations(others))[:3]
    in_sync = [one for one in BROKERS if one != target[-1]]
    restart: list[Step] = [("stop originals", name), ("start originals", name)]
    return [
        ("submit", {name: target}),
        ("isr", name, set(in_sync)),
        *draw(st.sampled_from(([], restart))),
        ("isr", name, set(draw(st.permutations(in_sync))[draw(st.integers(1, 2)) :])),
        draw(st.sampled_from((("cancel",), ("cancel briefly",)))),
        ("stop leader", name),
    ]


steps = st.builds(
    lambda first, later: [*first, *later],
    st.one_of(st.just([]), cancelled_move()),
    st.lists(single, min_size=4, max_size=20),
)


def play(protocol: str, steps: Sequence[Step]) -> None:
    cluster = InterruptedCluster(protocol)
    for step in steps:
        cluster.step(step)
        if cluster.fold.is_idle:
            cluster.check()
    cluster.settle()
    _cancel_what_is_left(cluster)
    remove_cancel(cluster)
    cluster.restore_all_brokers()
    cluster.check()
    assert_nothing_is_left(cluster)
    assert strays(cluster, NAMES) == recorded(cluster) == set()
    for name in NAMES:
        replicas = cluster.partition(*name).replicas
        assert set(cluster.leadership(*name).isr) == set(replicas)
        assert all(name in cluster.broker(one).logs for one in replicas)
    cluster.assert_no_unclean_leader()
    assert_replays(cluster)


def _cancel_what_is_left(cluster: InterruptedCluster) -> None:
    """Every reassignment by entries ends with the originals in their order. A rollback that
    cannot complete waits until brokers return."""
    expected = {
        name: cluster.rested[name]
        for name in NAMES
        if (one := record(cluster, name)) and one.legacy
    }
    if not cluster.is_cancelled:
        cancel_all(cluster)
    cluster.check()
    for name, originals in expected.items():
        if cluster.partition(*name).assignment != Assignment(originals):
            cluster.assert_waits(name, originals)
    cluster.restore_all_brokers()
    cluster.check()
    for name, originals in expected.items():
        assert cluster.partition(*name).assignment == Assignment(originals)
    assert not any(one.legacy for one in cluster.fold.controller.context.reassignments.values())


@pytest.mark.timeout(300)
@settings(max_examples=100)
@given(steps=steps)
def test_cancelled_reassignments_end_with_the_originals(steps: list[Step]) -> None:
    play("3.9", steps)


@pytest.mark.long
@pytest.mark.timeout(300)
@settings(max_examples=60)
@given(steps=steps)
@example(
    # The broker reports its failed directory when it has no replica there any more.
    steps=[
        ("slow", {1, 2}),
        ("fail", 2, ("t", 0)),
        ("submit", {("t", 0): [1, 2]}),
        ("submit", {("t", 0): [1]}),
    ]
)
def test_cancelled_reassignments_end_with_the_originals_below_2_7_IV2(steps: list[Step]) -> None:
    play("2.7-IV1", steps)
