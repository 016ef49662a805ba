"""The interface through which replay observes steps of the fold that no event or command shows."""

from collections.abc import Iterable, Sequence

from controller.core.commands import BrokerRequest, Choice, Issued
from controller.core.deviations import Deviation
from controller.core.election import Elected
from controller.core.events import Recorded
from controller.core.state import Partition, Topic
from controller.core.state_machines import PartitionState, ReplicaState
from controller.core.triggers import Trigger
from controller.core.values import Assignment, LeaderAndIsr


class FoldObserver:
    """Is called for each step when it is taken, with the context of that moment; changes nothing.

    This class does nothing.
    """

    def folds(self, recorded: Recorded) -> None:
        """An event is about to be folded."""

    def queues(self, trigger: Trigger) -> None:
        """A controller event is queued."""

    def clears_queue(self) -> None:
        """The queued controller events are about to be dropped. A procedure that has begun does not
        continue."""

    def begins(self, trigger: Trigger) -> None:
        """A procedure begins."""

    def ends(self) -> None:
        """The procedure ended. Not called if the end of its term broke it off (TermEnded)."""

    def pauses(self) -> None:
        """The procedure pauses, because an urgent controller event goes first."""
        self.ends()

    def resumes(self, trigger: Trigger) -> None:
        """The paused procedure of this controller event continues."""
        self.begins(trigger)

    def breaks_off(self) -> None:
        """The paused procedure does not continue, because its term has ended."""

    def drops_topics(self, topics: Iterable[Topic]) -> None:
        """The core no longer uses these topics and their partitions."""

    def issues(self, issued: Issued) -> None:
        """A command is issued."""

    def sends(self, requests: Sequence[BrokerRequest], rule: str) -> None:
        """A batch is sent, even if it has no requests; its commands follow."""

    def moves_partitions(
        self, partitions: Sequence[Partition], target: PartitionState, rule: str, strategy: str
    ) -> None:
        """Partitions are about to be moved to `target`, if the transition is valid; there may be
        none. `strategy` is the election strategy for going online."""

    def moves_replicas(
        self, broker: int, partitions: Sequence[Partition], target: ReplicaState, rule: str
    ) -> None:
        """The replicas of these partitions on a broker are about to be moved to `target`."""

    def elects(
        self, partition: Partition, rule: str, current: LeaderAndIsr, elected: Elected
    ) -> None:
        """The result of an election, before it is written. `current` is the state in ZooKeeper."""

    def fails(
        self, partition: Partition, code: str, text: str, election: Choice | None = None
    ) -> None:
        """A step could not handle a partition, which keeps its state. Also called if the notice is
        not repeated. `election` has the candidates of an election that found no leader."""

    def deviates(self, deviation: Deviation, subject: str) -> None:
        """A deviation changes what is done about a partition, a topic, a broker or a znode: Kafka's
        controller would do something else now. `subject` is "" if it is about several partitions.
        """

    def raises(self, error: Exception) -> None:
        """An exception that is no `CoreError` ended a procedure or a part of it: a defect of the
        code. The notice follows."""

    def rejects(self, name: tuple[str, int], error: int, why: str) -> None:
        """A reassignment that was requested by way of ZooKeeper is rejected; the notice follows.
        `error` is the Kafka error code that an API request would be answered with."""

    def reassigns(self, partition: Partition, target: Assignment) -> None:
        """A partition's assignment is about to become `target`, step by step and in memory first.
        ZooKeeper has the current one until `stored` is called."""

    def stored(self, partition: Partition) -> None:
        """The new assignment of a partition is stored in ZooKeeper."""

    def resumes_deletions(self) -> None:
        """Every topic that is queued for deletion is about to be processed as far as possible."""
