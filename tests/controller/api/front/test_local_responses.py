"""The daemon's answers about itself, in every version that may be offered."""

from typing import Any

import pytest
from kio.schema.index import api_key_map, schema_name_map

from controller.api.front.local_responses import local_response, own_config_response
from controller.api.front.routing import (
    ALTER_CONFIGS,
    API_VERSIONS,
    DESCRIBE_CONFIGS,
    DESCRIBE_LOG_DIRS,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_GROUPS,
    LIST_TRANSACTIONS,
)
from controller.api.front.versions import VersionTable
from controller.core.topic_configs import OF_BROKER, OF_KAFKA, ConfigEntry
from controller.wire.api_versions import ApiVersionsRequest
from controller.wire.client_requests import RequestHead, decode_response
from tests.controller.api.client import request_schema
from tests.scripted_broker import OFFERED, versions_answer

OWN_ID = 1000
BROKER = 4
BROKER_LOGGER = 8
INVALID_REQUEST = 42


def every_version(*api_keys: int) -> list[RequestHead]:
    return [
        RequestHead(key, version, 5)
        for key in api_keys
        for version in schema_name_map[api_key_map[key]]
    ]


@pytest.mark.parametrize("head", every_version(LIST_GROUPS, LIST_TRANSACTIONS, DESCRIBE_LOG_DIRS))
def test_daemon_has_no_groups_transactions_or_log_directories(head: RequestHead) -> None:
    answer = decode_response(head, local_response(head)[4:])
    assert getattr(answer, "error_code", 0) == 0
    if head.api_key == DESCRIBE_LOG_DIRS:
        assert [(one.error_code, one.topics) for one in answer.results] == [(0, ())]
    elif head.api_key == LIST_GROUPS:
        assert answer.groups == ()
    else:
        assert answer.transaction_states == ()


CONFIGS = (
    ConfigEntry("broker.id", "1000", OF_BROKER),
    ConfigEntry("broker.rack", None, OF_KAFKA),
    ConfigEntry("num.partitions", "1", OF_KAFKA),
)


def request_about(
    head: RequestHead, *names: str, kind: int = BROKER, keys: tuple[str, ...] | None = None
) -> Any:
    """A request for the configurations of brokers."""
    schema = request_schema(head.api_key, head.version)
    if head.api_key == DESCRIBE_CONFIGS:
        resources = tuple(
            schema.DescribeConfigsResource(
                resource_type=kind, resource_name=one, configuration_keys=keys
            )
            for one in names
        )
        synonyms = {"include_synonyms": True} if head.version else {}
        return schema.DescribeConfigsRequest(resources=resources, **synonyms)
    resources = tuple(
        schema.AlterConfigsResource(resource_type=BROKER, resource_name=one, configs=())
        for one in names
    )
    is_incremental = head.api_key == INCREMENTAL_ALTER_CONFIGS
    made = schema.IncrementalAlterConfigsRequest if is_incremental else schema.AlterConfigsRequest
    return made(resources=resources, validate_only=False)


ABOUT_BROKERS = every_version(DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS)


@pytest.mark.parametrize("head", ABOUT_BROKERS)
def test_daemon_configuration_is_described_and_altered_without_effect(head: RequestHead) -> None:
    frame = own_config_response(head, request_about(head, str(OWN_ID), "1"), OWN_ID, CONFIGS)
    assert frame is not None
    answer = decode_response(head, frame[4:])
    results = answer.results if head.api_key == DESCRIBE_CONFIGS else answer.responses
    assert [(one.resource_name, one.error_code) for one in results] == [
        (str(OWN_ID), 0),
        ("1", INVALID_REQUEST),
    ]


def described(head: RequestHead, **asked: Any) -> Any:
    """The described configuration of the daemon."""
    frame = own_config_response(head, request_about(head, str(OWN_ID), **asked), OWN_ID, CONFIGS)
    assert frame is not None
    [result] = decode_response(head, frame[4:]).results
    return result.configs


@pytest.mark.parametrize("head", every_version(DESCRIBE_CONFIGS))
def test_daemon_configuration_entries_are_read_only(head: RequestHead) -> None:
    found = described(head)
    assert [(one.name, one.value) for one in found] == [one[:2] for one in CONFIGS]
    assert all(one.read_only and not one.is_sensitive for one in found)
    if head.version:
        assert [one.config_source for one in found] == [OF_BROKER, OF_KAFKA, OF_KAFKA]
        synonyms = [[(each.name, each.source) for each in one.synonyms] for one in found]
        assert synonyms == [[("broker.id", OF_BROKER)], [], [("num.partitions", OF_KAFKA)]]
    else:
        assert [one.is_default for one in found] == [False, True, True]


def test_only_requested_settings_are_described() -> None:
    head = RequestHead(DESCRIBE_CONFIGS, 4, 5)
    assert [one.name for one in described(head, keys=("broker.rack", "x"))] == ["broker.rack"]
    assert len(described(head, keys=())) == len(CONFIGS)


def test_daemon_has_no_broker_loggers() -> None:
    assert described(RequestHead(DESCRIBE_CONFIGS, 4, 5), kind=BROKER_LOGGER) == ()


@pytest.mark.parametrize("head", ABOUT_BROKERS)
def test_request_without_the_daemon_id_is_forwarded(head: RequestHead) -> None:
    assert own_config_response(head, request_about(head, "1", ""), OWN_ID, CONFIGS) is None


@pytest.mark.parametrize("version", range(3, 5))
def test_broker_features_are_described(version: int) -> None:
    head = RequestHead(API_VERSIONS, version, 5)
    frame = VersionTable(versions_answer(OFFERED)).answer(
        head, ApiVersionsRequest("test", True, True)
    )
    answer = decode_response(head, frame[4:])
    (supported,), (finalized,) = answer.supported_features, answer.finalized_features
    assert (supported.name, supported.max_version) == ("x", 2)
    assert (finalized.name, finalized.max_version_level) == ("x", 2)
    assert answer.finalized_features_epoch == 7


def test_only_readable_versions_are_offered() -> None:
    table = VersionTable(versions_answer({LIST_GROUPS: (0, 99), 3: (0, 99)}))
    assert not table.offers(RequestHead(LIST_GROUPS, 99, 5))
    assert table.offers(RequestHead(3, 99, 5))
