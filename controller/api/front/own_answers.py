"""What the daemon says of itself where it is asked as if it were a broker. Pure.

It holds no data: it has no groups, no transactions, no partitions and no dynamic configuration.
"""

import sys
from collections.abc import Callable
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
from controller.wire.client_requests import RequestHead, encode_response, response_schema

_BROKER: Final = 4
_BROKER_LOGGER: Final = 8
_LOG_DIR: Final = "none: this is a refold controller"

Schema = Callable[..., Any]


def answer_here(head: RequestHead) -> bytes:
    """The frame that answers ListGroups, ListTransactions or DescribeLogDirs."""
    schema = response_schema(head)
    fields: dict[str, Any] = {"error_code": ErrorCode.none, "throttle_time": timedelta(0)}
    if head.api_key == LIST_GROUPS:
        fields["groups"] = ()
    elif head.api_key == LIST_TRANSACTIONS:
        fields["transaction_states"] = ()
    else:
        assert head.api_key == DESCRIBE_LOG_DIRS
        # Without any directory it would read as a failed authorisation.
        directory = sys.modules[schema.__module__].DescribeLogDirsResult
        fields["results"] = (directory(error_code=ErrorCode.none, log_dir=_LOG_DIR, topics=()),)
    return encode_response(head, _made(schema, fields))


def answer_about_own_id(head: RequestHead, request: Any, broker_id: int) -> bytes | None:
    """The frame that answers a request about configurations, if it names the daemon's own id.

    Describing gives nothing and altering does nothing, both with success: a tool that clears the
    throttles of all live brokers must come through.
    """
    named = [(one.resource_type, one.resource_name) for one in request.resources or ()]
    if not any(_is_own(one, broker_id) for one in named):
        return None
    schema = response_schema(head)
    result, key = _result_of(head.api_key, sys.modules[schema.__module__])
    results = tuple(_judged(result, head.api_key, one, broker_id) for one in named)
    return encode_response(head, schema(**{"throttle_time": timedelta(0), key: results}))


def _made(schema: Any, fields: dict[str, Any]) -> Any:
    """The entity; a field that its version does not have yet is left out."""
    known = schema.__dataclass_fields__
    return schema(**{name: value for name, value in fields.items() if name in known})


def _is_own(resource: tuple[int, str], broker_id: int) -> bool:
    kind, name = resource
    return kind in (_BROKER, _BROKER_LOGGER) and name == str(broker_id)


def _result_of(api_key: int, schema: Any) -> tuple[Schema, str]:
    """What the answer has one of for each resource, and under which name."""
    if api_key == DESCRIBE_CONFIGS:
        return schema.DescribeConfigsResult, "results"
    assert api_key in (ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS)
    return schema.AlterConfigsResourceResponse, "responses"


def _judged(result: Schema, api_key: int, resource: tuple[int, str], broker_id: int) -> Any:
    kind, name = resource
    own = _is_own(resource, broker_id)
    problem = f"broker {broker_id} is a refold controller: ask a broker for this in another request"
    return result(
        error_code=ErrorCode.none if own else ErrorCode.invalid_request,
        error_message=None if own else problem,
        resource_type=kind,
        resource_name=name,
        **({"configs": ()} if api_key == DESCRIBE_CONFIGS else {}),
    )
