"""The incidents in tests/incidents: what this version decides on them is what was reviewed.

After a change that is meant: `refold new-incident --update`.
"""

from pathlib import Path

import pytest

from replay.incidents.keeping import ABOUT, TRANSCRIPT, incidents_in, unpacked
from replay.incidents.transcript import transcript

FOLDER = Path(__file__).parents[2] / "incidents"


@pytest.mark.parametrize("incident", incidents_in([FOLDER]), ids=lambda one: one.name)
def test_decides_as_reviewed(incident: Path) -> None:
    with unpacked(incident) as log:
        assert transcript(log) == (incident / TRANSCRIPT).read_text(encoding="utf-8")
    assert (incident / ABOUT).read_text(encoding="utf-8").startswith("title = ")
