"""The view that invariants about recovery have of the simulated processes."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from controller.core.configuration import Configuration
from controller.core.znodes import Name


class CachedPartition(NamedTuple):
    """A partition in the metadata cache of a broker."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]

    def __str__(self) -> str:
        return (
            f"leader {self.leader} in leader epoch {self.leader_epoch}, the ISR {list(self.isr)} "
            f"and the replicas {list(self.replicas)}"
        )


class SimulationView(Protocol):
    """The processes of the simulation, now."""

    def runs_refold(self) -> bool:
        """Whether a process runs that can become controller and has not Kafka's rules."""

    def active(self) -> str | None:
        """The controller that has the role, with the epoch in /controller_epoch; None: none."""

    def busy_controllers(self) -> Sequence[str]:
        """The controllers that run a procedure, or have queued events."""

    def broker_epoch(self, broker: int) -> int:
        """The broker epoch that a running broker has been sent."""

    def configuration(self) -> Configuration | None:
        """The configuration of the controller that is `active`."""

    def is_kafka(self, process: str) -> bool:
        """Whether a controller follows Kafka's rules."""

    def running_brokers(self) -> Sequence[int]:
        """The brokers whose process runs."""

    def is_live(self, broker: int, name: Name) -> bool:
        """Whether a broker is registered, runs, and its log directory of the partition works."""

    def leadership(self, broker: int, name: Name) -> tuple[int, int] | None:
        """The leader and leader epoch that a replica has applied; None: none."""

    def metadata(self, broker: int) -> Mapping[Name, CachedPartition]:
        """The metadata cache of a broker."""

    def live_in_metadata(self, broker: int) -> Collection[int]:
        """The live brokers in the metadata cache of a broker."""

    def replicas(self) -> Iterator[tuple[int, Name, bytes | None]]:
        """The replicas on the disks of all brokers, each with the topic id that it has."""

    def can_move(self, name: Name, replicas: Sequence[int]) -> bool:
        """Whether a partition exists and these replicas and its current ones are live."""
