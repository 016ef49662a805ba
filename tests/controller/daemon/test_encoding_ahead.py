"""A standby encodes what it has prepared as soon as the event loop has time; a controller prepares
and encodes when it has nothing else to do."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.lowlevel import checkpoint

from controller.core import znodes
from controller.daemon.encoding_ahead import EncodingAhead
from tests.controller.core.cluster import Cluster
from tests.controller.core.procedures.role.standby_pair import StandbyPair
from tests.controller.core.procedures.topics.deleting import mark


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


def is_encoded(pair: StandbyPair, name: str) -> bool:
    """Whether the requests of a topic that the standby has prepared are encoded."""
    prepared = pair.standby.fold.controller.standby.prepared[name]
    return bool(prepared.update_metadata.encoded and prepared.leader_and_isr[2].encoded)


def unencoded(pair: StandbyPair) -> list[str]:
    """The topics that the standby has prepared and may still encode."""
    return list(pair.standby.fold.controller.standby.unencoded)


async def test_prepared_topic_is_encoded_without_a_pause() -> None:
    pair = StandbyPair(topics={"first": {0: [1, 2]}})
    async with encoding(EncodingAhead(pair.standby.fold)) as ahead:
        for name in ("first", "second"):
            pair.active.create_topic(name, {0: [1, 2]})
            pair.follow()
            assert not is_encoded(pair, name)
            ahead.folded()
            await some_turns(3)
            assert is_encoded(pair, name)
        assert unencoded(pair) == []


def test_topic_that_changes_is_not_encoded_until_it_is_prepared_again() -> None:
    pair = StandbyPair()
    assert unencoded(pair) == ["t"]
    pair.active.set_isr("t", 0, [1])
    pair.standby.run()
    assert unencoded(pair) == []
    pair.follow()
    assert unencoded(pair) == ["t"]
    pair.active.remove_quietly(znodes.topic_path("t"))
    pair.follow()
    assert unencoded(pair) == []


def test_nothing_is_encoded_ahead_after_a_take_over() -> None:
    """The channels encode what they send."""
    pair = StandbyPair()
    assert unencoded(pair) == ["t"]
    pair.take_over()
    assert unencoded(pair) == []


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
