"""A standby encodes what it has prepared as soon as the event loop has time."""

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


def prepare(standby: StandbyState, name: str) -> None:
    """The standby has read a topic with one partition, and prepares it."""
    topic = new_topic(name, TopicContent({0: Assignment((1, 2))}, bytes(range(16))), 0)
    standby.put_topic(topic)
    topic.partitions[0].leadership = LeaderAndIsr(1, 0, (1, 2), 0, 1)
    standby.unread.clear()
    standby.prepare_some(10)


def is_encoded(standby: StandbyState, name: str) -> bool:
    prepared = standby.prepared[name]
    return bool(prepared.update_metadata.encoded and prepared.leader_and_isr[2].encoded)


async def test_prepared_topic_is_encoded_without_a_pause() -> None:
    standby = StandbyState()
    fold: Any = SimpleNamespace(
        controller=SimpleNamespace(standby=standby, protocol=ProtocolVersion(LATEST))
    )
    ahead = EncodingAhead(fold)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ahead.run)
        for name in ("first", "second"):
            for _ in range(3):
                await checkpoint()
            prepare(standby, name)
            assert not is_encoded(standby, name)
            ahead.folded()
            for _ in range(3):
                await checkpoint()
            assert is_encoded(standby, name)
        assert standby.unencoded == {}
        tasks.cancel_scope.cancel()


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
