"""Runs of `refold explore` that broke an invariant, kept in tests/incidents, break none now."""

from pathlib import Path

import pytest

from replay.explore.run import run
from replay.explore.saved import read_run
from replay.logs.saved_runs import RUN_FILE

FOLDER = Path(__file__).parents[2] / "incidents"


@pytest.mark.parametrize(
    "file", sorted(FOLDER.glob(f"*/{RUN_FILE}")), ids=lambda file: file.parent.name
)
def test_kept_run_breaks_no_invariant(file: Path) -> None:
    saved = read_run(file)
    assert run(saved.scenario, saved.inputs).violation is None
