"""Random control requests to one broker."""

from random import Random
from typing import Final, NamedTuple

from controller.core.commands import (
    BrokerRequest,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from controller.core.protocol_versions import ProtocolVersion
from controller.core.values import LEADER_DURING_DELETE, NO_LEADER, Assignment, LeaderAndIsr
from tests.replay.world.broker.conformance_cluster import CONTROLLER, ConformanceCluster, Name

BROKER: Final = 1
"""The only broker that runs."""
LIVE: Final = 2
"""A broker in assignments that UpdateMetadata requests say to be live."""
DEAD: Final = 3
"""A broker in assignments that they do not name."""
PROTOCOLS: Final = [ProtocolVersion(one) for one in ("2.4", "2.6", "2.8", "3.2", "3.9")]
REQUESTS_OF_A_TOPIC: Final = 16
PARTITIONS: Final = 2


class Seen(NamedTuple):
    """A request, its outcome, and what can be seen of the partitions after it."""

    request: str
    outcome: object
    partitions: list[object]


class ControlRequests:
    """Draws requests for one topic."""

    def __init__(self, cluster: ConformanceCluster, random: Random, topic: str) -> None:
        self._cluster = cluster
        self._random = random
        self._topic = topic
        self.names: list[Name] = [(topic, number) for number in range(PARTITIONS)]

    def _weighted(self, *choices: tuple[int, object]) -> object:
        weights = [weight for weight, _ in choices]
        (found,) = self._random.choices([one for _, one in choices], weights)
        return found

    def draw(self) -> tuple[str, BrokerRequest]:
        """A request, and the same without the broker epoch."""
        random, cluster = self._random, self._cluster
        protocol = random.choice(PROTOCOLS)
        cluster.controller_epoch += random.random() < 0.05
        controller_epoch = cluster.controller_epoch - random.choice((0,) * 9 + (1,))
        late = random.choice((0,) * 12 + (1, -1, None))
        broker_epoch = -1 if late is None else cluster.epoch_of(BROKER) - late
        head = (CONTROLLER, controller_epoch)
        names = random.sample(self.names, random.randint(1, PARTITIONS))
        names.sort()
        request: BrokerRequest
        match random.choices(("lead", "stop", "metadata"), (5, 3, 2))[0]:
            case "lead":
                topic_id = self._topic_id()
                asked = tuple(self._lead(name, topic_id) for name in names)
                version = protocol.leader_and_isr
                request = LeaderAndIsrRequest(BROKER, broker_epoch, version, *head, asked, ())
            case "stop":
                stopped = tuple(self._stop(name) for name in names)
                if protocol.stop_replica < 3:
                    stopped = stopped[:1]
                version = protocol.stop_replica
                request = StopReplicaRequest(BROKER, broker_epoch, version, *head, stopped)
            case _:
                topic_id = self._topic_id()
                known = tuple(self._metadata(name, topic_id) for name in names)
                version = protocol.update_metadata
                live = cluster.live((BROKER, LIVE))
                request = UpdateMetadataRequest(BROKER, broker_epoch, version, *head, known, live)
        described = f"{type(request).__name__} {version} {head} {late} {request.partitions}"
        return described, request

    def _topic_id(self) -> bytes | None:
        topic_id = self._topic.encode().rjust(15, b"-")
        choices = ((8, topic_id + b"1"), (1, topic_id + b"2"), (1, None))
        found = self._weighted(*choices)
        assert found is None or isinstance(found, bytes)
        return found

    def _leadership(self, leaders: tuple[int, ...]) -> LeaderAndIsr:
        random = self._random
        epochs = random.choice((0, 0, 1, 2, 3, 4, 5, 6)), random.choice((0, 1, 1, 2))
        isr = tuple(random.sample((BROKER, LIVE, DEAD), random.randint(1, 3)))
        controller_epoch = self._cluster.controller_epoch
        return LeaderAndIsr(random.choice(leaders), epochs[0], isr, epochs[1], controller_epoch)

    def _lead(self, name: Name, topic_id: bytes | None) -> LeaderAndIsrPartition:
        leadership = self._leadership((BROKER, BROKER, LIVE, LIVE, DEAD, NO_LEADER))
        replicas = self._random.choice(((1, 2, 3), (1, 2, 3), (3, 1), (1,), (2, 3)))
        is_new = self._random.random() < 0.5
        return LeaderAndIsrPartition(
            name[0], topic_id, name[1], leadership, Assignment(replicas), is_new
        )

    def _stop(self, name: Name) -> StopReplicaPartition:
        epoch = self._random.choice((-2, -1, 0, 1, 2, 3, 4, 5, 6))
        return StopReplicaPartition(*name, epoch, self._random.random() < 0.5)

    def _metadata(self, name: Name, topic_id: bytes | None) -> UpdateMetadataPartition:
        leadership = self._leadership((BROKER, BROKER, LIVE, DEAD, NO_LEADER, LEADER_DURING_DELETE))
        return UpdateMetadataPartition(name[0], topic_id, name[1], leadership, (1, 2, 3), ())


async def random_control_requests(
    cluster: ConformanceCluster, seed: int, topics: int, *, restarts: bool = False
) -> None:
    """Random requests, for one topic after the other. `restarts`: the broker is killed and starts
    again after half of the requests for each topic."""
    random = Random(seed)
    await cluster.update_metadata()
    for number in range(topics):
        requests = ControlRequests(cluster, random, f"t{number}")
        for place in range(REQUESTS_OF_A_TOPIC):
            if restarts and place == REQUESTS_OF_A_TOPIC // 2:
                await cluster.restart(BROKER)
            described, request = requests.draw()
            outcome = await cluster.send(BROKER, request)
            partitions: list[object] = [
                (
                    cluster.has_log(BROKER, name),
                    await cluster.consume(BROKER, name),
                    await cluster.leader_in_metadata(BROKER, name),
                )
                for name in requests.names
            ]
            cluster.note(Seen(described, outcome, partitions))
