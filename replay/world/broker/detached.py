"""A broker without a process: only what it has on disk, and its responses to a controller."""

from collections.abc import Collection

from controller.core.commands import BrokerRequest
from replay.world.broker.context import BrokerContext
from replay.world.broker.control_requests import Replicas, RequestErrors
from replay.world.broker.disk import Disk
from replay.world.broker.partition import Partition, PendingIsr
from replay.world.broker.settings import BrokerSettings
from replay.world.messages import PartitionError
from replay.world.network import Network
from replay.world.observer import Name, Observer
from replay.world.scheduler import Scheduler

_SETTINGS = BrokerSettings()


class DetachedBroker:
    """The broker with one id, over all its runs. Its replicas copy nothing."""

    def __init__(self, id: int) -> None:
        self._id = id
        self.disk = Disk()
        self._replicas, self._context = self._start()

    def _start(self) -> tuple[Replicas, BrokerContext]:
        scheduler = Scheduler()
        context = BrokerContext(self._id, scheduler, Network(scheduler), _SETTINGS, Observer())
        return Replicas(context, self.disk, _NoReplication(), _NoReplication()), context

    @property
    def logs(self) -> dict[Name, bytes | None]:
        """The partitions on disk, each with the topic id that is stored there."""
        return {name: log.topic_id for name, log in self.disk.logs.items()}

    @property
    def metadata(self) -> dict[Name, int]:
        """The broker's response to clients: the leader of each partition."""
        cached = self._context.metadata.partitions
        return {name: one.leadership.leader for name, one in cached.items()}

    def run(self, epoch: int) -> None:
        """The broker is registered with this broker epoch; a new epoch means a restart, which keeps
        only the logs."""
        if epoch != self._context.epoch:
            self._replicas, self._context = self._start()
            self._context.epoch = epoch

    def answer(self, request: BrokerRequest, failing: Collection[PartitionError]) -> RequestErrors:
        """Carry out a request, except for partitions in `failing`, which get that error."""
        return self._replicas.answer(request, failing)


class _NoReplication:
    """Neither followers nor changes of ISRs."""

    def follow(self, partition: Partition) -> None:
        """Copy nothing."""

    def stop(self, name: Name) -> None:
        """Nothing is copied."""

    def submit(self, partition: Partition, pending: PendingIsr) -> None:
        """Not called: there are no fetches."""
