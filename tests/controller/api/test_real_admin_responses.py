"""Answers of a stock controller compared with the endpoint's: topic configurations, and the
bytes."""

import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.index import load_request_schema
from kio.static.constants import uuid_zero

from controller.core.api_requests import AdminResponse
from controller.core.api_requests.elections import ElectLeadersResponse
from controller.core.api_requests.features import UpdateFeaturesResponse
from controller.core.api_requests.partition_result import PartitionResult
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsResponse,
)
from controller.core.api_requests.scram_credentials import (
    AlterUserScramCredentialsResponse,
    UserResult,
)
from controller.core.api_requests.topics import (
    CreatedTopic,
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsResponse,
    TopicResult,
)
from controller.core.topic_configs import TOPIC_CONFIGS, effective_configs, validate
from controller.wire.admin.apis import ADMIN_APIS, encode_admin_response
from controller.wire.client_requests import RequestHead, decode_response
from tests.controller.api.client import API_VERSIONS, Client, api_versions
from tests.controller.api_keys import (
    ALTER_PARTITION_REASSIGNMENTS,
    ALTER_USER_SCRAM_CREDENTIALS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    ELECT_LEADERS,
    LIST_PARTITION_REASSIGNMENTS,
    UPDATE_FEATURES,
)
from tools.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]

