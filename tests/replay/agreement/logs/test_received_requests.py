"""The order of requests whose log has the times of receipt and answer."""

import pytest

from replay.agreement.logs.received_requests import RequestOrder

FIRST = RequestOrder(answered_ms=100, received_ms=50)


@pytest.mark.parametrize(
    ("answered_ms", "received_ms"),
    [
        pytest.param(110, 60, id="both"),
        pytest.param(90, 80, id="received long after, answered just before"),
        pytest.param(130, 40, id="received just before, answered long after"),
        pytest.param(100, 51, id="answered in the same ms"),
        pytest.param(101, 49, id="same distance: by the answers"),
    ],
)
def test_requests_are_ordered_by_the_times_that_differ_most(
    answered_ms: int, received_ms: int
) -> None:
    second = RequestOrder(answered_ms, received_ms)
    assert second > FIRST
    assert not second < FIRST
    assert min([second, FIRST]) == FIRST
