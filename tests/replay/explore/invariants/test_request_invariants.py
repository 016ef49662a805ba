"""The invariants of requests in ZooKeeper, and of the writes of deposed controllers."""

import pytest

from controller.core.api_requests.producer_ids import AllocateProducerIdsReceived
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    ReassignmentTarget,
)
from controller.core.znodes.reassignment import write_request
from replay.explore.invariants.epochs import DeposedWriteNothing, EpochRaisedByOwner
from replay.explore.invariants.requests import AnsweredOnce, DeletionsKept, RequestsKept
from tests.replay.explore.invariants.facts import NAME, History, configured

_MARKER = "/admin/delete_topics/orders"
_LEGACY = "/admin/reassign_partitions"
_REQUEST = "/admin/reassignment_requests/request_0000000000"


def _entry(replicas: str = "3,2") -> bytes:
    entry = f'{{"topic":"orders","partition":0,"replicas":[{replicas}]}}'
    return f'{{"version":1,"partitions":[{entry}]}}'.encode()


def _requests() -> History:
    history = History(RequestsKept)
    history.state(1, 5, (1, 2, 3))
    return history


def test_second_answer_to_a_request_is_reported() -> None:
    history = History(AnsweredOnce)
    asked = AllocateProducerIdsReceived(3, 0, 1, 101)
    history.invariant.answered("refold 100", asked, asked.refusal(0))
    assert not history.reported
    history.invariant.answered("refold 100", None, asked.refusal(0))
    assert history.reported == [
        "answered-once: refold 100: answered request 3 without being asked, or again"
    ]


def test_write_of_a_deposed_controller_is_reported() -> None:
    history = History(DeposedWriteNothing)
    history.invariant.controller_writes("refold 100", 1, "/brokers/topics/orders")
    assert not history.reported
    history.known.epoch = 2
    history.invariant.controller_writes("refold 100", 1, "/brokers/topics/orders")
    assert "refold 100 with controller epoch 1 changed the znode" in history.reported[0]


def test_epoch_that_another_controller_than_the_owner_raises_is_reported() -> None:
    history = History(EpochRaisedByOwner)
    history.known.controller = 101
    history.known.epoch = 2
    history.invariant.epoch_written(1, 2, "refold 101")
    history.invariant.transaction_ended()
    assert not history.reported
    history.known.epoch = 3
    history.invariant.epoch_written(2, 3, "refold 100")
    history.invariant.transaction_ended()
    assert "refold 100 increased the epoch to 3; /controller has the id 101" in history.reported[0]


def test_marker_that_is_removed_while_its_topic_exists_is_reported() -> None:
    history = History(DeletionsKept)
    history.admin(_MARKER, b"")
    history.admin(_MARKER, None, "refold 100")
    assert "the topic still exists" in history.reported[0]


def test_marker_of_a_deleted_topic_may_be_removed() -> None:
    history = History(DeletionsKept)
    history.admin(_MARKER, b"")
    history.topic.czxid = 99  # It was deleted, and created again.
    history.admin(_MARKER, None, "refold 100")
    assert not history.reported


def test_marker_may_be_removed_where_deletions_are_disabled() -> None:
    history = History(DeletionsKept)
    history.known.deletes_topics = lambda process: False
    history.admin(_MARKER, b"")
    history.admin(_MARKER, None, "refold 100")
    assert not history.reported


def test_entry_that_is_removed_before_its_reassignment_begins_is_reported() -> None:
    history = _requests()
    history.admin(_LEGACY, _entry())
    history.admin(_LEGACY, None, "refold 100")
    assert "removed its entry [3, 2] from /admin/reassign_partitions" in history.reported[0]


def test_entry_that_was_written_twice_is_not_replaced_by_itself() -> None:
    history = _requests()
    for times in (1, 2):
        history.known.requests_of(NAME).submitted = times
        history.admin(_LEGACY, _entry())
    history.admin(_LEGACY, None, "refold 100")
    history.invariant.transaction_ended()
    assert history.reported


def test_entry_may_be_removed_for_a_request_by_the_api() -> None:
    history = _requests()
    target = ReassignmentTarget(*NAME, (3, 2))
    asked = AlterPartitionReassignmentsReceived(1, 0, [target])
    history.known.open_requests["refold 100", 1] = asked
    history.admin(_LEGACY, _entry())
    history.admin(_LEGACY, None, "refold 100")
    history.invariant.transaction_ended()
    assert not history.reported


