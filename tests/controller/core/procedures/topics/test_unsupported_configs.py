"""Configurations of new topics that a live broker does not know."""

import pytest

from controller.core import error_codes as codes
from controller.core.events import VersionsOffered
from controller.core.releases import Release
from tests.controller.core.cluster import Cluster
from tests.controller.core.offered_versions import OFFERED
from tests.controller.core.procedures.topics.topic_requests import create, new_topic

LEVEL = {"compression.gzip.level": "5"}
FORMAT = {"message.format.version": "3.5"}


def offers(cluster: Cluster, broker: int, release: Release, epoch: int | None = None) -> None:
    """A broker reports its API versions on its channel."""
    epoch = cluster.broker_epoch(broker) if epoch is None else epoch
    highest = list(OFFERED[release].items())
    cluster.happen(VersionsOffered(broker, epoch, highest), f"broker:{broker}:{epoch}")


def asked_for(cluster: Cluster, configs: dict[str, str | None]) -> str | None:
    """Request a topic with these configurations. Returns the error message."""
    [one] = create(cluster, new_topic("t", 1, 1, configs=configs), validate_only=True).topics
    assert one.error == (codes.INVALID_CONFIG if one.message else codes.NONE)
    return one.message


@pytest.mark.parametrize("protocol", ["3.9", "2.6"])
def test_configuration_unknown_to_the_oldest_live_broker_is_rejected(protocol: str) -> None:
    """The oldest broker may lead a partition, become a replica, or just read all configurations at
    its start."""
    cluster = Cluster(1, 2, inter_broker_protocol_version=protocol).start()
    offers(cluster, 1, (3, 9))
    offers(cluster, 2, (2, 8))
    assert asked_for(cluster, LEVEL) == "Unknown topic config name: compression.gzip.level"
    assert "Version 3.5 is not a valid version" in str(asked_for(cluster, FORMAT))
    cluster.stop_broker(2)
    assert asked_for(cluster, LEVEL | FORMAT) is None


def test_broker_that_returns_with_another_release_is_known_by_the_new_one() -> None:
    cluster = Cluster(1, inter_broker_protocol_version="2.6").start()
    offers(cluster, 1, (2, 8))
    before = cluster.broker_epoch(1)
    cluster.bounce(1)
    cluster.run()
    offers(cluster, 1, (3, 9))
    offers(cluster, 1, (2, 8), epoch=before)
    assert asked_for(cluster, LEVEL) is None, "the late versions belong to its earlier run"


def test_protocol_version_is_used_for_a_broker_that_has_reported_no_versions() -> None:
    cluster = Cluster(1, 2, inter_broker_protocol_version="3.5").start()
    offers(cluster, 1, (3, 9))
    assert asked_for(cluster, FORMAT) is None
    assert asked_for(cluster, LEVEL) == (
        "Unknown topic config name: compression.gzip.level "
        "(brokers whose release is not known yet: 2; ask again)"
    )
    offers(cluster, 2, (3, 9))
    assert asked_for(cluster, LEVEL) is None


def test_configurations_are_described_as_by_the_oldest_live_broker() -> None:
    """Also if a topic did not get its leader in time."""
    cluster = Cluster(1, 2).start()
    offers(cluster, 1, (3, 9))
    offers(cluster, 2, (2, 8))
    assert create(cluster, new_topic("t")).release == (2, 8)
    late = create(cluster, new_topic("late", 1, 1), timeout_ms=0)
    assert (late.topics[0].error, late.release) == (codes.REQUEST_TIMED_OUT, (2, 8))
