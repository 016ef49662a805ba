"""UpdateFeatures: an admin tool changes finalized features (KB 11.9.2)."""

from typing import ClassVar, Final

from msgspec import Struct

from controller.core.api_requests.received_request import ReceivedRequest
from controller.core.api_requests.topics import TopicResult
from controller.core.error_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    CLUSTER_AUTHORIZATION_TEXT,
    NOT_CONTROLLER,
    NOT_CONTROLLER_TEXT,
)

_TEXTS: Final = {
    NOT_CONTROLLER: NOT_CONTROLLER_TEXT,
    CLUSTER_AUTHORIZATION_FAILED: CLUSTER_AUTHORIZATION_TEXT,
}


class FeatureUpdate(Struct, frozen=True, array_like=True, gc=False):
    """One feature of an UpdateFeatures request. `upgrade_type`: 1 upgrade, 2 safe downgrade, 3
    unsafe downgrade; version 0's "allow downgrade" is 2."""

    feature: str
    level: int
    upgrade_type: int


class UpdateFeaturesReceived(
    ReceivedRequest, frozen=True, array_like=True, tag="update_features_received"
):
    """An admin tool changes finalized features."""

    RULE: ClassVar[str] = "features updated by request"
    CONTROLLER_EVENT: ClassVar[str] = "UpdateFeatures"
    CONTROLLER_STATE: ClassVar[str] = "UpdateFeatures"
    CLUSTER_OPERATION: ClassVar[str | None] = "Alter"

    timeout_ms: int
    validate_only: bool
    updates: list[FeatureUpdate]

    def refusal(self, error: int) -> "UpdateFeaturesResponse":
        """The response without features. As in Kafka, few errors have a message."""
        return UpdateFeaturesResponse(self.request, error, _TEXTS.get(error))


class UpdateFeaturesResponse(Struct, frozen=True, array_like=True, tag="answer_update_features"):
    """The response to an `UpdateFeaturesReceived`: an error of the whole request, or one for each
    feature (`TopicResult.name` is the feature's name)."""

    request: int
    error: int
    message: str | None = None
    features: tuple[TopicResult, ...] = ()
