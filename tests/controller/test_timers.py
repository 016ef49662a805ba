"""The timers of a fold."""

import pytest

from controller.timers import Timers
from replay.world.scheduler import MS, ProcessClock, Scheduler


class Started:
    """Timers in simulated time, and the names of those that have fired with the times."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.fired: list[tuple[str, int]] = []
        self.timers = Timers(
            ProcessClock(self.scheduler).after_ms,
            lambda timer: self.fired.append((timer, self.scheduler.now_us // MS)),
        )

    def at_ms(self, time_ms: int) -> None:
        self.scheduler.run_until(time_ms * MS)


@pytest.fixture
def started() -> Started:
    return Started()


def test_timer_fires_once_after_its_delay(started: Started) -> None:
    started.timers.start("a", 5)
    started.timers.start("b", 3)
    started.at_ms(100)
    assert started.fired == [("b", 3), ("a", 5)]


def test_timer_that_is_started_again_fires_after_the_new_delay(started: Started) -> None:
    started.timers.start("a", 5)
    started.at_ms(4)
    started.timers.start("a", 5)
    started.at_ms(100)
    assert started.fired == [("a", 9)]


def test_cancelled_timer_does_not_fire(started: Started) -> None:
    for name in ("a", "b", "c"):
        started.timers.start(name, 5)
    started.timers.cancel("a")
    started.timers.cancel("unknown")
    started.at_ms(100)
    assert [name for name, _ in started.fired] == ["b", "c"]


def test_no_timer_fires_after_all_are_cancelled(started: Started) -> None:
    started.timers.start("a", 5)
    started.timers.start("b", 6)
    started.at_ms(5)
    started.timers.cancel_all()
    started.at_ms(100)
    assert started.fired == [("a", 5)]
