"""The recordings with which ZooKeeper's files are tested."""

from collections.abc import Callable
from pathlib import Path

import pytest

NAMES = ("broker-crash-2", "chaos-5")


@pytest.fixture(scope="session", params=NAMES)
def incident(request: pytest.FixtureRequest, folder_of: Callable[[str], Path]) -> Path:
    """The folder of each recording, which tests must not change."""
    return folder_of(request.param)
