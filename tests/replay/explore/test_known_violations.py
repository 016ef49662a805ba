"""Violations that `refold explore` has found and that are not fixed (docs/explore.md).

If one of these tests fails, the violation may be fixed: keep its run in tests/incidents
(`refold new-incident`), remove the file and the line on the page.
"""

from pathlib import Path

import pytest

from replay.explore.run import run
from replay.explore.saved import read_run

FOLDER = Path(__file__).parent / "known_violations"


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.json")), ids=lambda file: file.stem)
def test_known_violation_is_still_there(file: Path) -> None:
    saved = read_run(file)
    found = run(saved.scenario, saved.inputs).violation
    assert found is not None
    assert saved.violation is not None
    assert found.invariant == saved.violation.invariant
