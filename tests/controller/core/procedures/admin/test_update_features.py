"""UpdateFeatures (KB 11.9.2): KafkaController.processFeatureUpdatesWithActiveController."""

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.api_requests.features import (
    FeatureUpdate,
    UpdateFeaturesReceived,
    UpdateFeaturesResponse,
)
from controller.core.api_requests.topics import TopicResult
from controller.core.deviations import Deviation
from controller.core.fold_observer import FoldObserver
from tests.controller.core.cluster import Cluster, writes
from tests.controller.core.endpoint import call, next_request
from tests.controller.core.procedures.topics.topic_requests import TIMEOUT_MS
from tests.controller.core.unreliable import Delivery

UPGRADE, SAFE, UNSAFE = 1, 2, 3
TWO = (
    b'{"version":2,"status":1,"features":{"f":{"max_version_level":2},"g":{"max_version_level":1}}}'
)
LEFT = b'{"version":2,"status":1,"features":{"g":{"max_version_level":1}}}'
UNSUPPORTED = (
    "Could not apply finalized feature update because the provided feature is not supported."
)
FAILED = "Unable to update finalized features due to an unexpected server error."


def update(
    cluster: Cluster, *updates: tuple[str, int, int], validate_only: bool = False
) -> UpdateFeaturesResponse:
    request = UpdateFeaturesReceived(
        next_request(cluster),
        1,
        TIMEOUT_MS,
        validate_only,
        [FeatureUpdate(*one) for one in updates],
    )
    answer = call(cluster, request)
    assert isinstance(answer, UpdateFeaturesResponse)
    return answer


def with_features() -> Cluster:
    cluster = Cluster(1).start()
    cluster.put(znodes.FEATURE, TWO)
    return cluster


@pytest.mark.parametrize(
    ("feature", "level", "kind", "message"),
    [
        ("", 0, 0, "Feature name can not be empty."),
        ("f", 2, 0, "Received unknown upgrade type."),
        ("f", 2, 4, "Received unknown upgrade type."),
        ("x", 0, SAFE, "Can not delete non-existing finalized feature."),
        (
            "f",
            0,
            UPGRADE,
            "Can not provide versionLevel: 0 less than 1 without setting the SAFE downgradeType "
            "in the request.",
        ),
        (
            "f",
            2,
            SAFE,
            "Can not downgrade a finalized feature from existing versionLevel:2 to the same value.",
        ),
        (
            "f",
            2,
            UNSAFE,
            "Can not upgrade a finalized feature from existing versionLevel:2 to the same value.",
        ),
        (
            "f",
            1,
            UPGRADE,
            "Can not downgrade finalized feature from existing versionLevel:2 to provided "
            "versionLevel:1 without setting the downgradeType to SAFE in the request.",
        ),
        (
            "f",
            3,
            SAFE,
            "When the downgradeType is set to SAFE in the request, the provided versionLevel:3 "
            "can not be greater than existing versionLevel:2.",
        ),
        ("f", 3, UPGRADE, UNSUPPORTED),
        ("f", 1, SAFE, UNSUPPORTED),
        ("metadata.version", 7, UPGRADE, UNSUPPORTED),
    ],
)
def test_updates_are_validated_in_kafkas_order(
    feature: str, level: int, kind: int, message: str
) -> None:
    """A broker in ZooKeeper mode supports no features, so that none can be set."""
    cluster = with_features()
    seen = cluster.seen()
    answer = update(cluster, (feature, level, kind))
    assert (answer.error, answer.message) == (codes.NONE, None)
    assert answer.features == (TopicResult(feature, codes.INVALID_REQUEST, message),)
    assert seen.writes() == []


@pytest.mark.parametrize("kind", [SAFE, UNSAFE])
def test_feature_is_deleted_and_the_others_are_kept(kind: int) -> None:
    cluster = with_features()
    answer = update(cluster, ("x", 1, UPGRADE), ("f", 0, kind), ("f", 2, kind))
    assert [(one.name, one.error, one.message) for one in answer.features] == [
        ("x", codes.INVALID_REQUEST, UNSUPPORTED),
        ("f", codes.NONE, "NONE"),
    ]
    assert cluster.data(znodes.FEATURE) == LEFT


