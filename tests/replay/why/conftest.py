"""A simulated cluster, and the recordings in tests/recordings, imported."""

import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from replay.stock_clusters.imports.importing import Selection, import_source
from tests.controller.core.cluster import Cluster
from tests.controller.core.reassignment.reassigning import cluster_of

_RECORDINGS = Path("tests/recordings").absolute()


@pytest.fixture(scope="session")
def log_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A recording's log; who asks leaves it as it is."""
    folder = tmp_path_factory.mktemp("imported")

    def make(name: str) -> Path:
        log = folder / f"{name}-log"
        if not log.exists():
            with tarfile.open(_RECORDINGS / f"{name}.tar.xz") as tar:
                tar.extractall(folder, filter="data")
            import_source(folder / name, log, Selection())
        return log

    return make


@pytest.fixture
def cluster() -> Cluster:
    """t-0 on brokers 1, 2 and 3, led by 1."""
    return cluster_of(3, 1, 2, 3)
