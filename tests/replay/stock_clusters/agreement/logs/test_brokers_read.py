"""Which brokers a controller has read, by what state-change.log says it told of them to whom."""

from controller.core import znodes
from replay.stock_clusters.agreement.logs.logged_reads import BrokersRead
from replay.stock_clusters.imported_log.events import StateChangeLogged

TOLD = "[Controller id=4 epoch=2] Sending UpdateMetadata request to brokers HashSet() for "


def told(*lines: tuple[list[int], int], epoch: int = 2) -> BrokersRead:
    """Requests to brokers, for so many partitions, at records 10, 20 and so on."""
    found = BrokersRead()
    for place, (brokers, partitions) in enumerate(lines, 1):
        text = f"{TOLD}{partitions} partitions"
        found.take(10 * place, StateChangeLogged(4, epoch, "update_metadata", brokers, text))
        found.take(10 * place + 1, StateChangeLogged(4, epoch, "response", [1], "Received"))
    return found


def test_others_are_told_of_who_is_new_then_they_of_everything() -> None:
    found = told(([1, 2], 0), ([3], 5))
    assert found.listed(4, 2, 10) == (znodes.BROKER_IDS, ("1", "2", "3"))
    assert found.listed(4, 2, 20) is None
    assert found.listed(3, 2, 10) is None


def test_each_of_two_changes_is_told() -> None:
    found = told(([1], 0), ([3], 0), ([1, 3], 0), ([2], 0))
    assert found.listed(4, 2, 10) == (znodes.BROKER_IDS, ("1", "3"))
    assert found.listed(4, 2, 20) is None
    assert found.listed(4, 2, 30) == (znodes.BROKER_IDS, ("1", "2", "3"))


def test_what_the_same_brokers_are_told_says_nothing_of_new_ones() -> None:
    assert told(([1, 2], 0), ([1, 2], 5)).listed(4, 2, 10) is None
    assert told(([1, 2], 3), ([3], 5)).listed(4, 2, 10) is None


def test_request_to_nobody_says_nothing() -> None:
    """As when partitions are made, or deleted."""
    assert told(([], 0), ([1, 2], 1)).listed(4, 2, 10) is None
    assert told(([1, 2], 0), ([], 0)).listed(4, 2, 10) is None
