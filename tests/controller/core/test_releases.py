"""The release of Kafka that a broker runs.

tests/controller/brokers/test_real_brokers.py asks real brokers.
"""

import pytest

from controller.core.releases import Release, release_named, release_of

OFFERED: dict[Release, dict[int, int]] = {
    (2, 4): {0: 8, 1: 11, 6: 6, 9: 6, 11: 6, 24: 1},
    (2, 5): {0: 8, 1: 11, 6: 6, 9: 7, 11: 7, 24: 1},
    (2, 6): {0: 8, 1: 11, 6: 6, 9: 7, 11: 7, 24: 1, 49: 0},
    (2, 7): {0: 8, 1: 12, 6: 6, 9: 7, 11: 7, 24: 2, 49: 0, 56: 0},
    (2, 8): {0: 9, 1: 12, 6: 7, 9: 7, 11: 7, 24: 3, 49: 1, 56: 0},
    (3, 0): {0: 9, 1: 12, 6: 7, 9: 8, 11: 7, 24: 3, 49: 1, 56: 0},
    (3, 1): {0: 9, 1: 13, 6: 7, 9: 8, 11: 7, 24: 3, 49: 1, 56: 0},
    (3, 2): {0: 9, 1: 13, 6: 7, 9: 8, 11: 9, 24: 3, 49: 1, 56: 1},
    (3, 3): {0: 9, 1: 13, 6: 7, 9: 8, 11: 9, 24: 3, 49: 1, 56: 2},
    (3, 4): {0: 9, 1: 13, 6: 8, 9: 8, 11: 9, 24: 3, 49: 1, 56: 2},
    (3, 5): {0: 9, 1: 15, 6: 8, 9: 8, 11: 9, 24: 3, 49: 1, 56: 3},
    (3, 6): {0: 9, 1: 15, 6: 8, 9: 8, 11: 9, 24: 4, 49: 1, 56: 3},
    (3, 7): {0: 10, 1: 16, 6: 8, 9: 9, 11: 9, 24: 4, 49: 1, 56: 3},
    (3, 8): {0: 11, 1: 16, 6: 8, 9: 9, 11: 9, 24: 5, 49: 1, 56: 3},
    (3, 9): {0: 11, 1: 17, 6: 8, 9: 9, 11: 9, 24: 5, 49: 1, 56: 3},
}
"""The highest versions of some APIs, from the *Request.json of each release's last patch."""


@pytest.mark.parametrize("release", OFFERED, ids=str)
def test_release_is_derived_from_the_offered_api_versions(release: Release) -> None:
    assert release_of(OFFERED[release].items()) == release


def test_release_is_derived_from_a_version() -> None:
    assert release_named("2.8-IV1") == (2, 8)
    assert release_named("0.10.0-IV1") < (2, 4)
