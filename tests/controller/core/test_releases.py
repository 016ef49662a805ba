"""The release of Kafka that a broker runs.

tests/controller/brokers/test_real_brokers.py asks real brokers.
"""

import pytest

from controller.core.releases import Release, release_named, release_of
from tests.controller.core.offered_versions import OFFERED


@pytest.mark.parametrize("release", OFFERED, ids=str)
def test_release_is_derived_from_the_offered_api_versions(release: Release) -> None:
    assert release_of(OFFERED[release].items()) == release


def test_release_is_derived_from_a_version() -> None:
    assert release_named("2.8-IV1") == (2, 8)
    assert release_named("0.10.0-IV1") < (2, 4)
