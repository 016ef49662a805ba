"""What the daemon says of itself, in every version that may be offered."""

from typing import Any

import pytest
from kio.schema.index import api_key_map, schema_name_map

from controller.api.front.own_answers import answer_about_own_id, answer_here
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
from controller.wire.api_versions import ApiVersionsRequest
from controller.wire.client_requests import RequestHead, decode_response
from tests.api.client import request_schema
from tests.scripted_broker import OFFERED, versions_answer

OWN_ID = 1000
BROKER = 4
INVALID_REQUEST = 42


def every_version(*api_keys: int) -> list[RequestHead]:
    return [
        RequestHead(key, version, 5)
        for key in api_keys
        for version in schema_name_map[api_key_map[key]]
    ]


@pytest.mark.parametrize("head", every_version(LIST_GROUPS, LIST_TRANSACTIONS, DESCRIBE_LOG_DIRS))
def test_it_has_nothing(head: RequestHead) -> None:
    answer = decode_response(head, answer_here(head)[4:])
    assert getattr(answer, "error_code", 0) == 0
    if head.api_key == DESCRIBE_LOG_DIRS:
        assert [(one.error_code, one.topics) for one in answer.results] == [(0, ())]
    elif head.api_key == LIST_GROUPS:
        assert answer.groups == ()
    else:
        assert answer.transaction_states == ()


def request_about(head: RequestHead, *names: str) -> Any:
    """A request about the configurations of brokers."""
    schema = request_schema(head.api_key, head.version)
    if head.api_key == DESCRIBE_CONFIGS:
        resources = tuple(
            schema.DescribeConfigsResource(resource_type=BROKER, resource_name=one) for one in names
        )
        return schema.DescribeConfigsRequest(resources=resources)
    resources = tuple(
        schema.AlterConfigsResource(resource_type=BROKER, resource_name=one, configs=())
        for one in names
    )
    is_incremental = head.api_key == INCREMENTAL_ALTER_CONFIGS
    kind = schema.IncrementalAlterConfigsRequest if is_incremental else schema.AlterConfigsRequest
    return kind(resources=resources, validate_only=False)


ABOUT_BROKERS = every_version(DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS)


@pytest.mark.parametrize("head", ABOUT_BROKERS)
def test_its_own_configuration_is_empty_and_altered_without_effect(head: RequestHead) -> None:
    frame = answer_about_own_id(head, request_about(head, str(OWN_ID), "1"), OWN_ID)
    assert frame is not None
    answer = decode_response(head, frame[4:])
    results = answer.results if head.api_key == DESCRIBE_CONFIGS else answer.responses
    assert [(one.resource_name, one.error_code) for one in results] == [
        (str(OWN_ID), 0),
        ("1", INVALID_REQUEST),
    ]


@pytest.mark.parametrize("head", ABOUT_BROKERS)
def test_what_does_not_name_it_is_not_its_own(head: RequestHead) -> None:
    assert answer_about_own_id(head, request_about(head, "1", ""), OWN_ID) is None


@pytest.mark.parametrize("version", range(3, 5))
def test_features_of_the_broker_are_told(version: int) -> None:
    head = RequestHead(API_VERSIONS, version, 5)
    frame = VersionTable(versions_answer(OFFERED)).answer(
        head, ApiVersionsRequest("test", True, True)
    )
    answer = decode_response(head, frame[4:])
    (supported,), (finalized,) = answer.supported_features, answer.finalized_features
    assert (supported.name, supported.max_version) == ("x", 2)
    assert (finalized.name, finalized.max_version_level) == ("x", 2)
    assert answer.finalized_features_epoch == 7


def test_no_version_is_offered_that_we_could_not_read() -> None:
    table = VersionTable(versions_answer({LIST_GROUPS: (0, 99), 3: (0, 99)}))
    assert not table.offers(RequestHead(LIST_GROUPS, 99, 5))
    assert table.offers(RequestHead(3, 99, 5))
