"""Requests of controllers to brokers, whether brokers accept or reject it."""

import pytest
from msgspec.structs import replace

from controller.core.commands import StopReplicaPartition, StopReplicaRequest
from controller.core.values import LEADER_DURING_DELETE
from replay.explore.invariants.epochs import (
    RequestsCarryEpochs,
)
from replay.explore.invariants.metadata import SentStatesStored
from tests.replay.explore.invariants.facts import (
    History,
    leader_and_isr,
    stop_replica,
    update_metadata,
)


def _send(history: History, leader: int, epoch: int, version: int, *, term: int = 1) -> None:
    request = leader_and_isr(2, leader, epoch, version=version).request
    history.invariant.sent("refold 100", term, request)


def test_state_that_was_never_stored_is_reported() -> None:
    history = History(SentStatesStored)
    history.state(1, 4, (1, 2), process="broker 1")
    _send(history, 1, 4, 0)
    _send(history, 2, 4, 0, term=9)
    assert not history.reported, "a deposed controller is not judged"
    _send(history, 1, 4, 1)
    assert "sends broker 2 a state that was never stored" in history.reported[0]


def test_metadata_that_was_never_stored_is_reported_also_if_the_broker_rejects_it() -> None:
    history = History(SentStatesStored)
    history.state(1, 4, (1, 2), process="broker 1")
    for leader, epoch in ((1, 4), (LEADER_DURING_DELETE, 0)):
        request = update_metadata(2, leader, epoch).request
        history.invariant.sent("refold 100", 1, request)
    assert not history.reported
    history.invariant.sent("refold 100", 1, update_metadata(2, 2, 5).request)
    assert "sends broker 2 a state that was never stored" in history.reported[0]


def test_state_older_than_one_that_the_controller_has_sent_is_reported() -> None:
    history = History(SentStatesStored)
    history.state(1, 4, (1, 2), process="broker 1")
    history.state(1, 5, (1, 2), process="broker 1")
    _send(history, 1, 5, 1)
    history.known.epoch = 2
    _send(history, 1, 4, 0, term=2)
    assert not history.reported, "a later term may begin with an older state"
    _send(history, 1, 5, 1, term=2)
    _send(history, 1, 4, 0, term=2)
    assert "sends broker 2 a state that is older than one that it has sent" in history.reported[0]


@pytest.mark.parametrize(("leader_epoch", "is_reported"), [(-2, False), (4, False), (5, True)])
def test_stop_with_an_unknown_leader_epoch_is_reported(
    leader_epoch: int, is_reported: bool
) -> None:
    history = History(SentStatesStored)
    history.state(1, 4, (1, 2))
    partition = StopReplicaPartition("orders", 0, leader_epoch, False)
    request = StopReplicaRequest(2, 102, 4, 100, 1, (partition,))
    history.invariant.sent("refold 100", 1, request)
    assert bool(history.reported) is is_reported


@pytest.mark.parametrize(
    ("epoch", "broker_epoch", "reported"),
    [
        (4, 101, ""),
        (3, 101, "controller epoch 3, which it has not stored"),
        (4, 100, "broker epoch 100, which the broker has not had"),
        (4, 90, "broker epoch 90 after 101"),
    ],
)
def test_request_with_a_wrong_epoch_is_reported(
    epoch: int, broker_epoch: int, reported: str
) -> None:
    history = History(RequestsCarryEpochs)
    history.known.broker_epochs[1] = {90: None, 101: None}
    history.invariant.epoch_written(2, 3, "refold 101")
    history.invariant.epoch_written(3, 4, "refold 100")
    for sent in (101, broker_epoch):
        request = replace(stop_replica(1, delete=False), broker_epoch=sent)
        history.invariant.sent("refold 100", epoch, request)
    assert reported in "".join(history.reported)
    assert bool(reported) is bool(history.reported)


@pytest.mark.parametrize(("process", "is_reported"), [("broker 1", False), ("refold 100", True)])
def test_state_older_than_the_one_that_the_controller_has_stored_is_reported(
    process: str, is_reported: bool
) -> None:
    history = History(SentStatesStored)
    history.state(1, 4, (1, 2))
    history.state(1, 4, (1, 2, 3), process=process)
    _send(history, 1, 4, 0)
    assert bool(history.reported) is is_reported


def test_state_of_an_earlier_term_is_not_older() -> None:
    history = History(SentStatesStored)
    history.state(1, 4, (1, 2))
    history.state(1, 4, (1, 2, 3))
    history.invariant.noticed("refold 100", "elected", "/controller")
    _send(history, 1, 4, 0)
    assert not history.reported
