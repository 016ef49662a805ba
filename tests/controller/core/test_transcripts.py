"""Golden transcripts: what a controller observes and decides, reviewed like code.

After an intended change: `pytest tests/controller/core/test_transcripts.py --write-transcripts`.
"""

from collections.abc import Callable

import msgspec
import pytest

from tests.controller.core.transcript_text import transcript
from tests.controller.core.transcripts import FOLDER, SCENARIOS, History
from tests.golden import assert_golden


def text_of(name: str, description: str, history: History) -> str:
    """Events are numbered from 1 on. Events before the scenario do not change its text."""
    before = history[0][0].seq - 1
    renumbered = [
        (msgspec.structs.replace(recorded, seq=recorded.seq - before), issued)
        for recorded, issued in history
    ]
    title = name.replace("_", " ")
    return f"{title}: {' '.join(description.split())}\n\n{transcript(renumbered)}"


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.__name__)
def test_transcript_is_unchanged(
    scenario: Callable[[], History], request: pytest.FixtureRequest
) -> None:
    text = text_of(scenario.__name__, scenario.__doc__ or "", scenario())
    path = FOLDER / f"{scenario.__name__}.txt"
    is_written = request.config.getoption("write_transcripts", default=False)
    assert_golden(path, text, is_written=is_written)


def test_every_transcript_has_its_scenario() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == {one.__name__ for one in SCENARIOS}
