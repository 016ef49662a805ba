"""Requests of reassignment commands through Kafka's APIs.

Each request has a version that all brokers from Kafka 2.4 to 3.9 support.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode
from msgspec import Struct

from controller.core.values import Assignment, Broker
from controller.operator.reassignment.documents import Partition
from controller.operator.reassignment.errors import KafkaUnavailable, ReassignmentRefused
from controller.operator.reassignment.kafka_client import KafkaClient, RequestVersion

_METADATA: Final = RequestVersion(3, 8)
_DESCRIBE_LOG_DIRS: Final = RequestVersion(35, 1)
_INCREMENTAL_ALTER_CONFIGS: Final = RequestVersion(44, 0)
_ALTER_REASSIGNMENTS: Final = RequestVersion(45, 0)
_LIST_REASSIGNMENTS: Final = RequestVersion(46, 0)

_TIMEOUT: Final = timedelta(seconds=60)
_TOPIC: Final = 2
_BROKER: Final = 4
_SET: Final = 0
_DELETE: Final = 1

REFOLD_LOG_DIR: Final = "none: this is a refold controller"
"""The log directory in the response of a refold controller to DescribeLogDirs."""


class PartitionMetadata(Struct, frozen=True):
    """The metadata of one partition; `leader` is -1 for none."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int


class AdminMetadata(Struct, frozen=True):
    """The nodes by id, including the daemon, the controller, and the requested topics."""

    nodes: dict[int, Broker]
    controller: int
    partitions: dict[Partition, PartitionMetadata]


class ReplicaOnDisk(Struct, frozen=True):
    """A replica in a log directory of a broker, and its size in bytes."""

    partition: Partition
    log_dir: str
    size: int


class LogDirs(Struct, frozen=True):
    """The log directories of a broker. `unreadable`: directories that have an error; their
    replicas are unknown."""

    replicas: tuple[ReplicaOnDisk, ...]
    unreadable: dict[str, str] = {}


