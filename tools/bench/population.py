"""Populates ZooKeeper with the topics of a large cluster, as a controller would have written
them."""

import base64
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from controller.core import znodes
from controller.core.commands import WriteZnodes
from controller.core.operations import NODE_EXISTS, OK, Create, SetData, WriteOperation
from controller.core.values import ANY_VERSION, Assignment, LeaderAndIsr
from controller.core.znodes import TopicContent
from tools.bench.zookeeper_reads import CommandClient

_PARENTS = (
    *("/brokers", znodes.BROKER_IDS, znodes.TOPICS, "/brokers/seqid"),
    *(znodes.CONFIGS, znodes.TOPIC_CONFIGS, znodes.BROKER_CONFIGS, znodes.CONFIG_CHANGES),
    *("/admin", znodes.DELETE_TOPICS, "/cluster"),
    *(znodes.ISR_CHANGES, znodes.LOG_DIR_EVENTS),
)
"""The znodes that every Kafka broker creates when it starts."""

_CONTROLLER_EPOCH = 1
_WRITES_AT_ONCE = 50_000


@dataclass(frozen=True)
class Population:
    """Topics with the same number of partitions, distributed over brokers 1 to `brokers`."""

    partitions: int
    partitions_per_topic: int
    brokers: int
    replication_factor: int

    @cached_property
    def topics(self) -> dict[str, dict[int, tuple[int, ...]]]:
        """The replicas of each partition, by topic and number."""
        per_topic = self.partitions_per_topic
        return {
            f"topic-{first // per_topic:06}": {
                index - first: self._replicas(index)
                for index in range(first, min(first + per_topic, self.partitions))
            }
            for first in range(0, self.partitions, per_topic)
        }

    @cached_property
    def topic_ids(self) -> dict[str, bytes]:
        """The id of each topic."""
        dice = random.Random(0)
        return {topic: dice.randbytes(16) for topic in self.topics}

    def _replicas(self, index: int) -> tuple[int, ...]:
        """Kafka's assignment: leaders in turn, the followers at an increasing distance."""
        count = self.brokers
        leader, shift = index % count, index // count
        followers = [
            (leader + 1 + (shift + place) % (count - 1)) % count
            for place in range(self.replication_factor - 1)
        ]
        return tuple(1 + broker for broker in (leader, *followers))

    def replicas_on(self, broker: int) -> int:
        """The number of partitions with a replica on a broker."""
        return sum(
            broker in replicas
            for partitions in self.topics.values()
            for replicas in partitions.values()
        )

    async def create(self, client: CommandClient) -> None:
        """Write everything to an empty ZooKeeper."""
        for operations in (_parents(), self._topics(), self._partitions(), self.states()):
            await _write(client, operations)

    async def reset_states(self, client: CommandClient) -> None:
        """Restore the original leader and ISR of every partition."""
        states = self.states()
        await _write(client, (SetData(one.path, one.data, ANY_VERSION) for one in states))

    async def reset_assignments(self, client: CommandClient) -> None:
        """Restore the original replicas of every partition."""
        topics = self._topics()
        await _write(client, (SetData(one.path, one.data, ANY_VERSION) for one in topics))

    def _topics(self) -> Iterator[Create]:
        for topic, partitions in self.topics.items():
            content = TopicContent(
                {number: Assignment(replicas) for number, replicas in partitions.items()},
                self.topic_ids[topic],
            )
            yield Create(znodes.topic_path(topic), znodes.write_topic(content))
            yield Create(znodes.topic_config_path(topic), b'{"version":1,"config":{}}')
            yield Create(znodes.partitions_path(topic))

    def _partitions(self) -> Iterator[WriteOperation]:
        for topic, partitions in self.topics.items():
            for number in partitions:
                yield Create(znodes.partition_path(topic, number))

    def states(self) -> Iterator[Create]:
        """The original leader and ISR of every partition."""
        for topic, partitions in self.topics.items():
            for number, replicas in partitions.items():
                state = LeaderAndIsr(replicas[0], 0, replicas, 0, _CONTROLLER_EPOCH)
                yield Create(znodes.state_path(topic, number), znodes.write_state(state))


def _parents() -> Iterator[WriteOperation]:
    yield from map(Create, _PARENTS)
    cluster = base64.urlsafe_b64encode(random.Random(1).randbytes(16)).decode().rstrip("=")
    yield Create(znodes.CLUSTER_ID, f'{{"version":"1","id":"{cluster}"}}'.encode())


async def _write(client: CommandClient, operations: Iterable[WriteOperation]) -> None:
    remaining = iter(operations)
    while part := tuple(islice(remaining, _WRITES_AT_ONCE)):
        errors = await client.call(WriteZnodes(part, None), len(part))
        wrong = set(errors) - {OK, NODE_EXISTS}
        if wrong:
            raise RuntimeError(f"ZooKeeper rejected the population: codes {sorted(wrong)}")
