"""The recordings, as folders and imported."""

import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from replay.stock_clusters.imports.importing import Selection, import_source
from tests.replay.stock_clusters.zookeeper_log.samples import RECORDING

NAMES = ("broker-crash-2", "chaos-5", "reassign-cancel-6", "topics-1")


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A recording's folder; nothing is to be changed in it."""
    folder = tmp_path_factory.mktemp("recordings")

    def unpack(name: str) -> Path:
        if not (folder / name).exists():
            with tarfile.open(RECORDING.with_name(f"{name}.tar.xz")) as tar:
                tar.extractall(folder, filter="data")
        return folder / name

    return unpack


@pytest.fixture(scope="session")
def log_of(
    folder_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """A recording's log; what is compared leaves it as it is."""
    logs = tmp_path_factory.mktemp("logs")

    def make(name: str) -> Path:
        if not (logs / name).exists():
            import_source(folder_of(name), logs / name, Selection())
        return logs / name

    return make


@pytest.fixture(params=NAMES)
def recording(request: pytest.FixtureRequest) -> str:
    """Each recording's name."""
    name: str = request.param
    return name
