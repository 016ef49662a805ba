"""The futures of a moment."""

from replay.what_if.branches import future_causes
from replay.what_if.causes import BrokerRegistered, BrokerUnregistered, ExternalCause

GONE = ExternalCause(10, 5_000, BrokerUnregistered(1, 10, 5_000))
BACK = ExternalCause(20, 9_000, BrokerRegistered(1))
CERTAIN = ExternalCause(15, 7_000, BrokerRegistered(2), is_certain=True)


def kept(causes: list[ExternalCause], number: int) -> set[int]:
    return {one.seq for one in future_causes(causes, 7, number)}


def test_cause_happens_in_about_half_of_the_futures() -> None:
    times = sum(10 in kept([GONE, BACK], number) for number in range(400))
    assert 150 < times < 250


def test_future_decides_alike_about_a_cause_from_each_moment() -> None:
    for number in range(50):
        assert kept([GONE, BACK], number) & {20} == kept([BACK], number)


def test_cause_that_is_certain_happens_at_its_time() -> None:
    assert all(CERTAIN in future_causes([GONE, CERTAIN], 7, number) for number in range(20))


def test_causes_happen_at_other_times_and_the_same_seed_repeats_them() -> None:
    futures = [future_causes([GONE, BACK], 7, number) for number in range(100)]
    assert futures == [future_causes([GONE, BACK], 7, number) for number in range(100)]
    times = {one.at_ms for future in futures for one in future if one.seq == 10}
    assert len(times) > 5
    assert all(1_000 <= at_ms <= 9_000 for at_ms in times)


def test_registration_of_a_broker_ends_as_long_after_its_shutdown_as_in_the_log() -> None:
    shutdown = ExternalCause(10, 5_000, BrokerUnregistered(1, 10, 6_500, is_controlled=True))
    futures = [future_causes([shutdown], 7, number) for number in range(100)]
    durations = {
        one.what.gone_ms - one.at_ms
        for future in futures
        for one in future
        if isinstance(one.what, BrokerUnregistered)
    }
    assert durations == {1_500}
