"""The controller's requests as kio entities, to compare with the hand-written encoders."""

from importlib import import_module
from io import BytesIO
from itertools import groupby
from operator import attrgetter
from typing import Any
from uuid import UUID

from kio.serial import entity_writer

from controller.core.commands import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from controller.core.values import Broker

_SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


def encode(entity: Any) -> bytes:
    """Encode a kio entity."""
    body = BytesIO()
    entity_writer(type(entity))(body, entity)
    return body.getvalue()


def leader_and_isr(request: LeaderAndIsrRequest, version: int) -> Any:
    """The request as a kio entity."""
    schema = import_module(f"kio.schema.leader_and_isr.v{version}.request")
    topics = tuple(
        schema.LeaderAndIsrTopicState(
            topic_name=topic,
            partition_states=tuple(_leader_and_isr_state(schema, one, version) for one in states),
            **_topic_id(topic_id, version >= 5),
        )
        for (topic, topic_id), states in groupby(
            request.partitions, attrgetter("topic", "topic_id")
        )
    )
    leaders = tuple(
        schema.LeaderAndIsrLiveLeader(broker_id=broker, host_name=host, port=port)
        for broker, host, port in request.live_leaders
    )
    return schema.LeaderAndIsrRequest(
        controller_id=request.controller_id,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        topic_states=topics,
        live_leaders=leaders,
        **({"type_": 0} if version >= 5 else {}),
    )


def update_metadata(request: UpdateMetadataRequest, version: int) -> Any:
    """The request as a kio entity."""
    schema = import_module(f"kio.schema.update_metadata.v{version}.request")
    topics = tuple(
        schema.UpdateMetadataTopicState(
            topic_name=topic,
            partition_states=tuple(_update_metadata_state(schema, one) for one in states),
            **_topic_id(topic_id, version >= 7),
        )
        for (topic, topic_id), states in groupby(
            request.partitions, attrgetter("topic", "topic_id")
        )
    )
    return schema.UpdateMetadataRequest(
        controller_id=request.controller_id,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        topic_states=topics,
        live_brokers=tuple(_live_broker(schema, one) for one in request.live_brokers),
    )


def _topic_id(topic_id: bytes | None, has_id: bool) -> dict[str, UUID | None]:
    if not has_id:
        return {}
    return {"topic_id": None if topic_id is None else UUID(bytes=topic_id)}


def _leadership(one: LeaderAndIsrPartition | UpdateMetadataPartition) -> dict[str, Any]:
    """The fields that both requests have under the same names."""
    now = one.leadership
    return {
        "partition_index": one.partition,
        "controller_epoch": now.controller_epoch,
        "leader": now.leader,
        "leader_epoch": now.leader_epoch,
        "isr": now.isr,
    }


def _leader_and_isr_state(schema: Any, one: LeaderAndIsrPartition, version: int) -> Any:
    now = one.leadership
    return schema.LeaderAndIsrPartitionState(
        **_leadership(one),
        partition_epoch=now.partition_epoch,
        replicas=one.assignment.replicas,
        adding_replicas=one.assignment.adding,
        removing_replicas=one.assignment.removing,
        is_new=one.is_new,
        **({"leader_recovery_state": now.recovery_state} if version >= 6 else {}),
    )


def _update_metadata_state(schema: Any, one: UpdateMetadataPartition) -> Any:
    return schema.UpdateMetadataPartitionState(
        **_leadership(one),
        zk_version=one.leadership.partition_epoch,
        replicas=one.replicas,
        offline_replicas=one.offline_replicas,
    )


def _live_broker(schema: Any, broker: Broker) -> Any:
    endpoints = tuple(
        schema.UpdateMetadataEndpoint(
            port=one.port,
            host=one.host,
            listener=one.listener,
            security_protocol=_SECURITY_PROTOCOLS[one.security_protocol],
        )
        for one in broker.endpoints
    )
    return schema.UpdateMetadataBroker(id_=broker.id, endpoints=endpoints, rack=broker.rack)
