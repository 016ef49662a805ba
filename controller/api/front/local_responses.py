"""Responses about the daemon itself, where a client addresses it as a broker. Pure.

The daemon holds no data: no groups, no transactions, no partitions and no dynamic configuration.
Its configuration consists of the settings that it was started with.
"""

import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode

from controller.api.front.routing import (
    ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    DESCRIBE_LOG_DIRS,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_GROUPS,
    LIST_TRANSACTIONS,
)
from controller.core.topic_configs import OF_KAFKA, ConfigEntry
from controller.wire.client_requests import (
    RequestHead,
    encode_response,
    make_entity,
    response_schema,
)

_BROKER: Final = 4
_BROKER_LOGGER: Final = 8
_LOG_DIR: Final = "none: this is a refold controller"

Schema = Callable[..., Any]


def local_response(head: RequestHead, *, is_allowed: bool = True) -> bytes:
    """The response to ListGroups, ListTransactions or DescribeLogDirs. A client that is not
    allowed to see the directories receives none."""
    schema = response_schema(head)
    fields: dict[str, Any] = {"error_code": ErrorCode.none, "throttle_time": timedelta(0)}
    if head.api_key == LIST_GROUPS:
        fields["groups"] = ()
    elif head.api_key == LIST_TRANSACTIONS:
        fields["transaction_states"] = ()
    else:
        assert head.api_key == DESCRIBE_LOG_DIRS
        if not is_allowed:
            fields |= {"error_code": ErrorCode.cluster_authorization_failed, "results": ()}
            return encode_response(head, make_entity(schema, fields))
        # A response without any directory would mean a failed authorization.
        directory = sys.modules[schema.__module__].DescribeLogDirsResult
        fields["results"] = (directory(error_code=ErrorCode.none, log_dir=_LOG_DIR, topics=()),)
    return encode_response(head, make_entity(schema, fields))


def own_config_response(
    head: RequestHead,
    request: Any,
    broker_id: int,
    own_configs: Sequence[ConfigEntry],
    *,
    is_allowed: bool = True,
) -> bytes | None:
    """The response to a request about configurations, if the request names the daemon's id; else
    None. It is an error for clients that are not allowed to see the daemon's.

    Alterations succeed and do nothing, so that a tool can clear the throttles of all live brokers.
    Describe requests return `own_configs`, which are all read-only.
    """
    resources = request.resources or ()
    if not any(_is_own(one, broker_id) for one in resources):
        return None
    schema = response_schema(head)
    module = sys.modules[schema.__module__]
    result, key = _result_of(head.api_key, module)
    results = []
    for one in resources:
        fields = _result_fields(one, broker_id)
        if not is_allowed and _is_own(one, broker_id):
            fields["error_code"] = ErrorCode.cluster_authorization_failed
        if head.api_key == DESCRIBE_CONFIGS:
            is_shown = is_allowed and _is_own(one, broker_id) and one.resource_type == _BROKER
            own = own_configs if is_shown else ()
            synonyms = getattr(request, "include_synonyms", False)
            fields["configs"] = _described_configs(
                module, _requested_entries(own, one), with_synonyms=synonyms
            )
        results.append(result(**fields))
    return encode_response(head, schema(**{"throttle_time": timedelta(0), key: tuple(results)}))


def _is_own(resource: Any, broker_id: int) -> bool:
    kinds = (_BROKER, _BROKER_LOGGER)
    return resource.resource_type in kinds and resource.resource_name == str(broker_id)


def _result_of(api_key: int, schema: Any) -> tuple[Schema, str]:
    """The class of one result, and the name of the field that holds the results."""
    if api_key == DESCRIBE_CONFIGS:
        return schema.DescribeConfigsResult, "results"
    assert api_key in (ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS)
    return schema.AlterConfigsResourceResponse, "responses"


def _result_fields(resource: Any, broker_id: int) -> dict[str, Any]:
    own = _is_own(resource, broker_id)
    problem = f"broker {broker_id} is a refold controller: send this request separately to a broker"
    return {
        "error_code": ErrorCode.none if own else ErrorCode.invalid_request,
        "error_message": None if own else problem,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
    }


def _requested_entries(configs: Sequence[ConfigEntry], resource: Any) -> Sequence[ConfigEntry]:
    """The requested entries; all of them if no names are given (ConfigHelper.describeConfigs)."""
    names = resource.configuration_keys
    return [one for one in configs if not names or one.name in names]


def _described_configs(
    module: Any, configs: Sequence[ConfigEntry], *, with_synonyms: bool
) -> tuple[Any, ...]:
    entity = module.DescribeConfigsResourceResult
    return tuple(
        make_entity(
            entity,
            {
                "name": one.name,
                "value": one.value,
                "read_only": True,
                "is_default": one.source == OF_KAFKA,
                "config_source": one.source,
                "is_sensitive": False,
                "synonyms": _synonyms(module, one) if with_synonyms else (),
                "documentation": None,
            },
        )
        for one in configs
    )


def _synonyms(module: Any, config: ConfigEntry) -> tuple[Any, ...]:
    """The one source of the value; none if there is no value."""
    if config.value is None:
        return ()
    fields = {"name": config.name, "value": config.value, "source": config.source}
    return (module.DescribeConfigsSynonym(**fields),)
