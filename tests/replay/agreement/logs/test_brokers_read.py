"""The brokers that a controller has read, inferred from the UpdateMetadata requests in
state-change.log: to which brokers, and for how many partitions."""

from controller.core import znodes
from replay.agreement.logs.logged_reads import BrokersRead
from replay.stock_clusters.imported_log.events import StateChangeLogged

UPDATE_METADATA = (
    "[Controller id=4 epoch=2] Sending UpdateMetadata request to brokers HashSet() for "
)


def brokers_read(*lines: tuple[list[int], int], epoch: int = 2) -> BrokersRead:
    """A log of requests to brokers, for a number of partitions each, at records 10, 20, ..."""
    found = BrokersRead()
    for place, (brokers, partitions) in enumerate(lines, 1):
        text = f"{UPDATE_METADATA}{partitions} partitions"
        found.note(10 * place, StateChangeLogged(4, epoch, "update_metadata", brokers, text))
        found.note(10 * place + 1, StateChangeLogged(4, epoch, "response", [1], "Received"))
    return found


def test_request_to_old_brokers_followed_by_one_to_a_new_broker_lists_all() -> None:
    found = brokers_read(([1, 2], 0), ([3], 5))
    assert found.listed(4, 2, 10) == (znodes.BROKER_IDS, ("1", "2", "3"))
    assert found.listed(4, 2, 20) is None
    assert found.listed(3, 2, 10) is None


def test_each_of_two_changes_has_its_list() -> None:
    found = brokers_read(([1], 0), ([3], 0), ([1, 3], 0), ([2], 0))
    assert found.listed(4, 2, 10) == (znodes.BROKER_IDS, ("1", "3"))
    assert found.listed(4, 2, 20) is None
    assert found.listed(4, 2, 30) == (znodes.BROKER_IDS, ("1", "2", "3"))


def test_requests_that_show_no_new_broker_list_nothing() -> None:
    assert brokers_read(([1, 2], 0), ([1, 2], 5)).listed(4, 2, 10) is None
    assert brokers_read(([1, 2], 3), ([3], 5)).listed(4, 2, 10) is None


def test_request_without_brokers_lists_nothing() -> None:
    """The controller sends such a request when partitions are created or deleted."""
    assert brokers_read(([], 0), ([1, 2], 1)).listed(4, 2, 10) is None
    assert brokers_read(([1, 2], 0), ([], 0)).listed(4, 2, 10) is None
