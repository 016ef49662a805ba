"""The API versions of the endpoint: those of a live broker, restricted to what refold supports.
Pure."""

from dataclasses import fields
from datetime import timedelta
from importlib import import_module
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map

from controller.api.front.routing import FRONT_KEYS, Route, route
from controller.wire.admin.apis import ADMIN_APIS
from controller.wire.api_versions import API_VERSIONS, FIRST, LAST, ApiVersionsRequest
from controller.wire.client_requests import RequestHead, encode_response, with_correlation_id
from controller.wire.controller_requests import BROKER_APIS
from controller.wire.sasl import SASL_SPANS

Span = tuple[int, int]

_OURS: Final = {
    **{api.key: (api.first, api.last) for api in (*BROKER_APIS.values(), *ADMIN_APIS.values())},
    API_VERSIONS: (FIRST, LAST),
}
_TO_ANY_BROKER: Final = (3, 10, 22, 29, 30, 31, 48, 49, 50, 60)
"""Metadata, FindCoordinator, InitProducerId; DescribeAcls, CreateAcls, DeleteAcls,
DescribeClientQuotas, AlterClientQuotas, DescribeUserScramCredentials, DescribeCluster
(KafkaAdminClient.LeastLoadedNodeProvider). Brokers with ZooKeeper do not have
ListClientMetricsResources and DescribeTopicPartitions, and KafkaAdminClient asks Metadata then."""
_FIRST_THROTTLED: Final = 1
_FIRST_WITH_FEATURES: Final = 3


class VersionTable:
    """The API versions that are offered while requests are forwarded to a broker.

    `broker` is its ApiVersions response (kio, version 3). None means there is no broker: only the
    controller's APIs are offered.
    """

    def __init__(self, broker: Any | None) -> None:
        self._broker = broker
        theirs = broker.api_keys if broker is not None else ()
        self._answers: dict[tuple[int | None, bool], bytes] = {}
        self._spans: dict[int, Span] = dict(_OURS)
        for one in theirs:
            span = _offered_span(one.api_key, (one.min_version, one.max_version))
            if span is not None:
                self._spans.setdefault(one.api_key, span)

    @classmethod
    def of_secured_listener(cls) -> "VersionTable":
        """The versions where no request is forwarded.

        Clients send the requests in `_TO_ANY_BROKER` to any broker. Without them in the table,
        Kafka's clients fail. The daemon answers Metadata and DescribeCluster; at the others, the
        connection ends, and the clients ask another broker.
        """
        table = cls(None)
        table._spans |= SASL_SPANS
        for key in (*_TO_ANY_BROKER, *FRONT_KEYS):
            known = schema_name_map[api_key_map[key]]
            table._spans[key] = (min(known), max(known))
        return table

    def offers(self, head: RequestHead) -> bool:
        """Whether the endpoint supports a request's API and version."""
        first, last = self._spans.get(head.api_key, (0, -1))
        return first <= head.version <= last

    def answer(self, head: RequestHead, request: ApiVersionsRequest) -> bytes:
        """The response to an ApiVersions request, also for an unsupported version of it."""
        kind = (head.version if request.is_known else None, request.is_valid)
        if kind not in self._answers:
            self._answers[kind] = self._encoded_response(head, request)
        return with_correlation_id(self._answers[kind], head.correlation_id)

    def _encoded_response(self, head: RequestHead, request: ApiVersionsRequest) -> bytes:
        if not request.is_known:
            # By KIP-511 such a client understands version 0 and continues from there.
            known = head._replace(version=0)
            spans = {API_VERSIONS: _OURS[API_VERSIONS]}
            return _encode(known, ErrorCode.unsupported_version, spans, {})
        if not request.is_valid:
            return _encode(head, ErrorCode.invalid_request, {}, {})
        return _encode(head, ErrorCode.none, self._spans, self._features(head.version))

    def _features(self, version: int) -> dict[str, Any]:
        if self._broker is None or version < _FIRST_WITH_FEATURES:
            return {}
        return {
            "supported_features": _copies(version, "SupportedFeatureKey", self._broker),
            "finalized_features": _copies(version, "FinalizedFeatureKey", self._broker),
            "finalized_features_epoch": self._broker.finalized_features_epoch,
            "zk_migration_ready": self._broker.zk_migration_ready,
        }


def _offered_span(api_key: int, span: Span) -> Span | None:
    """The part of a broker's version range that is offered, or None."""
    match route(api_key):
        case Route.UNSUPPORTED:
            return None
        case Route.HERE | Route.HERE_OR_BROKER:
            # These requests are decoded here: offer only versions that kio knows.
            known = schema_name_map[api_key_map[api_key]]
            return (max(span[0], min(known)), min(span[1], max(known)))
        case _:
            return span


def _schema(version: int) -> Any:
    return import_module(f"kio.schema.api_versions.v{version}.response")


def _copies(version: int, name: str, broker: Any) -> tuple[Any, ...]:
    """The broker's features as entities of another version of the response."""
    entity = getattr(_schema(version), name)
    features = (
        broker.supported_features if name == "SupportedFeatureKey" else broker.finalized_features
    )
    return tuple(
        entity(**{field: getattr(one, field) for field in _fields(entity)}) for one in features
    )


def _fields(entity: Any) -> list[str]:
    return [one.name for one in fields(entity)]


def _encode(
    head: RequestHead, error: ErrorCode, spans: dict[int, Span], features: dict[str, Any]
) -> bytes:
    schema = _schema(head.version)
    keys = tuple(
        schema.ApiVersion(api_key=key, min_version=first, max_version=last)
        for key, (first, last) in sorted(spans.items())
    )
    throttle = {"throttle_time": timedelta(0)} if head.version >= _FIRST_THROTTLED else {}
    body = schema.ApiVersionsResponse(error_code=error, api_keys=keys, **throttle, **features)
    return encode_response(head, body)
