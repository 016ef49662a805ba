"""A standby encodes what it has prepared as soon as the event loop has time; a controller prepares
and encodes when it has nothing else to do."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from controller.core.protocol_versions import LATEST, ProtocolVersion
from controller.core.standby import StandbyState, new_topic
from controller.core.state import ControllerContext
from controller.core.values import Assignment, LeaderAndIsr
from controller.core.znodes import TopicContent
from controller.daemon.encoding_ahead import EncodingAhead
from tests.controller.core.cluster import Cluster
from tests.controller.core.procedures.topics.deleting import mark


def prepare(standby: StandbyState, name: str) -> None:
    """The standby has read a topic with one partition, and prepares it."""
    topic = new_topic(name, TopicContent({0: Assignment((1, 2))}, bytes(range(16))), 0)
    standby.put_topic(topic)
    topic.partitions[0].leadership = LeaderAndIsr(1, 0, (1, 2), 0, 1)
    standby.unread.clear()
    standby.prepare_some(10)


@asynccontextmanager
async def encoding(ahead: EncodingAhead) -> AsyncIterator[EncodingAhead]:
    """Encode until the end of the block."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ahead.run)
        await some_turns()
        yield ahead
        tasks.cancel_scope.cancel()


async def some_turns(count: int = 20) -> None:
    """Other tasks may run, for no time by the clock."""
    for _ in range(count):
        await checkpoint()


def is_encoded(standby: StandbyState, name: str) -> bool:
    prepared = standby.prepared[name]
    return bool(prepared.update_metadata.encoded and prepared.leader_and_isr[2].encoded)


async def test_prepared_topic_is_encoded_without_a_pause() -> None:
    standby = StandbyState()
    fold: Any = SimpleNamespace(
        controller=SimpleNamespace(
            standby=standby,
            protocol=ProtocolVersion(LATEST),
            is_active=False,
            context=ControllerContext("PLAINTEXT"),
            prepared={},
        )
    )
    async with encoding(EncodingAhead(fold)) as ahead:
        for name in ("first", "second"):
            prepare(standby, name)
            assert not is_encoded(standby, name)
            ahead.folded()
            await some_turns(3)
            assert is_encoded(standby, name)
        assert standby.unencoded == {}


def test_topic_that_changes_is_not_encoded_until_it_is_prepared_again() -> None:
    standby = StandbyState()
    standby.is_watching = True
    prepare(standby, "t")
    assert list(standby.unencoded) == ["t"]
    standby.fired("/brokers/topics/t/partitions/0/state", "data")
    assert standby.unencoded == {}
    prepare(standby, "t")
    assert list(standby.unencoded) == ["t"]
    standby.drop_topic("t")
    assert standby.unencoded == {}


def test_nothing_is_encoded_ahead_after_a_take_over() -> None:
    """The channels encode what they send."""
    standby = StandbyState()
    prepare(standby, "t")
    context = ControllerContext("PLAINTEXT")
    standby.adopt(context, ["t"])
    standby.take_prepared(context, ())
    assert standby.unencoded == {}


# A controller, for the start of a broker ---------------------------------------------------------


def controlled(*topics: str) -> Cluster:
    cluster = Cluster(1, 2).start()
    for name in topics:
        cluster.create_topic(name, {0: [1, 2]})
    return cluster


def prepared_names(cluster: Cluster) -> list[str]:
    """The topics that are prepared in their current state, with encoded entries."""
    controller = cluster.fold.controller
    return [
        name
        for name, one in controller.prepared.items()
        if one.update_metadata.encoded and one.topic is controller.context.topics.get(name)
    ]


async def test_quiet_controller_prepares_all_topics_and_again_those_that_change() -> None:
    cluster = controlled("t", "u")
    async with encoding(EncodingAhead(cluster.fold, quiet_seconds=0)) as ahead:
        assert prepared_names(cluster) == []
        ahead.folded()
        await some_turns()
        assert prepared_names(cluster) == ["t", "u"]
        before = dict(cluster.fold.controller.prepared)
        cluster.create_topic("t", {0: [1, 2], 1: [2, 1]})
        ahead.folded()
        await some_turns()
        after = cluster.fold.controller.prepared
        assert len(after["t"].update_metadata) == 2
        assert after["u"] is before["u"], "it has not changed"


async def test_controller_that_is_not_quiet_prepares_nothing() -> None:
    cluster = controlled("t")
    async with encoding(EncodingAhead(cluster.fold)) as ahead:
        ahead.folded()
        await some_turns()
        assert prepared_names(cluster) == []


async def test_events_come_before_topics_that_are_not_prepared_yet() -> None:
    cluster = controlled("t", "u", "v")
    async with encoding(EncodingAhead(cluster.fold, quiet_seconds=0.001)) as ahead:
        ahead.folded()
        while not prepared_names(cluster):
            await checkpoint()
        ahead.folded()
        begun = prepared_names(cluster)
        assert len(begun) < 3
        await checkpoint()
        assert prepared_names(cluster) == begun
        while len(prepared_names(cluster)) < 3:
            await checkpoint()


async def test_nothing_is_kept_of_deleted_topics_and_after_the_role_is_lost() -> None:
    cluster = controlled("t", "u")
    async with encoding(EncodingAhead(cluster.fold, quiet_seconds=0)) as ahead:
        ahead.folded()
        await some_turns()
        mark(cluster, "t")
        ahead.folded()
        await some_turns()
        assert list(cluster.fold.controller.prepared) == ["u"]
        cluster.seize_role(2)
        cluster.run()
        ahead.folded()
        await some_turns()
        assert cluster.fold.controller.prepared == {}
