"""How an API for admin tools is declared: its versions, how its requests are decoded and its
responses encoded."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from controller.core.api_requests import AdminRequest, AdminResponse
from controller.wire.apis import Api
from controller.wire.request_body import RequestBody

Response = TypeVar("Response", bound=AdminResponse)


@dataclass(frozen=True, slots=True)
class ResponseBuilder:
    """Creates the kio entities of one version of a response. `module` has their classes;
    `broker_settings` determine the configuration of new topics (topic_configs.py)."""

    module: Any
    version: int
    broker_settings: Mapping[str, str]

    def make(self, entity_name: str, /, **fields: Any) -> Any:
        """An entity. Fields that the version does not have are omitted."""
        entity = getattr(self.module, entity_name)
        known = entity.__dataclass_fields__
        return entity(**{field: value for field, value in fields.items() if field in known})


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminApi(Api, Generic[Response]):
    """One API for admin tools, with the versions of a Kafka 3.9 broker."""

    decode: Callable[[RequestBody, int, int], AdminRequest]
    """Reads a body of a version to the request with a number."""
    response: type[Response]
    fields: Callable[[Response, ResponseBuilder], dict[str, Any]]
    """The fields of the response, except the throttle time."""
    may_wait: bool = False
    """Whether the response waits for brokers, up to the request's timeout: such requests have
    separate slots (request_quotas.py)."""
