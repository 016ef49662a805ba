import pytest

from replay.stock_clusters.agreement.logs.received_requests import RequestOrder

FIRST = RequestOrder(answered_ms=100, received_ms=50)


@pytest.mark.parametrize(
    ("answered_ms", "received_ms"),
    [
        pytest.param(110, 60, id="both"),
        pytest.param(90, 80, id="came long after, answered just before"),
        pytest.param(130, 40, id="came just before, answered long after"),
        pytest.param(100, 51, id="answered in the same ms"),
        pytest.param(101, 49, id="as far apart: by the answers"),
    ],
)
def test_of_two_requests_the_moments_that_lie_further_apart_tell(
    answered_ms: int, received_ms: int
) -> None:
    second = RequestOrder(answered_ms, received_ms)
    assert second > FIRST
    assert not second < FIRST
    assert min([second, FIRST]) == FIRST
