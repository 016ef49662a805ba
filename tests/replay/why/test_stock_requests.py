"""Requests of a stock controller that brokers have not answered."""

import msgspec
import pytest

from replay.cluster_view.views import UnansweredView
from replay.stock_clusters.imported_log.events import StateChangeLogged
from replay.why.stock_requests import StockRequests

RESPONSE = "Received response for request UPDATE_METADATA with correlation id 7"
COUNT = 1_500


def sent(requests: StockRequests, count: int, first: int = 1) -> None:
    for seq in range(first, first + count):
        requests.note(StateChangeLogged(1, 5, "update_metadata", [2], ""), seq, seq)


@pytest.fixture
def requests() -> StockRequests:
    found = StockRequests()
    found.elected(1)
    return found


def oldest(requests: StockRequests) -> UnansweredView:
    (found,) = requests.unanswered()
    return found


def test_requests_before_the_first_logged_response_are_not_kept_without_limit(
    requests: StockRequests,
) -> None:
    sent(requests, COUNT)
    assert requests.unanswered() == []
    requests.note(StateChangeLogged(1, 5, "response", [2], RESPONSE), COUNT + 1, COUNT + 1)
    found = oldest(requests)
    assert (found.broker, found.since, found.count) == (2, COUNT - 998, 999)


def test_all_requests_after_a_logged_response_are_kept(requests: StockRequests) -> None:
    sent(requests, 1)
    requests.note(StateChangeLogged(1, 5, "response", [2], RESPONSE), 2, 2)
    sent(requests, COUNT, first=3)
    found = oldest(requests)
    assert (found.since, found.count) == (3, COUNT)


def test_requests_can_be_stored_and_followed_from_there(requests: StockRequests) -> None:
    sent(requests, 3)
    stored = msgspec.msgpack.encode(requests)
    found = msgspec.msgpack.decode(stored, type=StockRequests)
    for one in (requests, found):
        one.note(StateChangeLogged(1, 5, "response", [2], RESPONSE), 4, 4)
    assert found.unanswered() == requests.unanswered() != []
