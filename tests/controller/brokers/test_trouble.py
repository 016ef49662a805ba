"""When trouble is told and how fast a request is tried again."""

from controller.brokers.errors import RequestRefused, Unreachable, WrongVersion
from controller.brokers.trouble import Trouble


def test_a_broker_that_is_away_is_tried_ten_times_a_second_and_told_after_one() -> None:
    trouble = Trouble()
    told = [trouble.failed(Unreachable("refused"), at / 10, at / 10) for at in range(25)]
    assert told.index(True) == 10
    assert told.count(True) == 1
    assert trouble.pause_s() == 0.1


def test_a_try_that_takes_long_is_told_at_its_end() -> None:
    assert Trouble().failed(Unreachable("no answer"), began_s=5, now_s=35)


def test_wrong_versions_are_told_at_once_and_tried_every_second() -> None:
    trouble = Trouble()
    assert trouble.failed(WrongVersion("8 to 9"), 0, 0)
    assert not trouble.failed(WrongVersion("8 to 9"), 1, 1)
    assert trouble.failed(WrongVersion("0 to 2"), 2, 2)
    assert trouble.pause_s() == 1


def test_a_closed_connection_is_told_when_it_happens_again() -> None:
    trouble = Trouble()
    assert not trouble.failed(RequestRefused("closed"), 0, 0)
    assert trouble.pause_s() == 0.1
    assert trouble.failed(RequestRefused("closed"), 0.1, 0.1)
    assert trouble.pause_s() == 1


def test_reasons_that_take_turns_are_told_at_most_once_a_second() -> None:
    trouble = Trouble()
    texts = ["refused", "reset"]
    told = [trouble.failed(Unreachable(texts[at % 2]), at / 10, at / 10) for at in range(50)]
    assert told.count(True) <= 4


def test_after_success_everything_begins_anew() -> None:
    trouble = Trouble()
    assert not trouble.worked()
    trouble.failed(WrongVersion("8 to 9"), 0, 0)
    assert trouble.worked()
    assert not trouble.worked()
    assert trouble.failed(WrongVersion("8 to 9"), 3, 3)
