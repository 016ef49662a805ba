"""When trouble is told and how fast a request is tried again."""

from controller.brokers.errors import RequestRefused, Unreachable, WrongVersion
from controller.brokers.failures import FailureTracker


def test_a_broker_that_is_away_is_tried_ten_times_a_second_and_told_after_one() -> None:
    failures = FailureTracker()
    told = [failures.failed(Unreachable("refused"), at / 10, at / 10) for at in range(25)]
    assert told.index(True) == 10
    assert told.count(True) == 1
    assert failures.pause_s() == 0.1


def test_a_try_that_takes_long_is_told_at_its_end() -> None:
    assert FailureTracker().failed(Unreachable("no answer"), began_s=5, now_s=35)


def test_wrong_versions_are_told_at_once_and_tried_every_second() -> None:
    failures = FailureTracker()
    assert failures.failed(WrongVersion("8 to 9"), 0, 0)
    assert not failures.failed(WrongVersion("8 to 9"), 1, 1)
    assert failures.failed(WrongVersion("0 to 2"), 2, 2)
    assert failures.pause_s() == 1


def test_a_closed_connection_is_told_when_it_happens_again() -> None:
    failures = FailureTracker()
    assert not failures.failed(RequestRefused("closed"), 0, 0)
    assert failures.pause_s() == 0.1
    assert failures.failed(RequestRefused("closed"), 0.1, 0.1)
    assert failures.pause_s() == 1


def test_reasons_that_take_turns_are_told_at_most_once_a_second() -> None:
    failures = FailureTracker()
    texts = ["refused", "reset"]
    told = [failures.failed(Unreachable(texts[at % 2]), at / 10, at / 10) for at in range(50)]
    assert told.count(True) <= 4


def test_after_success_everything_begins_anew() -> None:
    failures = FailureTracker()
    assert not failures.succeeded()
    failures.failed(WrongVersion("8 to 9"), 0, 0)
    assert failures.succeeded()
    assert not failures.succeeded()
    assert failures.failed(WrongVersion("8 to 9"), 3, 3)
