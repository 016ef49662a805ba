"""A batch of requests to three brokers, and the protocol versions at which requests differ."""

import pytest

from controller.core.batch import RequestBatch
from controller.core.state import Partition
from controller.core.values import LeaderAndIsr
from tests.controller.core.driving import EPOCH, ControllerHarness

VERSIONS = [
    ("2.4-IV0", 3, 5, 1),
    ("2.4-IV1", 4, 6, 2),
    ("2.5-IV0", 4, 6, 2),
    ("2.6-IV0", 4, 6, 3),
    ("2.8-IV0", 4, 6, 3),
    ("2.8-IV1", 5, 7, 3),
    ("3.1-IV0", 5, 7, 3),
    ("3.2-IV0", 6, 7, 3),
    ("3.3-IV3", 6, 7, 3),
    ("3.4-IV0", 7, 8, 4),
    ("3.9-IV0", 7, 8, 4),
]
"""inter.broker.protocol.version and the versions of LeaderAndIsr, UpdateMetadata, StopReplica."""

each_version = pytest.mark.parametrize(
    ("protocol", "leader_and_isr", "update_metadata", "stop_replica"),
    VERSIONS,
    ids=[one[0] for one in VERSIONS],
)


class ThreeBrokers(ControllerHarness):
    """Brokers 1, 2, 3 and the partitions foo-0, foo-1 and bar-1, led by brokers 1, 2 and 3."""

    def __init__(self, protocol: str = "3.9-IV0", *, led: bool = True) -> None:
        super().__init__(1, 2, 3, inter_broker_protocol_version=protocol)
        self.context.channels |= dict.fromkeys((1, 2, 3), 1)
        self.partitions: list[Partition] = []
        for topic, number in (("foo", 0), ("foo", 1), ("bar", 1)):
            partition = self.partition((1, 2, 3), topic=topic, number=number)
            partition.topic.id = topic.encode().ljust(16)
            if led:
                leader = len(self.partitions) + 1
                partition.leadership = LeaderAndIsr(leader, 4, (leader, 2), 9, EPOCH - 1)
            self.partitions.append(partition)
        self.batch: RequestBatch = self.controller.new_batch("test")

    def send(self) -> None:
        """Issue the requests of the batch."""
        self.controller.send(self.batch)
        self.issued += self.controller.take_issued()

    def close_channel(self, broker: int) -> None:
        """The channel to a broker is closed."""
        del self.context.channels[broker]

    def lose_one_and_shut_one_down(self) -> None:
        """Put broker 2 into controlled shutdown and remove broker 3."""
        self.shut_down(2)
        self.unregister(3)
