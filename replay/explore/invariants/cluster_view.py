"""What the invariants about recovery see of the processes of a world."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from controller.core.znodes import Name


class ClusterView(Protocol):
    """The processes of a world, now."""

    def runs_controller(self) -> bool:
        """Whether a process that can become controller runs."""

    def active(self) -> str | None:
        """The controller that has the role, with the epoch in /controller_epoch; None: none."""

    def is_kafka(self, process: str) -> bool:
        """Whether a controller follows Kafka's rules."""

    def running_brokers(self) -> Sequence[int]:
        """The brokers whose process runs."""

    def is_live(self, broker: int, name: Name) -> bool:
        """Whether a broker is registered, runs, and its log directory of the partition works."""

    def leadership(self, broker: int, name: Name) -> tuple[int, int] | None:
        """The leader and leader epoch that a replica has applied; None: none."""

    def metadata(self, broker: int) -> Mapping[Name, tuple[int, int]]:
        """The leaders and leader epochs in the metadata cache of a broker."""

    def can_move(self, name: Name, replicas: Sequence[int]) -> bool:
        """Whether a partition exists and these replicas and its current ones are live."""
