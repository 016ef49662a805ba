"""The /feature znode at failover (KB 11.9.1, CI-30 to CI-35)."""

import msgspec
import pytest

from controller.core import znodes
from controller.core.operations import Create
from tests.controller.core.cluster import Cluster

ENABLED = b'{"version":1,"status":1,"features":{}}'
DISABLED = b'{"version":1,"status":0,"features":{}}'


def found(version: str, data: bytes | None) -> Cluster:
    """A cluster whose new controller finds this content of /feature."""
    cluster = Cluster(inter_broker_protocol_version=version)
    if data is not None:
        cluster.ask(Create(znodes.FEATURE, data))
    return cluster.start()


def feature(cluster: Cluster) -> tuple[int | None, object]:
    """The version and the content of the znode."""
    data = cluster.data(znodes.FEATURE)
    return cluster.version(znodes.FEATURE), msgspec.json.decode(data or b"null")


def test_CI_30_with_feature_versioning_a_missing_znode_is_created_enabled() -> None:
    cluster = found("2.7-IV0", None)
    assert feature(cluster) == (0, {"version": 1, "status": 1, "features": {}})


def test_CI_31_with_feature_versioning_a_disabled_znode_is_enabled() -> None:
    cluster = found("2.7-IV0", DISABLED)
    assert feature(cluster) == (1, {"version": 1, "status": 1, "features": {}})


def test_features_of_a_disabled_znode_are_not_enabled() -> None:
    data = (
        b'{"version":1,"status":0,"features":{"f":{"min_version_level":1,"max_version_level":3}}}'
    )
    assert feature(found("2.7-IV0", data)) == (1, {"version": 1, "status": 1, "features": {}})


def test_CI_32_with_feature_versioning_an_enabled_znode_is_kept() -> None:
    cluster = found("2.7-IV0", ENABLED)
    assert feature(cluster) == (0, {"version": 1, "status": 1, "features": {}})


def test_CI_33_without_feature_versioning_a_missing_znode_is_created_disabled() -> None:
    cluster = found("2.6-IV0", None)
    assert feature(cluster) == (0, {"version": 1, "status": 0, "features": {}})


def test_CI_34_without_feature_versioning_a_disabled_znode_is_kept() -> None:
    cluster = found("2.6-IV0", DISABLED)
    assert feature(cluster) == (0, {"version": 1, "status": 0, "features": {}})


def test_CI_35_without_feature_versioning_an_enabled_znode_is_disabled() -> None:
    cluster = found("2.6-IV0", ENABLED)
    assert feature(cluster) == (1, {"version": 1, "status": 0, "features": {}})


def test_finalized_features_are_kept_and_rewritten_for_version_2() -> None:
    data = (
        b'{"version":1,"status":1,"features":{"f":{"min_version_level":1,"max_version_level":3}}}'
    )
    levels = {"f": {"max_version_level": 3}}
    assert feature(found("3.9", data)) == (1, {"version": 2, "status": 1, "features": levels})
    levels["f"] = {"min_version_level": 1, "max_version_level": 3}
    assert feature(found("3.2", data)) == (0, {"version": 1, "status": 1, "features": levels})


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b'{"version":3,"status":1,"features":{}}',
        b'{"version":2,"status":7,"features":{}}',
        b'{"version":2,"status":1}',
        b'{"version":2,"status":1,"features":{"f":{"max_version_level":0}}}',
        b'{"version":1,"status":1,"features":{"f":{"max_version_level":1}}}',
        b"\xff\xfe",
    ],
)
def test_invalid_feature_znode_is_reported_and_kept(data: bytes) -> None:
    cluster = Cluster(1)
    cluster.ask(Create(znodes.FEATURE, data))
    seen = cluster.seen()
    cluster.start()
    assert cluster.is_active
    assert seen.notices() == [("unreadable_znode", znodes.FEATURE)]
    assert cluster.data(znodes.FEATURE) == data
    assert seen.requests(1) == ["UpdateMetadata v8; live [1]"]
