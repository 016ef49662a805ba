"""Golden transcripts of the 0.8 design: what one broker observes and decides, reviewed like code.

After an intended change:
`pytest tests/controller/kafka_0_8/test_broker_transcripts.py --write-broker-transcripts`.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from controller.core.commands import StartTimer
from controller.core.events import TimerFired
from controller.kafka_0_8.commands import RespondFetch, SendFetch
from controller.kafka_0_8.events import CONSUMER, FetchReceived, FetchResponded
from replay.world.kafka_0_8.broker_process import Step
from replay.world.kafka_0_8.scenarios import SCENARIOS, ScenarioEnd
from tests.controller.core.transcript_text import transcript
from tests.golden import assert_golden

FOLDER = Path(__file__).parents[2] / "transcripts/kafka_0_8"


def is_idle_fetch(step: Step) -> bool:
    """Whether a step is part of a replica's fetch that finds no new records and changes nothing."""
    event, issued = step[0].event, [one.command for one in step[1]]
    match event:
        case TimerFired(timer=timer):
            return timer.startswith("fetch:") and all(isinstance(one, SendFetch) for one in issued)
        case FetchResponded(error=0, count=0):
            return all(isinstance(one, StartTimer) for one in issued)
        case FetchReceived(replica=replica):
            return replica != CONSUMER and all(
                isinstance(one, RespondFetch) and one.start == one.end for one in issued
            )
        case _:
            return False


def text_of(end: ScenarioEnd, description: str) -> str:
    """The transcript of the last run of the broker, without the fetches that find nothing."""
    runs = end.cluster.brokers[end.broker].runs
    head = f"{' '.join(description.split())}\n\nbroker {end.broker}, run {len(runs)}\n\n"
    steps = [one for one in runs[-1] if not is_idle_fetch(one)]
    return head + transcript(steps).replace("    -- no role --\n", "")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.__name__)
def test_transcript_is_unchanged(
    scenario: Callable[[], ScenarioEnd], request: pytest.FixtureRequest
) -> None:
    title = scenario.__name__.replace("_", " ")
    text = text_of(scenario(), f"{title}: {scenario.__doc__ or ''}")
    path = FOLDER / f"{scenario.__name__}.txt"
    is_written = request.config.getoption("write_broker_transcripts", default=False)
    assert_golden(path, text, is_written=is_written)


def test_every_transcript_has_its_scenario() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == {one.__name__ for one in SCENARIOS}