def test_entries_that_a_controller_with_kafka_rules_overwrites_are_not_checked() -> None:
    history = _requests()
    history.known.is_kafka = lambda process: process == "stock 1"
    history.admin(_LEGACY, _entry())
    history.admin(_LEGACY, None, "stock 1")
    assert not history.reported


def test_entry_of_a_begun_reassignment_may_be_removed() -> None:
    history = _requests()
    history.admin(_LEGACY, _entry())
    history.assign((3, 2, 1), (), (1,))
    history.admin(_LEGACY, None, "refold 100")
    assert not history.reported


def test_entry_may_move_to_another_znode() -> None:
    history = _requests()
    history.admin(_LEGACY, _entry())
    history.admin("/admin/reassign_partitions_extra", _entry())
    history.admin(_LEGACY, None, "refold 100")
    assert not history.reported


def test_withdrawn_request_may_be_removed() -> None:
    history = _requests()
    history.admin(_LEGACY, _entry())
    history.admin("/admin/reassign_partitions_extra", _entry(), "refold 100")
    history.admin(_LEGACY, None)
    history.admin("/admin/reassign_partitions_extra", None, "refold 100")
    assert not history.reported


def test_withdrawn_entry_that_was_impossible_at_first_ends_the_request_made_of_it() -> None:
    history = _requests()
    epoch = history.known.brokers.pop(3)
    history.admin(_LEGACY, _entry())
    history.known.brokers[3] = epoch
    history.admin(_REQUEST, write_request({NAME: (3, 2)}, legacy=True), "refold 100")
    history.admin(_LEGACY, None)
    history.admin(_REQUEST, None, "refold 100")
    assert not history.reported


@pytest.mark.parametrize(
    "entry", [_entry(""), _entry("1,2,3"), _entry("4,2")], ids=["empty", "no-change", "dead"]
)
def test_impossible_entry_may_be_removed(entry: bytes) -> None:
    history = _requests()
    history.admin(_LEGACY, entry)
    history.admin(_LEGACY, None, "refold 100")
    assert not history.reported


def test_entry_that_was_impossible_when_it_was_written_may_be_removed_later() -> None:
    """The controller has rejected it, and first writes the znode without another entry."""
    history = _requests()
    epoch = history.known.brokers.pop(3)
    history.admin(_LEGACY, _entry())
    history.known.brokers[3] = epoch
    history.admin(_LEGACY, _entry() + b" ", "refold 100")
    history.admin(_LEGACY, None, "refold 100")
    assert not history.reported


def test_entry_may_be_removed_after_its_broker_has_restarted() -> None:
    history = _requests()
    history.admin(_LEGACY, _entry())
    history.known.brokers[3] = 110
    history.admin(_LEGACY, None, "refold 100")
    assert not history.reported


def test_request_that_is_removed_before_its_reassignment_begins_is_reported() -> None:
    history = _requests()
    history.admin(_REQUEST, write_request({NAME: (3, 2)}))
    history.admin(_REQUEST, None, "refold 100")
    assert "removed its entry [3, 2] from /admin/reassignment_requests" in history.reported[0]


@pytest.mark.parametrize(("topic", "least"), [("orders", "4"), (None, "4"), ("orders", "3")])
def test_request_for_fewer_replicas_than_min_insync_replicas_may_be_rejected(
    topic: str | None, least: str
) -> None:
    history = _requests()
    configured(history.known, topic, "min.insync.replicas", least)
    history.admin(_REQUEST, write_request({NAME: (3, 2)}))
    history.admin(_REQUEST, None, "refold 100")
    assert bool(history.reported) is (least == "3")
    history.admin(_LEGACY, _entry())
    history.admin(_LEGACY, None, "refold 100")
    assert "removed its entry [3, 2] from /admin/reassign_partitions" in history.reported[-1]


def test_request_that_is_made_of_a_withdrawn_entry_may_be_removed() -> None:
    """The controller had read the entry before the administrator withdrew it."""
    history = _requests()
    history.admin(_LEGACY, _entry())
    history.admin(_LEGACY, None)
    history.admin(_REQUEST, write_request({NAME: (3, 2)}, legacy=True), "refold 100")
    history.admin(_REQUEST, None, "refold 100")
    assert not history.reported


def test_legacy_request_of_a_client_without_an_entry_may_be_removed() -> None:
    history = _requests()
    history.admin(_REQUEST, write_request({NAME: (3, 2)}, legacy=True))
    history.admin(_REQUEST, None, "refold 100")
    assert not history.reported
