"""A take-over by a standby decides as a failover that reads everything."""

from collections.abc import Callable

import hypothesis
from hypothesis import strategies as st

from controller.core import znodes
from controller.core.operations import CreateSequential
from controller.core.snapshot import take_snapshot
from tests.controller.core.cluster import DAEMON, Cluster
from tests.controller.core.procedures.role.standby_pair import StandbyPair
from tests.controller.core.replaying import assert_replays

BROKERS = (1, 2, 3)
TOPICS = ("s", "t", "u")

Step = Callable[[StandbyPair], None]


def _isr(topic: str, number: int, isr: list[int]) -> Step:
    def step(pair: StandbyPair) -> None:
        if pair.active.data(znodes.state_path(topic, number)) not in (None, b"?"):
            pair.active.set_isr(topic, number, isr)

    return step


def _topic(name: str, replicas: list[list[int]], has_id: bool) -> Step:
    fields = {"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"} if has_id and name == "u" else {}

    def step(pair: StandbyPair) -> None:
        pair.active.change_topic_quietly(name, dict(enumerate(replicas)), **fields)

    return step


def _remove(name: str) -> Step:
    def step(pair: StandbyPair) -> None:
        if pair.active.data(znodes.topic_path(name)) is not None:
            pair.active.remove_quietly(znodes.topic_path(name))

    return step


def _broker(broker: int) -> Step:
    def step(pair: StandbyPair) -> None:
        if broker in pair.active.broker_sessions:
            pair.active.unregister(broker)
        else:
            pair.active.register(broker)

    return step


def _unreadable(path: str) -> Step:
    def step(pair: StandbyPair) -> None:
        if pair.active.data(path) is not None:
            pair.active.put_quietly(path, b"?")

    return step


def _put(path: str, data: bytes) -> Step:
    return lambda pair: pair.active.put_quietly(path, data)


def _notification(pair: StandbyPair) -> None:
    pair.active.ask(CreateSequential(f"{znodes.ISR_CHANGES}/isr_change_", b"{}"))


def _reconnect(pair: StandbyPair) -> None:
    pair.standby.zookeeper.disconnect(pair.standby.session)
    pair.standby.lose_connection()


REPLICAS = st.lists(st.sampled_from((*BROKERS, DAEMON)), min_size=0, max_size=3, unique=True)
NUMBERS = st.integers(0, 2)
NAMES = st.sampled_from(TOPICS)
STEPS = st.one_of(
    st.builds(_isr, NAMES, NUMBERS, st.lists(st.sampled_from(BROKERS), min_size=1, unique=True)),
    st.builds(_topic, NAMES, st.lists(REPLICAS, max_size=3), st.booleans()),
    st.builds(_remove, NAMES),
    st.builds(_broker, st.sampled_from(BROKERS)),
    st.builds(lambda name, number: _unreadable(znodes.state_path(name, number)), NAMES, NUMBERS),
    st.builds(lambda name: _unreadable(znodes.topic_path(name)), NAMES),
    st.builds(lambda name: _put(znodes.delete_topic_path(name), b""), NAMES),
    st.just(_put(znodes.FEATURE, b'{"version":1,"status":0,"features":{}}')),
    st.just(_notification),
    st.just(_reconnect),
    st.just(StandbyPair.follow),
    st.just(lambda pair: pair.standby.run()),
    st.just(lambda pair: pair.active.run()),
    st.just(lambda pair: pair.standby.expire()),
)


def _knowledge(cluster: Cluster) -> list[object]:
    """A controller's knowledge after its failover, in its order."""
    context = cluster.fold.controller.context
    brokers = [list(context.brokers.values()), list(context.channels), list(context.reassigning)]
    topics = [
        (
            topic.name,
            topic.is_known,
            topic.version,
            [
                (one.number, one.assignment, one.leadership, one.state, one.replica_states)
                for one in topic.partitions.values()
            ],
        )
        for topic in context.topics.values()
    ]
    deletions = [list(context.queued_for_deletion), list(context.ineligible_for_deletion)]
    return [*brokers, topics, deletions, context.awaiting_brokers, context.unclean_default]


@hypothesis.given(st.lists(STEPS, max_size=12))
@hypothesis.settings(deadline=None, max_examples=150)
def test_take_over_of_a_standby_equals_a_cold_failover(steps: list[Step]) -> None:
    pair = StandbyPair(topics={"s": {0: [1, 2], 1: [2, 3]}, "t": {0: [3, 1]}})
    for step in steps:
        step(pair)
    cold = pair.take_over_as_cold()
    assert _knowledge(pair.standby) == _knowledge(cold)
    assert_replays(pair.standby)
    take_snapshot(pair.standby.fold)