BROKER_SETTINGS = {
    "log.retention.hours": "24",
    "log.retention.minutes": "90",
    "log.roll.ms": "7200000",
    "log.flush.scheduler.interval.ms": "5000",
    "min.insync.replicas": "2",
    "log.cleanup.policy": "compact, delete",
    "log.cleaner.max.compaction.lag.ms": "60000",
    "log.cleaner.min.cleanable.ratio": "0.0005",
    "log.message.timestamp.difference.max.ms": "3600000",
    "log.message.timestamp.after.max.ms": "1800000",
}
WORDS = (
    "",
    " ",
    "-1",
    "-2",
    "0",
    "1",
    "2",
    "+5",
    " 7 ",
    "99999999999",
    "1" * 30,
    "1.5",
    "1e-4",
    "0.5d",
)
MORE_WORDS = (
    "1e10",
    "NaN",
    "-Infinity",
    "x",
    "TRUE",
    "no",
    "compact",
    "delete,compact",
    "compact,,",
)
SPECIAL_WORDS = (
    *("gzip", "GZIP", "2.8", "2.8.1", "0.10", "0.10.0-IV1", "4.0", "4.0-IV0", "CreateTime", "*"),
    *("0:1", "0:1 , 1:2", "0:x", "1:1,", "2.8-IV9", "2.", "compact delete", "17", "22", "23"),
)
TOGETHER: tuple[dict[str, str], ...] = (
    {},
    {"no.such.name": "1"},
    {"segment.bytes": "1", "cleanup.policy": "x", "retention.ms": "-2"},
    {"min.compaction.lag.ms": "60001"},
    {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"},
    {"remote.storage.enable": "true"},
    {"remote.storage.enable": "true", "cleanup.policy": "compact"},
    {"remote.log.copy.disable": "true", "remote.storage.enable": "true"},
    {"remote.log.delete.on.disable": "true"},
    {"local.retention.ms": "5", "retention.ms": "4"},
    {"message.timestamp.before.max.ms": "5"},
)


def create_topics(overrides: list[dict[str, str]]) -> Any:
    """Validates one topic for each of these configurations."""
    schema = load_request_schema(CREATE_TOPICS, 7)
    module = sys.modules[schema.__module__]
    topics = (
        module.CreatableTopic(
            name=f"t{number}",
            num_partitions=1,
            replication_factor=1,
            assignments=(),
            configs=tuple(
                module.CreatableTopicConfig(name=name, value=value) for name, value in one.items()
            ),
        )
        for number, one in enumerate(overrides)
    )
    return schema(topics=tuple(topics), timeout=timedelta(seconds=9), validate_only=True)


async def test_configurations_are_validated_and_described_as_by_a_stock_controller(
    lab: Lab,
) -> None:
    await lab.start_zookeeper()
    (broker,) = await lab.start_brokers(1, config=BROKER_SETTINGS)
    words = (*WORDS, *MORE_WORDS, *SPECIAL_WORDS)
    overrides = [{one.name: word} for one in TOPIC_CONFIGS for word in words] + list(TOGETHER)
    async with Client(broker.port) as client:
        answer = await client.ask(CREATE_TOPICS, 7, create_topics(overrides))
        for version in (7, 5):
            await same_bytes(client, RequestHead(CREATE_TOPICS, version, 0))
        offered = await client.ask(API_VERSIONS, 3, api_versions())
        for head in other_heads():
            await same_bytes(client, head)
    spans = {one.api_key: (one.min_version, one.max_version) for one in offered.api_keys}
    for key, api in ADMIN_APIS.items():
        assert spans[key] == (api.first, api.last)
    by_name = {one.name: one for one in answer.topics}
    assert len(by_name) == len(overrides)
    for number, one in enumerate(overrides):
        same_verdict(by_name[f"t{number}"], one, broker.config)


@pytest.mark.parametrize("kafka", ["2.8.2", "3.3.2"])
async def test_versions_that_older_brokers_cannot_read_are_rejected(
    tmp_path: Path, kafka: str
) -> None:
    """A stock controller of that release accepts every configuration that the daemon accepts
    where such brokers are live, and describes the same configurations."""
    words = (*WORDS, *MORE_WORDS, *SPECIAL_WORDS, "3.0-IV0", "3.0", "3.3", "3.4-IV0")
    overrides = [{one.name: word} for one in TOPIC_CONFIGS for word in words]
    async with Lab(tmp_path / "lab", kafka=kafka) as lab:
        await lab.start_zookeeper()
        (broker,) = await lab.start_brokers(1)
        async with Client(broker.port) as client:
            answer = await client.ask(CREATE_TOPICS, 7, create_topics(overrides))
    release = tuple(map(int, kafka.split(".")[:2]))
    by_name = {one.name: one for one in answer.topics}
    for number, one in enumerate(overrides):
        theirs, ours = by_name[f"t{number}"], validate(one, {}, release)
        assert ours or not theirs.error_code, (one, theirs.error_message)
        if ours and ours.startswith("Unknown topic config name"):
            assert theirs.error_message == ours
        if not ours:
            described = {one.name: (one.value, one.config_source) for one in theirs.configs}
            assert described == {
                entry.name: (entry.value, entry.source)
                for entry in effective_configs(one, {}, release)
            }


def same_verdict(topic: Any, overrides: dict[str, str], settings: Mapping[str, str]) -> None:
    problem = validate(overrides, settings)
    assert topic.error_message == problem, overrides
    assert topic.error_code == (40 if problem else 0)
    if not problem:
        described = {one.name: (one.value, one.config_source) for one in topic.configs}
        ours: dict[str, tuple[str, int]] = {
            entry.name: (entry.value, entry.source)
            for entry in effective_configs(overrides, settings)
        }
        assert described == ours, overrides
        assert not any(one.read_only or one.is_sensitive for one in topic.configs)


# Bytes ------------------------------------------------------------------------------------------


def other_heads() -> list[RequestHead]:
    return [
        RequestHead(key, version, 0)
        for key, api in ADMIN_APIS.items()
        for version in api.versions
        if key != CREATE_TOPICS
    ]


async def same_bytes(client: Client, head: RequestHead) -> None:
    """A request for missing entities. Its response, decoded and encoded again, is the same."""
    sent = client.send(head.api_key, head.version, bad_request(head))
    frame = await client.receive()
    read = decode_response(sent, frame)
    assert encode_admin_response(sent, answer_of(head.api_key, read), {})[4:] == frame, head


def bad_request(head: RequestHead) -> Any:
    schema = load_request_schema(head.api_key, head.version)
    module = sys.modules[schema.__module__]
    nine = timedelta(seconds=9)
    match head.api_key:
        case key if key == CREATE_TOPICS:
            topic = module.CreatableTopic(
                name="no/name", num_partitions=1, replication_factor=1, assignments=(), configs=()
            )
            return schema(topics=(topic,), timeout=nine)
        case key if key == DELETE_TOPICS:
            if head.version < 6:
                return schema(topic_names=("absent",), timeout=nine)
            named = module.DeleteTopicState(name="absent", topic_id=None)
            identified = module.DeleteTopicState(name=None, topic_id=uuid_of(9))
            return schema(topics=(named, identified), timeout=nine)
        case key if key == CREATE_PARTITIONS:
            topic = module.CreatePartitionsTopic(name="absent", count=2, assignments=None)
            return schema(topics=(topic,), timeout=nine, validate_only=False)
        case key if key == ELECT_LEADERS:
            topic = module.TopicPartitions(topic="absent", partitions=(0,))
            kind = {"election_type": 1} if head.version else {}
            return schema(topic_partitions=(topic,), **kind)
        case key if key == ALTER_PARTITION_REASSIGNMENTS:
            partitions = tuple(
                module.ReassignablePartition(partition_index=number, replicas=replicas)
                for number, replicas in ((0, (1,)), (1, None), (2, ()))
            )
            topic = module.ReassignableTopic(name="absent", partitions=partitions)
            return schema(topics=(topic,))
        case key if key == LIST_PARTITION_REASSIGNMENTS:
            return schema(topics=None)
        case key if key == ALTER_USER_SCRAM_CREDENTIALS:
            salt = {"salt": b"salt", "salted_password": b"password"}
            upsertions = (
                module.ScramCredentialUpsertion(name=name, mechanism=kind, iterations=count, **salt)
                for name, kind, count in (("", 1, 4096), ("few", 1, 4095), ("new", 3, 4096))
            )
            deletion = module.ScramCredentialDeletion(name="absent", mechanism=2)
            return schema(deletions=(deletion,), upsertions=tuple(upsertions))
        case key:
            assert key == UPDATE_FEATURES
            kind = {"upgrade_type": 1} if head.version else {"allow_downgrade": False}
            update = module.FeatureUpdateKey(feature="absent", max_version_level=1, **kind)
            return schema(feature_updates=(update,))


def uuid_of(number: int) -> Any:
    return type(uuid_zero)(int=number)


def answer_of(api_key: int, read: Any) -> AdminResponse:
    """The response that the controller would have to give."""
    error = getattr(read, "error_code", 0)
    match api_key:
        case key if key == CREATE_TOPICS:
            return CreateTopicsResponse(
                1,
                tuple(
                    CreatedTopic(one.name, one.error_code, one.error_message) for one in read.topics
                ),
            )
        case key if key == DELETE_TOPICS:
            topics = (
                DeletedTopic(
                    one.name,
                    one.topic_id.bytes if getattr(one, "topic_id", None) else None,
                    one.error_code,
                )
                for one in read.responses
            )
            return DeleteTopicsResponse(1, 0, tuple(topics))
        case key if key == CREATE_PARTITIONS:
            return CreatePartitionsResponse(1, named(read.results, "name"))
        case key if key == ELECT_LEADERS:
            elected = (
                PartitionResult(
                    one.topic, each.partition_id, each.error_code, each.error_message or ""
                )
                for one in read.replica_election_results
                for each in one.partition_result
            )
            return ElectLeadersResponse(1, error, tuple(elected))
        case key if key == ALTER_PARTITION_REASSIGNMENTS:
            targets = (
                PartitionResult(
                    one.name, each.partition_index, each.error_code, each.error_message or ""
                )
                for one in read.responses
                for each in one.partitions
            )
            return AlterPartitionReassignmentsResponse(1, error, tuple(targets))
        case key if key == LIST_PARTITION_REASSIGNMENTS:
            assert read.topics == ()
            return ListPartitionReassignmentsResponse(1, error)
        case key if key == ALTER_USER_SCRAM_CREDENTIALS:
            users = (
                UserResult(one.user, one.error_code, one.error_message) for one in read.results
            )
            return AlterUserScramCredentialsResponse(1, tuple(users))
        case _:
            features = named(read.results, "feature")
            return UpdateFeaturesResponse(1, error, read.error_message, features)


def named(results: Any, name: str) -> tuple[TopicResult, ...]:
    return tuple(
        TopicResult(getattr(one, name), one.error_code, one.error_message) for one in results
    )
