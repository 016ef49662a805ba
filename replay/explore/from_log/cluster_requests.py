"""The inputs for requests about no topic: producer ids, SCRAM credentials, finalized features."""

from controller.core.api_requests import ApiRequest
from controller.core.api_requests.features import UpdateFeaturesReceived
from controller.core.api_requests.producer_ids import AllocateProducerIdsReceived
from controller.core.api_requests.scram_credentials import AlterUserScramCredentialsReceived
from replay.world.inputs import (
    MECHANISMS,
    UPGRADE_KINDS,
    AllocateProducerIds,
    AlterUserScramCredentials,
    CredentialChange,
    FeatureChange,
    Input,
    UpdateFeatures,
)


def input_of(at_ms: int, request: ApiRequest) -> Input | None:
    """The input that makes a request; None if the request is about topics or brokers. What an input
    cannot have, such as an unknown mechanism, is left out."""
    match request:
        case AllocateProducerIdsReceived(broker=broker):
            return AllocateProducerIds(at_ms, broker)
        case AlterUserScramCredentialsReceived(deletions=deletions, upsertions=upsertions):
            changes = [
                CredentialChange(one.user, MECHANISMS[one.mechanism], None)
                for one in deletions
                if one.mechanism in MECHANISMS
            ]
            changes += [
                CredentialChange(
                    one.user, MECHANISMS[one.mechanism], one.credential, one.iterations
                )
                for one in upsertions
                if one.mechanism in MECHANISMS
            ]
            return AlterUserScramCredentials(at_ms, tuple(changes))
        case UpdateFeaturesReceived(updates=updates, validate_only=validate_only):
            levels = tuple(
                FeatureChange(one.feature, one.level, UPGRADE_KINDS[one.upgrade_type])
                for one in updates
                if one.upgrade_type in UPGRADE_KINDS
            )
            return UpdateFeatures(at_ms, levels, validate_only)
        case _:
            return None
