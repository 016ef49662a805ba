"""When failures are reported and how often a request is retried."""

from controller.brokers.errors import RefusedByBroker, Unreachable, WrongVersion
from controller.brokers.failures import FailureTracker


def test_unreachable_broker_is_retried_ten_times_a_second_and_reported_after_one_second() -> None:
    failures = FailureTracker()
    reported = [
        failures.record_failure(Unreachable("refused"), at / 10, at / 10) for at in range(25)
    ]
    assert reported.index(True) == 10
    assert reported.count(True) == 1
    assert failures.pause_s() == 0.1


def test_long_attempt_is_reported_at_its_end() -> None:
    assert FailureTracker().record_failure(Unreachable("no answer"), began_s=5, now_s=35)


def test_unsupported_versions_are_reported_at_once_and_retried_every_second() -> None:
    failures = FailureTracker()
    assert failures.record_failure(WrongVersion("8 to 9"), 0, 0)
    assert not failures.record_failure(WrongVersion("8 to 9"), 1, 1)
    assert failures.record_failure(WrongVersion("0 to 2"), 2, 2)
    assert failures.pause_s() == 1


def test_closed_connection_is_reported_at_its_second_occurrence() -> None:
    failures = FailureTracker()
    assert not failures.record_failure(RefusedByBroker("closed"), 0, 0)
    assert failures.pause_s() == 0.1
    assert failures.record_failure(RefusedByBroker("closed"), 0.1, 0.1)
    assert failures.pause_s() == 1


def test_alternating_reasons_are_reported_at_most_once_a_second() -> None:
    failures = FailureTracker()
    texts = ["refused", "reset"]
    reported = [
        failures.record_failure(Unreachable(texts[at % 2]), at / 10, at / 10) for at in range(50)
    ]
    assert reported.count(True) <= 4


def test_success_resets_the_reports() -> None:
    failures = FailureTracker()
    assert not failures.record_success()
    failures.record_failure(WrongVersion("8 to 9"), 0, 0)
    assert failures.record_success()
    assert not failures.record_success()
    assert failures.record_failure(WrongVersion("8 to 9"), 3, 3)
