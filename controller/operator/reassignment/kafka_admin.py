"""What a reassignment asks of a cluster through Kafka's own APIs.

Each request goes in a version that every broker from Kafka 2.4 to 3.9 offers.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode
from msgspec import Struct

from controller.core.values import Assignment, Broker
from controller.operator.reassignment.documents import Partition
from controller.operator.reassignment.errors import KafkaUnavailable, Refused
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
"""How refold's endpoint answers DescribeLogDirs for itself."""


class PartitionMetadata(Struct, frozen=True):
    """What metadata says of one partition; `leader` is -1 for none."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int


class Metadata(Struct, frozen=True):
    """The nodes by id, the daemon among them, who is controller, and the topics asked for."""

    nodes: dict[int, Broker]
    controller: int
    partitions: dict[Partition, PartitionMetadata]


class ReplicaOnDisk(Struct, frozen=True):
    """A replica in a log directory of a broker, and how many bytes it has."""

    partition: Partition
    log_dir: str
    size: int


class LogDirs(Struct, frozen=True):
    """What a broker says of its log directories; `unreadable` says of directories what is wrong
    with them. What is in those is unknown."""

    replicas: tuple[ReplicaOnDisk, ...]
    unreadable: dict[str, str] = {}


class KafkaAdmin:
    """Asks one cluster. Everything here raises KafkaUnavailable, and Refused for what a broker
    does not do."""

    def __init__(self, client: KafkaClient) -> None:
        self._client = client

    async def metadata(self, topics: Iterable[str] | None) -> Metadata:
        """The cluster and these topics (None: all); one that does not exist is left out."""
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
                raise Refused(f"topic {topic.name}: {_format_error(topic.error_code)}")
            for one in topic.partitions:
                facts = PartitionMetadata(one.replica_nodes, one.isr_nodes, one.leader_id)
                found[topic.name, one.partition_index] = facts
        nodes = {one.node_id: Broker(one.node_id, -1, (), one.rack) for one in answer.brokers}
        return Metadata(nodes, answer.controller_id, found)

    async def reassignments(self) -> dict[Partition, Assignment]:
        """All that are under way (ListPartitionReassignments)."""
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
        """Ask for targets, or None to cancel (AlterPartitionReassignments); what was refused."""
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
        """Set configurations of topics, or remove these keys of them all."""
        await self._configure(None, _TOPIC, given, removed)

    async def configure_broker(
        self, broker: int, given: Mapping[str, str], removed: Sequence[str] = ()
    ) -> None:
        """The same of one broker, which must be asked itself."""
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
            f"configuration of {one.resource_name}: {one.error_message or _format_error(one.error_code)}"
            for one in answer.responses
            if one.error_code is not ErrorCode.none
        ]
        if refused:
            raise Refused("\n".join(refused))

    async def log_sizes(self, broker: int, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """How many bytes a broker has of these partitions (DescribeLogDirs); those it lacks are
        left out."""
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
        """Every replica that a broker has on disk. A future replica, which a move between two
        directories makes, is left out."""
        answer = await self._log_dirs(broker, None)
        if not answer.results:
            raise KafkaUnavailable(
                f"node {broker} names no log directory: DescribeLogDirs needs DESCRIBE on the "
                "cluster"
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
        """Whether a node is a refold controller, which holds no data and says so."""
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
            raise Refused(f"the controller, node {controller}: {text}")
        return answer


def _format_error(code: ErrorCode) -> str:
    return f"{code.name} (code {code.value})"
