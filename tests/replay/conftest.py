"""The recordings in tests/recordings, imported."""

from collections.abc import Callable
from pathlib import Path

import pytest

from replay.stock_clusters.imports.importing import Selection, import_source


@pytest.fixture(scope="session")
def log_of(
    folder_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """Returns the imported log of a recording, which tests must not change."""
    logs = tmp_path_factory.mktemp("imported")

    def make(name: str) -> Path:
        if not (logs / name).exists():
            import_source(folder_of(name), logs / name, Selection())
        return logs / name

    return make
