"""The log that most tests of commands read: a simulated cluster in which a leader dies."""

from pathlib import Path

import pytest

from tests.controller.core.cluster import Cluster
from tests.controller.core.procedures.reassignment.reassigning import leader_is_lost
from tests.replay.recorded_log import write_log


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return leader_is_lost()


@pytest.fixture(scope="module")
def log(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(tmp_path_factory.mktemp("logs") / "log", cluster)