class KafkaAdmin:
    """Sends requests to one cluster. All methods raise KafkaUnavailable, and
    ReassignmentRefused if a broker rejects a request."""

    def __init__(self, client: KafkaClient) -> None:
        self._client = client

    async def metadata(self, topics: Iterable[str] | None) -> AdminMetadata:
        """The cluster and these topics (None: all). Topics that do not exist are omitted."""
        schema = _METADATA.schema
        named = None
        if topics is not None:
            named = tuple(schema.MetadataRequestTopic(name=one) for one in topics)
        request = schema.MetadataRequest(
            topics=named,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        answer = await self._client.ask(None, _METADATA, request)
        found: dict[Partition, PartitionMetadata] = {}
        for topic in answer.topics:
            if topic.error_code not in (ErrorCode.none, ErrorCode.unknown_topic_or_partition):
                raise ReassignmentRefused(f"topic {topic.name}: {_format_error(topic.error_code)}")
            for one in topic.partitions:
                facts = PartitionMetadata(one.replica_nodes, one.isr_nodes, one.leader_id)
                found[topic.name, one.partition_index] = facts
        nodes = {one.node_id: Broker(one.node_id, -1, (), one.rack) for one in answer.brokers}
        return AdminMetadata(nodes, answer.controller_id, found)

    async def reassignments(self) -> dict[Partition, Assignment]:
        """All reassignments in progress (ListPartitionReassignments)."""
        schema = _LIST_REASSIGNMENTS.schema
        request = schema.ListPartitionReassignmentsRequest(timeout=_TIMEOUT, topics=None)
        answer = await self._ask_controller(_LIST_REASSIGNMENTS, request)
        return {
            (topic.name, one.partition_index): Assignment(
                tuple(one.replicas), tuple(one.adding_replicas), tuple(one.removing_replicas)
            )
            for topic in answer.topics
            for one in topic.partitions
        }

    async def alter(
        self, targets: Mapping[Partition, tuple[int, ...] | None]
    ) -> dict[Partition, str]:
        """Request targets, or None to cancel (AlterPartitionReassignments). Return what was
        rejected, and why."""
        schema = _ALTER_REASSIGNMENTS.schema
        topics: dict[str, list[Any]] = {}
        for (topic, number), replicas in sorted(targets.items()):
            wanted = schema.ReassignablePartition(partition_index=number, replicas=replicas)
            topics.setdefault(topic, []).append(wanted)
        request = schema.AlterPartitionReassignmentsRequest(
            timeout=_TIMEOUT,
            topics=tuple(
                schema.ReassignableTopic(name=topic, partitions=tuple(wanted))
                for topic, wanted in topics.items()
            ),
        )
        answer = await self._ask_controller(_ALTER_REASSIGNMENTS, request)
        return {
            (topic.name, one.partition_index): one.error_message or _format_error(one.error_code)
            for topic in answer.responses
            for one in topic.partitions
            if one.error_code is not ErrorCode.none
        }

    async def configure_topics(
        self, given: Mapping[str, Mapping[str, str]], removed: Sequence[str] = ()
    ) -> None:
        """Set configurations of topics, and remove these keys from all of them."""
        await self._configure(None, _TOPIC, given, removed)

    async def configure_broker(
        self, broker: int, given: Mapping[str, str], removed: Sequence[str] = ()
    ) -> None:
        """Set and remove configurations of one broker. The request must go to that broker."""
        await self._configure(broker, _BROKER, {str(broker): given}, removed)

    async def _configure(
        self,
        node: int | None,
        kind: int,
        given: Mapping[str, Mapping[str, str]],
        removed: Sequence[str],
    ) -> None:
        schema = _INCREMENTAL_ALTER_CONFIGS.schema
        resources = []
        for name, settings in given.items():
            changes: list[tuple[str, int, str | None]]
            changes = [(key, _SET, value) for key, value in settings.items()]
            changes += [(key, _DELETE, None) for key in removed]
            configs = tuple(
                schema.AlterableConfig(name=key, config_operation=operation, value=value)
                for key, operation, value in changes
            )
            resources.append(
                schema.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
            )
        request = schema.IncrementalAlterConfigsRequest(
            resources=tuple(resources), validate_only=False
        )
        answer = await self._client.ask(node, _INCREMENTAL_ALTER_CONFIGS, request)
        refused = [
            (
                f"configuration of {one.resource_name}: "
                f"{one.error_message or _format_error(one.error_code)}"
            )
            for one in answer.responses
            if one.error_code is not ErrorCode.none
        ]
        if refused:
            raise ReassignmentRefused("\n".join(refused))

    async def log_sizes(self, broker: int, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The log sizes of these partitions on a broker in bytes (DescribeLogDirs). Partitions
        that it does not have are omitted."""
        topics: dict[str, list[int]] = {}
        for topic, number in partitions:
            topics.setdefault(topic, []).append(number)
        answer = await self._log_dirs(broker, topics)
        return {
            (topic.name, one.partition_index): one.partition_size
            for directory in answer.results
            for topic in directory.topics
            for one in topic.partitions
            if not one.is_future_key
        }

    async def log_dirs(self, broker: int) -> LogDirs:
        """Every replica on a broker's disks, without the future replicas of moves between
        directories."""
        answer = await self._log_dirs(broker, None)
        if not answer.results:
            raise KafkaUnavailable(
                f"node {broker} returns no log directory: DescribeLogDirs requires "
                "DESCRIBE on the cluster"
            )
        return LogDirs(
            tuple(
                ReplicaOnDisk(
                    (topic.name, one.partition_index), directory.log_dir, one.partition_size
                )
                for directory in answer.results
                for topic in directory.topics
                for one in topic.partitions
                if not one.is_future_key
            ),
            {
                directory.log_dir: _format_error(directory.error_code)
                for directory in answer.results
                if directory.error_code is not ErrorCode.none
            },
        )

    async def is_refold(self, node: int) -> bool:
        """Whether a node is a refold controller. It holds no data and returns a special log
        directory."""
        try:
            answer = await self._log_dirs(node, {})
        except KafkaUnavailable:
            return False
        return any(one.log_dir == REFOLD_LOG_DIR for one in answer.results)

    async def _log_dirs(self, node: int, topics: Mapping[str, Sequence[int]] | None) -> Any:
        schema = _DESCRIBE_LOG_DIRS.schema
        named = None
        if topics is not None:
            named = tuple(
                schema.DescribableLogDirTopic(topic=topic, partitions=tuple(numbers))
                for topic, numbers in topics.items()
            )
        request = schema.DescribeLogDirsRequest(topics=named)
        return await self._client.ask(node, _DESCRIBE_LOG_DIRS, request)

    async def _ask_controller(self, asked: RequestVersion, request: Any) -> Any:
        controller = (await self.metadata(())).controller
        if controller < 0:
            raise KafkaUnavailable("the cluster has no controller now: try again")
        answer = await self._client.ask(controller, asked, request)
        if answer.error_code is not ErrorCode.none:
            text = answer.error_message or _format_error(answer.error_code)
            raise ReassignmentRefused(f"the controller, node {controller}: {text}")
        return answer


def _format_error(code: ErrorCode) -> str:
    return f"{code.name} (code {code.value})"
