"""What a broker knows of its cluster from UpdateMetadata requests (ZkMetadataCache)."""

from controller.core.commands import UpdateMetadataPartition, UpdateMetadataRequest
from controller.core.values import LEADER_DURING_DELETE, NO_BROKER, Broker
from replay.world.broker.settings import LISTENER
from replay.world.observer import Name


class MetadataCache:
    """The leaders of all partitions, the live brokers, and the controller."""

    def __init__(self) -> None:
        self.partitions: dict[Name, UpdateMetadataPartition] = {}
        self.live: dict[int, Broker] = {}
        self.controller = NO_BROKER

    def update(self, request: UpdateMetadataRequest) -> None:
        """Apply a request: all live brokers, and the partitions that it has (KB 12.4.4)."""
        self.controller = request.controller_id
        self.live = {one.id: one for one in request.live_brokers}
        for one in request.partitions:
            name = (one.topic, one.partition)
            if one.leadership.leader == LEADER_DURING_DELETE:
                self.partitions.pop(name, None)
            else:
                self.partitions[name] = one

    def known_controller(self) -> int | None:
        """The controller, if it is one of the live brokers: otherwise its address is not known."""
        found = self.live.get(self.controller)
        return self.controller if found and found.endpoint(LISTENER) else None
