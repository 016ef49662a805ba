"""The calls that a controller answers: what each of them needs, and how it is refused. None of them
changes anything."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kio.schema.index import api_key_map

from controller.api.front.cluster_metadata import DESCRIBE_CLUSTER, METADATA
from controller.api.front.routing import (
    ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    DESCRIBE_LOG_DIRS,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_GROUPS,
    LIST_TRANSACTIONS,
)
from controller.core.authorization import THE_CLUSTER, Resource, topic_resource
from tests.controller.api.client import API_VERSIONS, api_versions, request_schema
from tests.lab.secured.secured_endpoint import (
    ALLOCATE,
    ALTER_PARTITION,
    ALTER_REASSIGNMENTS,
    ALTER_SCRAM,
    CONTROLLED_SHUTDOWN,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    ELECT_LEADERS,
    LIST_REASSIGNMENTS,
    TIMEOUT,
    UPDATE_FEATURES,
)

PRESENT, ABSENT = "orders", "audits"
"""A topic that exists, with the partition 0; and one that does not exist."""
CLUSTER_DENIED, TOPIC_DENIED = "CLUSTER_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED"
ANSWERED = "answered"


class Call(NamedTuple):
    """A request: `request` makes it for the node with this id that receives it.

    `resource` and `operation` are the right that Kafka wants; `refused` and `allowed` are the
    responses without and with it. Nothing is needed if `resource` is None. `is_local`: the front
    answers, which has no ACLs and allows super users only. `is_implied`: Read and Write imply the
    right.
    """

    key: int
    version: int
    request: Callable[[int], Any]
    resource: Resource | None
    operation: str
    refused: str
    allowed: str
    is_local: bool = False
    is_implied: bool = False

    @property
    def name(self) -> str:
        """Kafka's name of the API."""
        return api_name(self.key)

    @property
    def needs(self) -> str:
        """The right, in words."""
        if self.resource is None:
            return "nothing"
        where = "the cluster" if self.resource == THE_CLUSTER else "the topic"
        return f"{self.operation} on {where}"


def api_name(key: int) -> str:
    """Kafka's name of an API."""
    return "".join(part.capitalize() for part in api_key_map[key].split("_"))


def _request(key: int, version: int, **fields: Any) -> Callable[[int], Any]:
    made = getattr(request_schema(key, version), f"{api_name(key)}Request")(**fields)
    return lambda _: made


def _of_cluster(key: int, version: int, operation: str, allowed: str, **fields: Any) -> Call:
    request = _request(key, version, **fields)
    return Call(key, version, request, THE_CLUSTER, operation, CLUSTER_DENIED, allowed)


def _of_topic(
    key: int, version: int, topic: str, operation: str, allowed: str, **fields: Any
) -> Call:
    request = _request(key, version, **fields)
    return Call(key, version, request, topic_resource(topic), operation, TOPIC_DENIED, allowed)


def _of_configs(key: int, version: int, operation: str, resource: str, **fields: Any) -> Call:
    """A request about the configuration of the node itself."""
    module = request_schema(key, version)

    def request(node: int) -> Any:
        about = {"resource_type": 4, "resource_name": str(node)}
        if key != DESCRIBE_CONFIGS:
            about["configs"] = ()
        resources = (getattr(module, resource)(**about),)
        return getattr(module, f"{api_name(key)}Request")(resources=resources, **fields)

    return Call(
        key, version, request, THE_CLUSTER, operation, CLUSTER_DENIED, ANSWERED, is_local=True
    )


_create, _grow = request_schema(CREATE_TOPICS, 7), request_schema(CREATE_PARTITIONS, 3)
_elect, _alter = request_schema(ELECT_LEADERS, 2), request_schema(ALTER_REASSIGNMENTS, 0)
_scram, _metadata = request_schema(ALTER_SCRAM, 0), request_schema(METADATA, 12)
_STALE: Final = {"broker_id": 1, "broker_epoch": 1}

CALLS: Final = (
    _of_cluster(ALTER_PARTITION, 2, "ClusterAction", "STALE_BROKER_EPOCH", topics=(), **_STALE),
    _of_cluster(CONTROLLED_SHUTDOWN, 3, "ClusterAction", "STALE_BROKER_EPOCH", **_STALE),
    _of_cluster(ALLOCATE, 0, "ClusterAction", "STALE_BROKER_EPOCH", **_STALE),
    _of_topic(
        CREATE_TOPICS,
        7,
        ABSENT,
        "Create",
        ANSWERED,
        topics=(
            _create.CreatableTopic(
                name=ABSENT, num_partitions=1, replication_factor=1, assignments=(), configs=()
            ),
        ),
        validate_only=True,
    ),
    _of_topic(
        DELETE_TOPICS,
        5,
        ABSENT,
        "Delete",
        "UNKNOWN_TOPIC_OR_PARTITION",
        topic_names=(ABSENT,),
        timeout=TIMEOUT,
    ),
    _of_topic(
        CREATE_PARTITIONS,
        3,
        PRESENT,
        "Alter",
        ANSWERED,
        topics=(_grow.CreatePartitionsTopic(name=PRESENT, count=9, assignments=None),),
        timeout=TIMEOUT,
        validate_only=True,
    ),
    _of_cluster(
        ELECT_LEADERS,
        2,
        "Alter",
        "ELECTION_NOT_NEEDED",
        election_type=0,
        topic_partitions=(_elect.TopicPartitions(topic=PRESENT, partitions=(0,)),),
    ),
    _of_cluster(
        ALTER_REASSIGNMENTS,
        0,
        "Alter",
        "NO_REASSIGNMENT_IN_PROGRESS",
        topics=(
            _alter.ReassignableTopic(
                name=PRESENT,
                partitions=(_alter.ReassignablePartition(partition_index=0, replicas=None),),
            ),
        ),
    ),
    _of_cluster(LIST_REASSIGNMENTS, 0, "Describe", ANSWERED, topics=None),
    _of_cluster(UPDATE_FEATURES, 1, "Alter", ANSWERED, feature_updates=(), validate_only=True),
    _of_cluster(
        ALTER_SCRAM,
        0,
        "Alter",
        "RESOURCE_NOT_FOUND",
        deletions=(_scram.ScramCredentialDeletion(name="bob", mechanism=2),),
        upsertions=(),
    ),
    _of_configs(DESCRIBE_CONFIGS, 4, "DescribeConfigs", "DescribeConfigsResource"),
    _of_configs(ALTER_CONFIGS, 2, "AlterConfigs", "AlterConfigsResource", validate_only=True),
    _of_configs(
        INCREMENTAL_ALTER_CONFIGS, 1, "AlterConfigs", "AlterConfigsResource", validate_only=True
    ),
    _of_cluster(DESCRIBE_LOG_DIRS, 4, "Describe", ANSWERED, topics=None)._replace(is_local=True),
    _of_topic(
        METADATA,
        12,
        PRESENT,
        "Describe",
        ANSWERED,
        topics=(_metadata.MetadataRequestTopic(name=PRESENT, topic_id=None),),
        include_topic_authorized_operations=True,
    )._replace(is_implied=True),
    Call(
        DESCRIBE_CLUSTER,
        1,
        _request(DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=True),
        None,
        "",
        "",
        ANSWERED,
    ),
    Call(LIST_GROUPS, 4, _request(LIST_GROUPS, 4), None, "", "", ANSWERED),
    Call(LIST_TRANSACTIONS, 0, _request(LIST_TRANSACTIONS, 0), None, "", "", ANSWERED),
    Call(API_VERSIONS, 3, lambda _: api_versions(), None, "", "", ANSWERED),
)
