"""UpdateFeatures on the wire."""

from typing import Any, Final

from kio.schema.errors import ErrorCode

from controller.core.api_requests.features import (
    FeatureUpdate,
    UpdateFeaturesReceived,
    UpdateFeaturesResponse,
)
from controller.wire.admin.admin_api import AdminApi, ResponseBuilder
from controller.wire.admin.topics import named_results
from controller.wire.request_body import RequestBody

_FIRST_WITH_TYPE: Final = 1
_UPGRADE, _SAFE_DOWNGRADE = 1, 2


def _decode(body: RequestBody, version: int, request: int) -> UpdateFeaturesReceived:
    def update() -> FeatureUpdate:
        feature, level = body.string(), body.int16()
        if version >= _FIRST_WITH_TYPE:
            return FeatureUpdate(feature, level, body.int8())
        return FeatureUpdate(feature, level, _SAFE_DOWNGRADE if body.boolean() else _UPGRADE)

    timeout_ms = body.int32()
    updates = body.structures(update)
    validate_only = version >= _FIRST_WITH_TYPE and body.boolean()
    return UpdateFeaturesReceived(request, version, timeout_ms, validate_only, updates)


def _fields(response: UpdateFeaturesResponse, builder: ResponseBuilder) -> dict[str, Any]:
    return {
        "error_code": ErrorCode(response.error),
        "error_message": response.message,
        "results": named_results(builder, "UpdatableFeatureResult", "feature", response.features),
    }


UPDATE_FEATURES: Final = AdminApi(
    key=57,
    name="UpdateFeatures",
    first=0,
    last=1,
    first_flexible=0,
    decode=_decode,
    response=UpdateFeaturesResponse,
    fields=_fields,
)
