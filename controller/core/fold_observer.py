"""Following the fold while it works: for replay, which tells what events and commands do not."""

from collections.abc import Sequence

from controller.core.commands import BrokerRequest, Issued
from controller.core.election import Elected
from controller.core.partition_states import PartitionState
from controller.core.replica_states import ReplicaState
from controller.core.state import Partition
from controller.core.triggers import Trigger
from controller.core.values import Assignment, LeaderAndIsr


class FoldObserver:
    """Is told what is done when it is done, while the state is as it is then; changes nothing.

    In the daemon this one listens, which does nothing.
    """

    def begins(self, trigger: Trigger) -> None:
        """A procedure begins."""

    def ends(self) -> None:
        """It is over. Not told of one that the end of its term broke off (TermOver)."""

    def issues(self, issued: Issued) -> None:
        """A command goes out."""

    def sends(self, requests: Sequence[BrokerRequest], rule: str) -> None:
        """A batch goes out, also one without requests; its commands follow."""

    def moves_partitions(
        self, partitions: Sequence[Partition], target: PartitionState, rule: str, strategy: str
    ) -> None:
        """They are about to be moved to `target`, those that may be; it may be none. `strategy` is
        what elects, going online."""

    def moves_replicas(
        self, broker: int, partitions: Sequence[Partition], target: ReplicaState, rule: str
    ) -> None:
        """The same for the replicas of these partitions on a broker."""

    def elects(
        self, partition: Partition, rule: str, current: LeaderAndIsr, elected: Elected
    ) -> None:
        """An election came to this, before it is written; `current` is what stands in ZooKeeper."""

    def fails(self, partition: Partition, code: str, text: str) -> None:
        """A step leaves a partition as it is, and why; also where the operator was told before."""

    def reassigns(self, partition: Partition, target: Assignment) -> None:
        """Its assignment is about to become `target`, step by step in memory first. ZooKeeper has
        the one that it has now until that is `stored`."""

    def stored(self, partition: Partition) -> None:
        """The assignment that it was on its way to stands in ZooKeeper."""

    def resumes_deletions(self) -> None:
        """Every topic that is queued for deletion is about to be taken as far as it gets."""
