"""Scripted answers of brokers, and the output of a command."""

from collections.abc import Iterable, Mapping, Sequence

from controller.core.values import Assignment, Broker
from controller.operator.reassignment.documents import Partition
from controller.operator.reassignment.errors import KafkaUnavailable
from controller.operator.reassignment.kafka_admin import (
    AdminMetadata,
    KafkaAdmin,
    PartitionMetadata,
)
from controller.operator.reassignment.report import ProgressReport

DAEMON = 1000


class ScriptedAdmin(KafkaAdmin):
    """Brokers 1 to 4 and refold. `moving` are the reassignments that they list, and `refusals`
    those that they refuse. `unresponsive` brokers do not answer. `asked` are the requested
    changes."""

    def __init__(self) -> None:
        self.partitions = {("t", 0): PartitionMetadata((1, 2, 3), (1, 2, 3), 1)}
        self.moving: dict[Partition, Assignment] = {}
        self.refusals: dict[Partition, str] = {}
        self.unresponsive: set[int] = set()
        self.controller = DAEMON
        self.asked: list[tuple[str, object]] = []

    async def metadata(self, topics: Iterable[str]) -> AdminMetadata:
        nodes = {one: Broker(one, -1, ()) for one in (1, 2, 3, 4, DAEMON)}
        wanted = set(topics)
        found = {name: one for name, one in self.partitions.items() if name[0] in wanted}
        return AdminMetadata(nodes, self.controller, found)

    async def reassignments(self) -> dict[Partition, Assignment]:
        return self.moving

    async def alter(
        self, targets: Mapping[Partition, tuple[int, ...] | None]
    ) -> dict[Partition, str]:
        self.asked.append(("alter", targets))
        return self.refusals

    async def configure_topics(
        self, given: Mapping[str, Mapping[str, str]], removed: Sequence[str] = ()
    ) -> None:
        self.asked.append((f"topics {','.join(given)}", removed))

    async def configure_broker(
        self, broker: int, given: Mapping[str, str], removed: Sequence[str] = ()
    ) -> None:
        if broker in self.unresponsive:
            raise KafkaUnavailable(f"node {broker} does not answer")
        self.asked.append((f"broker {broker}", removed))

    async def log_sizes(self, broker: int, partitions: Iterable[Partition]) -> dict[Partition, int]:
        if broker in self.unresponsive:
            raise KafkaUnavailable(f"node {broker} does not answer")
        return {one: 1000 * broker for one in partitions} if broker != 4 else {}

    async def is_refold(self, node: int) -> bool:
        return node == DAEMON


class Output(ProgressReport):
    """The output of a command."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.warnings: list[str] = []
        super().__init__("test", self.lines.append, self.warnings.append)
