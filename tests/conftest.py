"""Real servers for tests marked `lab`; what holds for all property tests."""

from collections.abc import Iterator
from pathlib import Path

import anyio
import hypothesis
import pytest

from tools.lab import Lab, ZooKeeperServer

# A busy machine makes a test slow, not wrong.
hypothesis.settings.register_profile(
    "refold", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("refold")


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
    """A lab of the test's own, still without servers: `await lab.start_zookeeper()` and so on."""
    lab = Lab(tmp_path / "lab")
    try:
        yield lab
    finally:
        lab.close()
