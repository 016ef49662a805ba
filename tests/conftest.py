"""Real servers for tests marked `lab`, and settings of all property tests."""

from collections.abc import Iterator
from pathlib import Path

import anyio
import hypothesis
import pytest
from hypothesis.internal.conjecture import providers

from tools.lab import Lab, ZooKeeperServer

# `same-draws` draws the same examples in each run; `make random-draws` chooses the other profile.
# There is no database, because examples of earlier runs would be drawn first. There are no
# deadlines, because tests are slow on a busy machine.
for profile, is_same in (("same-draws", True), ("random-draws", False)):
    hypothesis.settings.register_profile(
        profile,
        derandomize=is_same,
        database=None,
        print_blob=True,
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
hypothesis.settings.load_profile("same-draws")

# Hypothesis also draws constants that it finds in imported code. The same seed would then draw
# other examples after other tests, for example in each worker of pytest-xdist. Hypothesis has no
# setting against this.
NO_CONSTANTS = providers.Constants()
providers._get_local_constants = lambda: NO_CONSTANTS

# Hypothesis shrinks a failing example for up to 5 minutes. The report needs the result.
PROPERTY_TEST_SECONDS_MAX = 420


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give property tests time to shrink a failing example."""
    for item in items:
        is_property = hypothesis.is_hypothesis_test(getattr(item, "obj", None))
        if is_property and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(PROPERTY_TEST_SECONDS_MAX))


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A real ZooKeeper 3.9 that the tests of a module share, with an empty tree at their start."""
    lab = Lab(tmp_path_factory.mktemp("zookeeper"))
    try:
        yield anyio.run(lab.start_zookeeper)
    finally:
        lab.close()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A lab without servers: `await lab.start_zookeeper()` and so on."""
    lab = Lab(tmp_path / "lab")
    try:
        yield lab
    finally:
        lab.close()
