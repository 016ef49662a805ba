"""Invariants of records that were acknowledged or read."""

import pytest

from replay.explore.invariants.records import AcknowledgedRecordsKept, ReadRecordsStable
from replay.world.observer import AcknowledgedRecord
from tests.replay.explore.invariants.facts import (
    NAME,
    History,
    replica,
)


def _log(history: History, logs: dict[int, list[int]]) -> None:
    def record_at(broker: int, name: object, offset: int) -> int | None:
        log = logs[broker]
        return log[offset] if offset < len(log) else None

    history.invariant.record_at = record_at


def _acknowledge(history: History) -> None:
    history.state(1, 1, (1, 2))
    history.invariant.acknowledged(AcknowledgedRecord(NAME, 0, 70, (1, 2), 1))


def test_leader_without_acknowledged_record_is_reported() -> None:
    history = History(AcknowledgedRecordsKept)
    _log(history, {1: [70], 2: [70], 3: []})
    _acknowledge(history)
    history.invariant.leads(replica(2), 2)
    assert not history.reported
    history.invariant.leads(replica(3), 3)
    assert "record 70 at offset 0 was acknowledged by the ISR [1, 2]" in history.reported[0]


@pytest.mark.parametrize(("log", "is_reported"), [([70], False), ([71], True), ([], True)])
def test_record_that_is_acknowledged_after_another_leader_began_is_compared(
    log: list[int], is_reported: bool
) -> None:
    history = History(AcknowledgedRecordsKept)
    _log(history, {1: [70], 2: log})
    history.state(2, 2, (1, 2))
    history.known.losses.leadership_begun(NAME, 2, 2)
    history.invariant.leads(replica(2), 2)
    history.invariant.acknowledged(AcknowledgedRecord(NAME, 0, 70, (1, 2), 1))
    assert bool(history.reported) is is_reported


@pytest.mark.parametrize(("isr", "is_reported"), [((2,), False), ((1, 2), True)])
def test_record_that_is_acknowledged_after_the_next_leader_lost_it_is_compared_when_it_leads_again(
    isr: tuple[int, ...], *, is_reported: bool
) -> None:
    """The next leader leads no longer when the earlier one acknowledges. If it was alone in the
    ISR, its loss is excused."""
    history = History(AcknowledgedRecordsKept)
    logs = {1: [70], 2: [70]}
    _log(history, logs)
    history.state(1, 1, (1, 2))
    history.state(2, 2, isr)
    history.known.losses.leadership_begun(NAME, 2, 2)
    history.invariant.leads(replica(2), 2)
    logs[2] = []
    history.known.losses.lost(2, NAME, 0, [70])
    history.invariant.lost(replica(2), 0)
    history.invariant.acknowledged(AcknowledgedRecord(NAME, 0, 70, (1, 2), 1))
    assert not history.reported
    history.known.losses.leadership_begun(NAME, 2, 3)
    history.invariant.leads(replica(2), 3)
    assert bool(history.reported) is is_reported


def test_two_acknowledged_records_at_one_offset_are_reported() -> None:
    history = History(AcknowledgedRecordsKept)
    _log(history, {1: [70], 2: [71]})
    _acknowledge(history)
    history.invariant.acknowledged(AcknowledgedRecord(NAME, 0, 70, (1, 2), 1))
    assert not history.reported
    history.invariant.acknowledged(AcknowledgedRecord(NAME, 0, 71, (2,), 1))
    assert "now another record is acknowledged" in history.reported[0]


@pytest.mark.parametrize(("isr", "is_reported"), [((1, 2), True), ((1,), False)])
def test_earlier_leader_that_acknowledges_where_a_newer_one_has_loses_its_record(
    isr: tuple[int, ...], *, is_reported: bool
) -> None:
    """The loss is excused only if the newer leader, broker 2, was elected uncleanly. The records
    that the newer leader acknowledged are not lost."""
    history = History(AcknowledgedRecordsKept)
    _log(history, {1: [70], 2: [71]})
    history.state(1, 1, isr)
    history.state(2, 4, (2,))
    history.known.losses.leadership_begun(NAME, 2, 4)
    history.invariant.acknowledged(AcknowledgedRecord(NAME, 0, 71, (2,), 4))
    history.invariant.acknowledged(AcknowledgedRecord(NAME, 0, 70, isr, 1))
    assert bool(history.reported) is is_reported
    history.reported.clear()
    history.invariant.leads(replica(2), 5)
    assert not history.reported


def test_records_of_a_topic_that_is_being_deleted_may_be_lost() -> None:
    history = History(AcknowledgedRecordsKept)
    _log(history, {1: [70], 3: []})
    _acknowledge(history)
    history.known.admin["/admin/delete_topics/orders"] = b""
    history.invariant.leads(replica(3), 3)
    assert not history.reported


def test_leader_with_another_record_is_reported_after_truncation() -> None:
    logs = {1: [70], 2: [70]}
    history = History(AcknowledgedRecordsKept)
    _log(history, logs)
    _acknowledge(history)
    history.invariant.leads(replica(2), 2)
    logs[2] = [71]
    history.invariant.truncated(replica(2), 0)
    history.invariant.leads(replica(2), 4)
    assert "has record 71 there" in history.reported[0]


def test_record_lost_by_unclean_election_is_not_reported() -> None:
    history = History(AcknowledgedRecordsKept)
    _log(history, {3: []})
    _acknowledge(history)
    history.state(3, 2, (3,))
    history.invariant.leads(replica(3), 2)
    assert not history.reported


@pytest.mark.parametrize(("failed", "is_excused"), [((1,), True), ((), False)])
def test_lost_record_is_excused_only_if_the_whole_isr_failed(
    failed: tuple[int, ...], is_excused: bool
) -> None:
    history = History(AcknowledgedRecordsKept)
    _log(history, {2: []})
    _acknowledge(history)
    for broker in failed:
        history.known.losses.failed(broker)
    history.known.losses.lost(2, NAME, 0, [70])
    history.invariant.lost(replica(2), 0)
    history.known.losses.leadership_begun(NAME, 2, 9)
    history.invariant.leads(replica(2), 2)
    assert bool(history.reported) is not is_excused


def test_leader_in_an_older_leader_epoch_needs_no_record() -> None:
    """A late request, or one of a deposed controller: this leader is replaced already."""
    history = History(AcknowledgedRecordsKept)
    _log(history, {3: []})
    _acknowledge(history)
    history.invariant.leads(replica(3), 0)
    assert not history.reported
    history.invariant.leads(replica(3), 1)
    assert history.reported


def test_failure_without_a_loss_excuses_nothing() -> None:
    history = History(AcknowledgedRecordsKept)
    _log(history, {2: []})
    _acknowledge(history)
    history.known.losses.failed(1)
    history.known.losses.failed(2)
    history.known.losses.leadership_begun(NAME, 2, 9)
    history.invariant.leads(replica(2), 2)
    assert history.reported


def test_second_record_at_a_read_offset_is_reported() -> None:
    history = History(ReadRecordsStable)
    history.state(1, 1, (1, 2))
    history.invariant.consumed("consumer 0", NAME, 5, 70, 1)
    history.invariant.consumed("consumer 1", NAME, 5, 70, 1)
    assert not history.reported
    history.invariant.consumed("consumer 0", NAME, 5, 71, 1)
    assert "read record 71 at offset 5" in history.reported[0]