def test_features_are_disabled_below_2_7() -> None:
    cluster = Cluster(1, inter_broker_protocol_version="2.6-IV0").start()
    assert update(cluster, ("f", 0, SAFE)) == UpdateFeaturesResponse(
        1, codes.INVALID_REQUEST, "Feature versioning system is disabled."
    )


def test_features_disabled_meanwhile_do_not_exist() -> None:
    cluster = with_features()
    cluster.put(znodes.FEATURE, TWO.replace(b'"status":1', b'"status":0'))
    [one] = update(cluster, ("f", 0, SAFE)).features
    assert one.message == "Can not delete non-existing finalized feature."


def test_features_of_a_missing_znode_do_not_exist() -> None:
    cluster = with_features()
    cluster.remove(znodes.FEATURE)
    seen = cluster.seen()
    [one] = update(cluster, ("f", 0, SAFE)).features
    assert one.message == "Can not delete non-existing finalized feature."
    assert seen.notices() == []


def test_unreadable_features_do_not_exist() -> None:
    cluster = with_features()
    cluster.put(znodes.FEATURE, b"{")
    seen = cluster.seen()
    [one] = update(cluster, ("f", 0, SAFE)).features
    assert one.message == "Can not delete non-existing finalized feature."
    assert seen.notices() == [("unreadable_znode", znodes.FEATURE)]
    assert cluster.data(znodes.FEATURE) == b"{"


def test_concurrent_write_fails_the_valid_updates() -> None:
    cluster = with_features()
    cluster.once(writes(znodes.FEATURE), lambda: cluster.put_quietly(znodes.FEATURE, TWO))
    seen = cluster.seen()
    answer = update(cluster, ("f", 0, SAFE), ("x", 0, SAFE))
    assert [(one.error, one.message) for one in answer.features] == [
        (codes.FEATURE_UPDATE_FAILED, FAILED),
        (codes.INVALID_REQUEST, "Can not delete non-existing finalized feature."),
    ]
    assert seen.notices() == [("features_not_written", znodes.FEATURE)]
    assert cluster.data(znodes.FEATURE) == TWO


def test_write_with_a_lost_reply_is_a_success() -> None:
    cluster = with_features()
    cluster.lose(writes(znodes.FEATURE), Delivery.REPLY_LOST)
    assert [one.error for one in update(cluster, ("f", 0, SAFE)).features] == [codes.NONE]
    assert cluster.data(znodes.FEATURE) == LEFT


def test_standby_answers_not_controller() -> None:
    cluster = with_features()
    cluster.seize_role(1)
    cluster.run()
    text = "This is not the correct controller for this cluster."
    assert update(cluster, ("f", 0, SAFE)) == UpdateFeaturesResponse(1, codes.NOT_CONTROLLER, text)


# validate-only-changes-nothing ------------------------------------------------------------------


@pytest.mark.parametrize(("rules", "after"), [("refold", TWO), ("kafka", LEFT)])
@pytest.mark.deviates("validate-only-changes-nothing")
def test_validate_only_changes_nothing_by_refolds_rule(rules: str, after: bytes) -> None:
    cluster = Cluster(1, rules=rules).start()
    cluster.put(znodes.FEATURE, TWO)
    [one] = update(cluster, ("f", 0, SAFE), validate_only=True).features
    assert one.error == codes.NONE
    assert cluster.data(znodes.FEATURE) == after


class Deviations(FoldObserver):
    """The names of the deviations that were observed."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def deviates(self, deviation: Deviation, subject: str) -> None:
        self.found.append(deviation.name)


def test_refused_update_is_no_deviation() -> None:
    """The update would change nothing without validate_only either."""
    cluster = Cluster(1).start()
    observer = cluster.fold.controller.observer = Deviations()
    cluster.put(znodes.FEATURE, TWO)
    [one] = update(cluster, ("unknown", 0, SAFE), validate_only=True).features
    assert one.error != codes.NONE
    assert observer.found == []
