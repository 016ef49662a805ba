"""Why the procedures of a stock controller began."""

import pytest

from replay.listing.begun_procedures import WatchedChanges
from replay.stock_clusters.zookeeper_log.transactions import (
    OPEN_ACL,
    CloseSession,
    Content,
    Create,
    Transaction,
)

_BROKER_2, _BROKER_3 = "/kafka/brokers/ids/2", "/kafka/brokers/ids/3"


def _changes(*contents: Content) -> WatchedChanges:
    """The first transaction is that of record 1."""
    found = WatchedChanges("/kafka")
    for seq, content in enumerate(contents, 1):
        found.note(seq, Transaction(seq, 7, 0, 0, 0, content))
    return found


def test_brokers_that_are_lost_together_both_cause_the_broker_change() -> None:
    found = _changes(
        CloseSession(("/kafka/brokers/ids/1",)),
        CloseSession((_BROKER_2,)),
        Create("/kafka/brokers/topics/t", None, OPEN_ACL, False, 0),
        CloseSession((_BROKER_3,)),
    )
    assert found.causes("BrokerChange", 2) == (2, 4)
    assert found.causes("TopicChange", 3) == (3,)


def test_election_is_caused_by_the_last_deletion_of_the_controller() -> None:
    found = _changes(CloseSession(("/kafka/controller",)), CloseSession((_BROKER_2,)))
    assert found.causes("Startup", 3) == found.causes("Reelect", 3) == (1,)
    assert _changes().causes("Startup", 1) == ()


@pytest.mark.parametrize("paths", [None, ("/kafka/brokers/ids/2",)])
def test_closed_session_is_a_cause_also_if_the_log_does_not_list_its_znodes(
    paths: tuple[str, ...] | None,
) -> None:
    assert _changes(CloseSession(paths)).causes("BrokerChange", 1) == (1,)


def test_record_that_changed_nothing_of_the_procedure_is_no_cause() -> None:
    found = _changes(CloseSession((_BROKER_2,)), CloseSession(("/other/brokers/ids/3",)))
    assert found.causes("TopicDeletion", 1) == ()
    assert found.causes("BrokerChange", 2) == ()
