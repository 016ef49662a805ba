"""One batch of broker requests (Kafka's ControllerBrokerRequestBatch, KB 12.2).

If a partition is added several times, the last addition counts. `requests` returns all
LeaderAndIsr, then all UpdateMetadata, then all StopReplica requests, each by broker id.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from controller.core.commands import (
    BrokerRequest,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from controller.core.prepared_topics import PreparedTopic, TopicEntries, join
from controller.core.protocol_versions import ProtocolVersion
from controller.core.state import ControllerContext, Partition
from controller.core.values import LEADER_DURING_DELETE, NO_LEADER, Assignment, LeaderAndIsr

_by_name = attrgetter("topic", "partition")
_FIRST_MIXED_STOP_REPLICA = 3


class RequestBatch:
    """Collects what brokers are to be sent, and turns it into requests."""

    def __init__(
        self, context: ControllerContext, protocol: ProtocolVersion, controller_id: int, rule: str
    ) -> None:
        self.rule = rule
        self._context = context
        self._protocol = protocol
        self._controller_id = controller_id
        self._leader_and_isr: dict[int, dict[Partition, LeaderAndIsrPartition]] = {}
        self._entries: dict[Partition, LeaderAndIsrPartition] = {}
        self._offline: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._update_metadata_to: dict[int, None] = {}
        self._is_for_all = False
        self._update_metadata: dict[Partition, UpdateMetadataPartition] = {}
        self._stop_replica: dict[int, dict[Partition, StopReplicaPartition]] = {}
        self._prepared: dict[str, PreparedTopic] = {}
        self._prepared_for: dict[int, None] = {}
        self._prepared_metadata: dict[str, TopicEntries[UpdateMetadataPartition]] = {}

    def add_prepared(self, prepared: Mapping[str, PreparedTopic]) -> None:
        """Send the leaders and ISRs of prepared topics to their brokers, and all brokers
        UpdateMetadata. The batch may have no other entry of these topics."""
        self._prepared |= prepared
        for one in prepared.values():
            self._prepared_for.update(dict.fromkeys(one.online))
        if prepared:
            self._add_metadata_for_all(())
        self.add_prepared_metadata(prepared)

    def add_prepared_metadata(self, prepared: Mapping[str, PreparedTopic]) -> None:
        """Send these topics to the brokers that the batch sends UpdateMetadata. The batch may have
        no other entry of them."""
        for name, one in prepared.items():
            self._prepared_metadata[name] = one.update_metadata

    def add_leader_and_isr(
        self, brokers: Iterable[int], partition: Partition, *, is_new: bool
    ) -> None:
        """Send these brokers the leader and ISR of a partition, and all brokers UpdateMetadata (KB
        5.1.3).

        isNew stays true once it is true for a broker and partition (KB 12.2.3).
        """
        for broker in brokers:
            if broker >= 0:
                self._add_entry(self._leader_and_isr.setdefault(broker, {}), partition, is_new)
        self._add_metadata_for_all((partition,))

    def add_former_leader(self, broker: int, partition: Partition) -> None:
        """Send LeaderAndIsr to a former leader, so that it follows; only if it is no replica now.

        A broker ignores a partition whose replicas do not include it: the request names the broker
        as a replica that is being removed.
        """
        if broker in (NO_LEADER, *partition.replicas):
            return
        assert partition.leadership is not None, f"{partition} has no leadership to send"
        topic = partition.topic
        self._leader_and_isr.setdefault(broker, {})[partition] = LeaderAndIsrPartition(
            topic.name,
            topic.id,
            partition.number,
            partition.leadership,
            Assignment((*partition.replicas, broker), removing=(broker,)),
            is_new=False,
        )

    def add_leader_and_isr_to(
        self, broker: int, partitions: Sequence[Partition], *, is_new: bool
    ) -> None:
        """Add LeaderAndIsr entries of many partitions for one broker, as `add_leader_and_isr` does
        for one partition."""
        if not partitions:
            return
        entries = self._leader_and_isr.setdefault(broker, {})
        for partition in partitions:
            self._add_entry(entries, partition, is_new)
        self._add_metadata_for_all(partitions)

    def add_update_metadata(self, brokers: Iterable[int], partitions: Iterable[Partition]) -> None:
        """Send these brokers, and all others of the batch, these partitions (KB 12.2.6)."""
        self._update_metadata_to.update(dict.fromkeys(brokers))
        entries = self._update_metadata
        for partition in partitions:
            leadership = partition.leadership
            if leadership is None:
                continue
            before = entries.get(partition)
            if (
                before is None
                or before.leadership is not leadership
                or before.replicas is not partition.assignment.replicas
            ):
                entries[partition] = self._metadata(partition, leadership)

    def _add_entry(
        self, entries: dict[Partition, LeaderAndIsrPartition], partition: Partition, is_new: bool
    ) -> None:
        before = entries.get(partition) if entries else None
        sticks = before is not None and before.is_new
        entries[partition] = self._entry(partition, is_new or sticks)

    def _add_metadata_for_all(self, partitions: Iterable[Partition]) -> None:
        brokers = () if self._is_for_all else self._context.brokers
        self._is_for_all = True
        self.add_update_metadata(brokers, partitions)

    def add_stop_replica(
        self,
        brokers: Iterable[int],
        partition: Partition,
        *,
        delete: bool,
        leader_epoch: int | None = None,
    ) -> None:
        """Ask these brokers to stop a replica. `delete` stays true once it is true (KB 12.2.4).

        `leader_epoch`: None for that of the partition.
        """
        epoch = leader_epoch
        if epoch is None:
            epoch = self._context.stop_replica_epoch(partition)
        for broker in brokers:
            of_broker = self._stop_replica.setdefault(broker, {})
            before = of_broker.get(partition)
            of_broker[partition] = StopReplicaPartition(
                partition.topic.name,
                partition.number,
                epoch,
                delete or (before is not None and before.delete),
            )

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to send."""
        return not (self._leader_and_isr or self._stop_replica or self._update_metadata_to)

    def requests(self) -> Iterator[BrokerRequest]:
        """The requests, without those to brokers that are not registered (KB 12.2.5)."""
        for broker in sorted({**self._leader_and_isr, **self._prepared_for}):
            if broker in self._context.brokers:
                yield self._leader_and_isr_request(broker)
        yield from self._update_metadata_requests()
        for broker in sorted(self._stop_replica):
            if broker in self._context.brokers:
                yield from self._stop_replica_requests(broker)

    def _entry(self, partition: Partition, is_new: bool) -> LeaderAndIsrPartition:
        leadership = partition.leadership
        assert leadership is not None, f"{partition} has no leadership to send"
        entry = self._entries.get(partition)
        if (
            entry is None
            or entry.leadership is not leadership
            or entry.assignment is not partition.assignment
            or entry.is_new is not is_new
        ):
            topic = partition.topic
            entry = self._entries[partition] = LeaderAndIsrPartition(
                topic.name, topic.id, partition.number, leadership, partition.assignment, is_new
            )
        return entry

    def _metadata(self, partition: Partition, state: LeaderAndIsr) -> UpdateMetadataPartition:
        topic = partition.topic
        if topic.name in self._context.queued_for_deletion:
            state = LeaderAndIsr(
                LEADER_DURING_DELETE, 0, state.isr, 0, state.controller_epoch, state.recovery_state
            )
        replicas = partition.assignment.replicas
        # If no log directory is offline, partitions on the same brokers have the same offline
        # replicas.
        offline = None if self._context.offline_dirs else self._offline.get(replicas)
        if offline is None:
            offline = self._offline_replicas(partition, replicas)
        return UpdateMetadataPartition(
            topic.name, topic.id, partition.number, state, replicas, offline
        )

    def _offline_replicas(self, partition: Partition, replicas: tuple[int, ...]) -> tuple[int, ...]:
        context = self._context
        if context.offline_dirs:
            return tuple([one for one in replicas if not context.is_online(one, partition)])
        live = context.live_brokers
        offline = self._offline[replicas] = tuple([one for one in replicas if one not in live])
        return offline

    def _leader_and_isr_request(self, broker: int) -> LeaderAndIsrRequest:
        context = self._context
        entries = sorted(self._leader_and_isr.get(broker, {}).values(), key=_by_name)
        prepared = [one for one in self._prepared.values() if broker in one.online]
        leaders = {entry.leadership.leader for entry in entries}
        leaders.update(*[one.leaders[broker] for one in prepared])
        return LeaderAndIsrRequest(
            broker,
            context.brokers[broker].epoch,
            self._protocol.leader_and_isr,
            self._controller_id,
            context.epoch,
            join(entries, {one.topic.name: one.leader_and_isr[broker] for one in prepared}),
            tuple(one for id in sorted(leaders) if (one := self._live_leader(id)) is not None),
        )

    def _live_leader(self, broker: int) -> tuple[int, str, int] | None:
        registered = self._context.brokers.get(broker)
        endpoint = registered and registered.endpoint(self._context.inter_broker_listener)
        return (broker, endpoint.host, endpoint.port) if endpoint else None

    def _update_metadata_requests(self) -> Iterator[UpdateMetadataRequest]:
        context = self._context
        entries = sorted(self._update_metadata.values(), key=_by_name)
        partitions = join(entries, self._prepared_metadata)
        brokers = dict(context.brokers)
        if context.daemon_broker is not None:
            brokers[context.daemon_broker.id] = context.daemon_broker
        live = tuple(brokers[broker] for broker in sorted(brokers))
        for broker in sorted(self._update_metadata_to):
            if broker in context.brokers:
                yield UpdateMetadataRequest(
                    broker,
                    context.brokers[broker].epoch,
                    self._protocol.update_metadata,
                    self._controller_id,
                    context.epoch,
                    partitions,
                    live,
                )

    def _stop_replica_requests(self, broker: int) -> Iterator[StopReplicaRequest]:
        version = self._protocol.stop_replica
        entries = sorted(self._stop_replica[broker].values(), key=_by_name)
        if version >= _FIRST_MIXED_STOP_REPLICA:
            groups = [entries]
        else:
            groups = [[e for e in entries if e.delete], [e for e in entries if not e.delete]]
        for group in groups:
            if group:
                yield StopReplicaRequest(
                    broker,
                    self._context.brokers[broker].epoch,
                    version,
                    self._controller_id,
                    self._context.epoch,
                    tuple(group),
                )
