"""A stepped fold begins only the controller events that the caller requests."""

import pytest

from controller.core import znodes
from controller.core.commands import Issued, ZooKeeperCommand
from controller.core.configuration import Configuration
from controller.core.events import SessionConnected, WatchFired
from controller.core.operations import Create
from controller.core.processing_order import ProcessingOrder
from controller.core.triggers import (
    BrokerChange,
    PartitionReassignmentIsrChange,
    Startup,
    TopicChange,
)
from replay.agreement.trace.stepped_fold import SteppedFold
from replay.world.outcomes import carry_out
from replay.world.requests import Write
from replay.world.zookeeper import ZooKeeper
from tests.controller.core.cluster import topic_json


class SteppedFoldHarness:
    """A stepped fold with its ZooKeeper."""

    def __init__(self, version: str = "3.9") -> None:
        configuration = Configuration(
            broker_id=1, is_broker=True, rules="kafka", inter_broker_protocol_version=version
        )
        self.fold = SteppedFold(configuration, ProcessingOrder())
        self.zookeeper = ZooKeeper()
        self.session = self.zookeeper.create_session()

    def connect(self) -> list[Issued]:
        return self.fold.feed(SessionConnected(self.session, 6000, "", renewed=False), 0)

    def carry_out(self, issued: list[Issued]) -> None:
        """Answers the commands to ZooKeeper until none is left."""
        waiting = [*issued]
        while waiting:
            one = waiting.pop(0)
            if isinstance(one.command, ZooKeeperCommand):
                for outcome in carry_out(self.zookeeper, self.session, one.id, one.command, 0):
                    waiting += self.fold.feed(outcome, 0)

    def elect(self) -> None:
        self.carry_out(self.connect())
        self.carry_out(self.fold.begin(Startup(), 0))
        assert self.fold.controller.is_active

    def change_state(self) -> None:
        """A watch reports that the state of t-0 has changed."""
        self.fold.feed(WatchFired(znodes.state_path("t", 0), "data", -1), 0)

    def write(self, operation: Write) -> None:
        assert not self.zookeeper.apply(self.session, operation, 0).result.error


def test_event_is_not_begun_without_a_request() -> None:
    stepped = SteppedFoldHarness()
    assert stepped.connect() == []
    stepped.fold.controller.enqueue(BrokerChange())
    assert stepped.fold.feed(SessionConnected(stepped.session, 6000, "", renewed=False), 0) == []
    assert not stepped.fold.is_running
    assert BrokerChange() in stepped.fold.queued


def test_requested_event_is_begun_and_removed_from_the_queue() -> None:
    stepped = SteppedFoldHarness()
    stepped.elect()
    for one in (TopicChange(), BrokerChange()):
        stepped.fold.controller.enqueue(one)
    issued = stepped.fold.begin(BrokerChange(), 0)
    assert [one.command.path for one in issued] == [znodes.BROKER_IDS]  # type: ignore[union-attr]
    assert stepped.fold.is_running
    assert stepped.fold.queued == [TopicChange()]
    stepped.carry_out(issued)
    assert not stepped.fold.is_running
    assert stepped.fold.queued == [TopicChange()]


def test_event_that_is_not_queued_can_be_begun() -> None:
    stepped = SteppedFoldHarness("2.6")
    stepped.elect()
    for path in ("/brokers", znodes.TOPICS):
        stepped.write(Create(path))
    stepped.write(Create(znodes.topic_path("t"), topic_json({0: [1]})))
    stepped.carry_out(stepped.fold.begin(TopicChange(), 0))
    assert stepped.fold.controller.context.known_topics() == ["t"]
    assert stepped.fold.term == 1


@pytest.mark.parametrize(
    ("version", "is_at_once"), [("3.9", True), ("2.7-IV2", True), ("2.6", False)]
)
def test_caught_up_reassignment_is_processed_with_the_alter_partition(
    version: str, is_at_once: bool
) -> None:
    """KB 11.2. Below 2.7-IV2 leaders write the ISR, and the check is a controller event."""
    stepped = SteppedFoldHarness(version)
    stepped.elect()
    issued = stepped.fold.begin(BrokerChange(), 0)
    stepped.change_state()
    caught_up = PartitionReassignmentIsrChange("t", 0)
    assert stepped.fold.queued == [caught_up]
    stepped.carry_out(issued)
    assert stepped.fold.queued == ([] if is_at_once else [caught_up])


def test_caught_up_reassignment_waits_after_other_events() -> None:
    stepped = SteppedFoldHarness()
    stepped.elect()
    issued = stepped.fold.begin(BrokerChange(), 0)
    stepped.fold.feed(WatchFired(znodes.TOPICS, "children", -1), 0)
    stepped.change_state()
    stepped.carry_out(issued)
    assert stepped.fold.queued == [TopicChange(), PartitionReassignmentIsrChange("t", 0)]
