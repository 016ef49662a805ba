"""A simulated cluster, and the logs in tests/incidents."""

import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.controller.core.cluster import Cluster
from tests.controller.core.procedures.reassignment.reassigning import cluster_of

_INCIDENTS = Path("tests/incidents").absolute()


@pytest.fixture
def cluster() -> Cluster:
    """t-0 on brokers 1, 2 and 3, led by 1."""
    return cluster_of(3, 1, 2, 3)


@pytest.fixture(scope="session")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Returns the log of an incident."""
    folder = tmp_path_factory.mktemp("incidents")

    def unpack(name: str) -> Path:
        if not (folder / name).exists():
            with tarfile.open(_INCIDENTS / name / "log.tar.xz") as tar:
                tar.extractall(folder / name, filter="data")
        return folder / name / "log"

    return unpack
