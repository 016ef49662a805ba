"""The recordings as folders."""

import tarfile
from pathlib import Path

import pytest

from tests.replay.stock_clusters.zookeeper_log.samples import RECORDING

NAMES = ("broker-crash-2", "chaos-5")


@pytest.fixture(scope="session", params=NAMES)
def incident(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording's folder; nothing is to be changed in it."""
    folder = tmp_path_factory.mktemp("recordings")
    with tarfile.open(RECORDING.with_name(f"{request.param}.tar.xz")) as tar:
        tar.extractall(folder, filter="data")
    return folder / request.param
