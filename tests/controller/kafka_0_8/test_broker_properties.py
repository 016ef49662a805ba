"""What holds in every run of a cluster of the 0.8 design, whatever happens to it."""

from collections.abc import Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay.explore.kafka_0_8.acts import BROKERS, TOPICS, WHATS, Act, carry_out, new_cluster
from replay.explore.kafka_0_8.monitor import KNOWN_FLAWS
from replay.explore.kafka_0_8.search import play
from replay.world.kafka_0_8.broker_process import BrokerProcess
from tests.controller.kafka_0_8.clusters import partition

RESTARTS = ("stop", "start", "expire", "silence", "reassign", "delete", "create")
"""Acts after which a replica may truncate its log."""

brokers = st.sampled_from(BROKERS)
topics = st.sampled_from(TOPICS)
orders = st.permutations(BROKERS)
replicas = st.tuples(orders, st.integers(1, 3)).map(lambda one: tuple(one[0][: one[1]]))


def acts(whats: Sequence[str]) -> st.SearchStrategy[list[Act]]:
    """Lists of acts of these kinds."""
    numbers = {"produce": st.integers(-1, 1), "stop": st.integers(0, 1)}
    kinds = [
        st.builds(Act, st.just(what), brokers, brokers, topics, replicas, numbers.get(what, waits))
        for what in whats
    ]
    return st.lists(st.one_of(kinds), max_size=30)


waits = st.one_of(st.integers(1, 100), st.integers(1, 3000))
PROPERTY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@settings(PROPERTY, max_examples=60)
@given(acts(WHATS))
def test_invariants_hold_under_all_faults(steps: list[Act]) -> None:
    """AR = ISR + CUR, at most one leader in an epoch, a high watermark that never goes back in a
    leadership and never passes what the leader knows of the ISR. After the last fault, every
    partition has a leader and a full ISR."""
    _, violation = play(steps)
    assert violation is None or violation.invariant in KNOWN_FLAWS


@settings(PROPERTY, max_examples=60)
@given(acts([one for one in WHATS if one not in RESTARTS]))
def test_every_member_of_the_isr_has_the_committed_records(steps: list[Act]) -> None:
    """While no replica truncates its log; otherwise the design has a flaw
    (docs/design-0.8.md#flaws)."""
    cluster = new_cluster()

    def check(process: BrokerProcess) -> None:
        for one in process.fold.broker.partitions.values():
            for member in (*one.isr, *one.joining) if one.is_leader else ():
                log = cluster.brokers[member].logs.get(one.name, [])
                assert one.local.hw <= len(log)

    cluster.after_event = check
    cluster.start(*BROKERS)
    cluster.run(1500)
    for step in steps:
        carry_out(cluster, step, "r")


@settings(PROPERTY, max_examples=30)
@given(acts(WHATS))
def test_same_acts_lead_to_the_same_histories(steps: list[Act]) -> None:
    first, second = play(steps)[0], play(steps)[0]
    for broker in BROKERS:
        assert first.brokers[broker].runs == second.brokers[broker].runs


def test_four_brokers_share_two_partitions_at_the_start() -> None:
    cluster, violation = play([])
    assert violation is None
    assert partition(cluster, 1).isr == (1, 2, 3)
    assert partition(cluster, 3, ("u", 0)).isr == (3, 4)
