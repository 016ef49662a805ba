"""Requests to refold's endpoint that no tool sends, as kio's classes: those of brokers, and those
of administrators that the controller rejects."""

import asyncio
from datetime import timedelta
from importlib import import_module
from struct import unpack
from typing import Any, Final
from uuid import UUID

from controller.wire.client_requests import RequestHead, decode_response, encode_request
from tools.lab.ports import HOST

_SECONDS_MAX: Final = 30.0
_CLIENT: Final = "incident"
_BY_TOPIC_ID: Final = 2
_WITH_BROKER_EPOCHS: Final = 3


def schema(api: str, version: int) -> Any:
    """kio's module of a request."""
    return import_module(f"kio.schema.{api}.v{version}.request")


def alter_partition(
    broker: int,
    broker_epoch: int,
    topic: UUID | str,
    partition: int,
    state: dict[str, Any],
    *,
    version: int = 3,
    recovery_state: int = 0,
) -> Any:
    """A leader's request for the ISR, leader epoch and partition epoch of `state`, which is the
    content of a state znode with `version`."""
    module = schema("alter_partition", version)
    isr = tuple(state["isr"])
    if version >= _WITH_BROKER_EPOCHS:
        members = {"new_isr_with_epochs": tuple(module.BrokerState(broker_id=one) for one in isr)}
    else:
        members = {"new_isr": isr}
    recovery = {"leader_recovery_state": recovery_state} if version else {}
    data = module.PartitionData(
        partition_index=partition,
        leader_epoch=state["leader_epoch"],
        partition_epoch=state["version"],
        **members,
        **recovery,
    )
    named = {"topic_id" if version >= _BY_TOPIC_ID else "topic_name": topic}
    topics = (module.TopicData(partitions=(data,), **named),)
    return module.AlterPartitionRequest(broker_id=broker, broker_epoch=broker_epoch, topics=topics)


def controlled_shutdown(broker: int, broker_epoch: int) -> Any:
    """A broker's request to shut down."""
    module = schema("controlled_shutdown", 3)
    return module.ControlledShutdownRequest(broker_id=broker, broker_epoch=broker_epoch)


def allocate_producer_ids(broker: int, broker_epoch: int) -> Any:
    """A broker's request for a block of producer ids."""
    module = schema("allocate_producer_ids", 0)
    return module.AllocateProducerIdsRequest(broker_id=broker, broker_epoch=broker_epoch)


def update_features(*updates: tuple[str, int, int], validate_only: bool = False) -> Any:
    """A request to change features: name, level and upgrade type of each."""
    module = schema("update_features", 1)
    keys = tuple(
        module.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)
        for name, level, upgrade_type in updates
    )
    return module.UpdateFeaturesRequest(feature_updates=keys, validate_only=validate_only)


def alter_credentials(upserted: dict[str, int], deleted: tuple[str, ...] = ()) -> Any:
    """A request for SCRAM-SHA-256 credentials with the iterations of each user, and without those
    of the deleted users."""
    module = schema("alter_user_scram_credentials", 0)
    upsertions = tuple(
        module.ScramCredentialUpsertion(
            name=name, mechanism=1, iterations=iterations, salt=b"salt", salted_password=b"p" * 32
        )
        for name, iterations in upserted.items()
    )
    deletions = tuple(module.ScramCredentialDeletion(name=name, mechanism=1) for name in deleted)
    return module.AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)


def create_topic(
    name: str,
    assignment: dict[int, list[int]],
    configs: dict[str, str] | None = None,
    *,
    times: int = 1,
    version: int = 5,
) -> Any:
    """A request for a topic with these replicas, which names the topic `times` times."""
    module = schema("create_topics", version)
    assignments = tuple(
        module.CreatableReplicaAssignment(partition_index=number, broker_ids=tuple(brokers))
        for number, brokers in assignment.items()
    )
    given = tuple(
        module.CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
    )
    topic = module.CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=assignments,
        configs=given,
    )
    return module.CreateTopicsRequest(topics=(topic,) * times)


def create_partitions(topic: str, count: int, added: list[list[int]] | None = None) -> Any:
    """A request for a number of partitions, with the replicas of the added ones."""
    module = schema("create_partitions", 3)
    given = added and tuple(
        module.CreatePartitionsAssignment(broker_ids=tuple(brokers)) for brokers in added
    )
    asked = module.CreatePartitionsTopic(name=topic, count=count, assignments=given)
    return module.CreatePartitionsRequest(
        topics=(asked,), timeout=timedelta(seconds=_SECONDS_MAX), validate_only=False
    )


def delete_topic(topic: str, *, version: int) -> Any:
    """A request to delete a topic by its name."""
    return schema("delete_topics", version).DeleteTopicsRequest(
        topic_names=(topic,), timeout=timedelta(seconds=_SECONDS_MAX)
    )


def alter_reassignment(topic: str, partition: int, replicas: list[int]) -> Any:
    """A request for other replicas of a partition."""
    module = schema("alter_partition_reassignments", 0)
    asked = module.ReassignablePartition(partition_index=partition, replicas=tuple(replicas))
    return module.AlterPartitionReassignmentsRequest(
        topics=(module.ReassignableTopic(name=topic, partitions=(asked,)),)
    )


def elect_all(*, unclean: bool = False) -> Any:
    """A request for elections of all partitions."""
    return schema("elect_leaders", 2).ElectLeadersRequest(
        election_type=int(unclean), topic_partitions=None
    )


async def ask(port: int, request: Any) -> Any:
    """The response to a request, over a separate connection. Raises TimeoutError."""
    async with asyncio.timeout(_SECONDS_MAX):
        reader, writer = await asyncio.open_connection(HOST, port)
        try:
            head = RequestHead(request.__api_key__, request.__version__, 1)
            writer.write(encode_request(head, _CLIENT, request))
            (size,) = unpack(">i", await reader.readexactly(4))
            return decode_response(head, await reader.readexactly(size))
        finally:
            writer.transport.abort()
