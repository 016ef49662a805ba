"""This version decides on the incidents in tests/incidents as reviewed.

After an intended change, run `refold new-incident --update`.
"""

from pathlib import Path

import pytest

from replay.incidents.incident_folder import DESCRIPTION, TRANSCRIPT, incident_log, incidents_in
from replay.incidents.transcript import transcript

FOLDER = Path(__file__).parents[2] / "incidents"


@pytest.mark.parametrize("incident", incidents_in([FOLDER]), ids=lambda one: one.name)
def test_decisions_are_as_reviewed(incident: Path) -> None:
    with incident_log(incident) as log:
        assert transcript(log) == (incident / TRANSCRIPT).read_text(encoding="utf-8")
    assert (incident / DESCRIPTION).read_text(encoding="utf-8").startswith("title = ")
