"""How long nothing had been observed before an event."""

import pytest

from controller.core.events import Recorded, TimerFired
from replay.why.silence import Silence

MS = 1_000_000
START = 1_700_000_000_000 * MS


def silences(*at_ms: int) -> list[int]:
    """The silences in ms before events at these times."""
    silence = Silence()
    events = (
        Recorded(number, START + one * MS, 0, 1, "timer", TimerFired("t"))
        for number, one in enumerate(at_ms, 1)
    )
    return [silence.before(one) // MS for one in events]


def test_silence_is_the_time_since_the_event_before() -> None:
    assert silences(0, 300, 900) == [0, 300, 600]


@pytest.mark.parametrize("later", [10, 999])
def test_events_within_a_second_after_a_long_silence_have_it_before(later: int) -> None:
    assert silences(0, 58_900, 58_905, 58_900 + later)[1:] == [58_900] * 3


def test_later_events_do_not() -> None:
    assert silences(0, 58_900, 59_800, 59_900)[-1] == 100
