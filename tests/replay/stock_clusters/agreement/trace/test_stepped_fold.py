"""The fold that begins a controller event when it is told to, and handles no other."""

import pytest

from controller.core import znodes
from controller.core.commands import Issued, ZooKeeperCommand
from controller.core.configuration import Configuration
from controller.core.events import SessionConnected
from controller.core.operations import Create
from controller.core.processing_order import ProcessingOrder
from controller.core.triggers import (
    BrokerChange,
    PartitionReassignmentIsrChange,
    Startup,
    TopicChange,
)
from replay.stock_clusters.agreement.trace.stepped_fold import SteppedFold
from replay.world.outcomes import carry_out
from replay.world.requests import Write
from replay.world.zookeeper import ZooKeeper
from tests.controller.core.cluster import topic_json


class Held:
    """A held fold and the ZooKeeper that it works with."""

    def __init__(self, version: str = "3.9") -> None:
        configuration = Configuration(
            broker_id=1, is_broker=True, rules="kafka", inter_broker_protocol_version=version
        )
        self.fold = SteppedFold(configuration, ProcessingOrder())
        self.zookeeper = ZooKeeper()
        self.session = self.zookeeper.create_session()
        self._told = 0

    def connect(self) -> list[Issued]:
        return self.fold.feed(SessionConnected(self.session, 6000, "", renewed=False), 0)

    def carry_out(self, issued: list[Issued]) -> None:
        """Answer what is asked of ZooKeeper, up to the end."""
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

    def write(self, operation: Write) -> None:
        assert not self.zookeeper.apply(self.session, operation, 0).result.error


def test_nothing_is_begun_by_itself() -> None:
    held = Held()
    assert held.connect() == []
    held.fold.controller.enqueue(BrokerChange())
    assert held.fold.feed(SessionConnected(held.session, 6000, "", renewed=False), 0) == []
    assert not held.fold.is_running
    assert BrokerChange() in held.fold.queued


def test_what_is_named_is_begun_and_taken_from_the_queue() -> None:
    held = Held()
    held.elect()
    for one in (TopicChange(), BrokerChange()):
        held.fold.controller.enqueue(one)
    issued = held.fold.begin(BrokerChange(), 0)
    assert [one.command.path for one in issued] == [znodes.BROKER_IDS]  # type: ignore[union-attr]
    assert held.fold.is_running
    assert held.fold.queued == [TopicChange()]
    held.carry_out(issued)
    assert not held.fold.is_running
    assert held.fold.queued == [TopicChange()]


def test_what_is_not_queued_can_be_begun_too() -> None:
    held = Held("2.6")
    held.elect()
    for path in ("/brokers", znodes.TOPICS):
        held.write(Create(path))
    held.write(Create(znodes.topic_path("t"), topic_json({0: [1]})))
    held.carry_out(held.fold.begin(TopicChange(), 0))
    assert held.fold.controller.context.known_topics() == ["t"]
    assert held.fold.term == 1


@pytest.mark.parametrize(
    ("version", "is_at_once"), [("3.9", True), ("2.7-IV2", True), ("2.6", False)]
)
def test_caught_up_reassignments_are_looked_at_with_the_alter_partition(
    version: str, is_at_once: bool
) -> None:
    """KB 11.2. Below 2.7-IV2 leaders write the ISR: it is a controller event of its own."""
    held = Held(version)
    caught_up = PartitionReassignmentIsrChange("t", 0)
    held.fold.controller.triggers.append(caught_up)
    held.fold.begin(BrokerChange(), 0)
    assert held.fold.queued == ([] if is_at_once else [caught_up])


def test_other_events_wait_behind_it() -> None:
    held = Held()
    held.fold.controller.triggers.extend([TopicChange(), PartitionReassignmentIsrChange("t", 0)])
    held.fold.begin(BrokerChange(), 0)
    assert held.fold.queued == [TopicChange(), PartitionReassignmentIsrChange("t", 0)]
