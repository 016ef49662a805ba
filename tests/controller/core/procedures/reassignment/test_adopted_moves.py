"""Many reassignments that a stock controller began get their records in parts (KB 14.4, 14.5.5)."""

from collections.abc import Callable

import msgspec
import pytest

from controller.core import pauses, znodes
from controller.core.commands import (
    Issued,
    WriteAtomically,
)
from controller.core.operations import SetData
from controller.core.znodes import REASSIGN_CANCEL, reassignment_path
from tests.controller.core.cluster import Cluster, Seen
from tests.controller.core.procedures.reassignment.interrupting import (
    OtherControllersTerm,
    assert_nothing_is_left,
    cancel_all,
    cancel_quietly,
    records,
    submit_quietly,
)
from tests.controller.core.procedures.reassignment.many_moves import (
    ALL,
    ANY_RECORD,
    COUNT,
    FIRST_PART,
    PART,
    SECOND_PART,
    UNDER_WAY,
    assert_recorded_once,
    begin_elsewhere,
    broker_1_dies,
    broker_1_shuts_down,
    creates_record,
    leader_asks_for_isr,
    reads,
    records_before,
    set_isrs,
    steps,
    taken_over,
    taken_over_quietly,
    with_25_partitions,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    Name,
    assert_no_failures,
    assignment,
    catch_up,
)
from tests.controller.core.unreliable import Delivery

BEGIN = "reassignment: begin"


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of 10 partitions, so that the tests are fast."""
    monkeypatch.setattr(pauses, "TOGETHER_MAX", PART)


def assert_can_complete(cluster: Cluster) -> None:
    """All moves complete when their targets have caught up."""
    for name in ALL:
        catch_up(cluster, 3, 4, name=name)
    assert {assignment(cluster, name) for name in ALL} == {"3,4"}
    assert_nothing_is_left(cluster)
    assert_no_failures(cluster)


# Parts ------------------------------------------------------------------------------------------


def test_records_of_25_moves_are_written_in_three_round_trips() -> None:
    cluster = with_25_partitions()
    seen = cluster.seen()
    taken_over(cluster)
    written = [sum(1 for one in commands if ANY_RECORD(one)) for _, commands in seen.history]
    assert [one for one in written if one] == [10, 10, 5]
    assert_recorded_once(cluster)
    assert_can_complete(cluster)


def written_topics(seen: Seen) -> list[str]:
    """The topics' znodes that the controller has written in multis, once for each write."""
    return [
        one.path
        for _, commands in seen.history
        for issued in commands
        if isinstance(issued.command, WriteAtomically)
        for one in issued.command.operations
        if isinstance(one, SetData) and one.path == znodes.topic_path("t")
    ]


def test_topic_is_not_written_with_the_records_of_its_moves() -> None:
    cluster = with_25_partitions()
    seen = cluster.seen()
    taken_over(cluster)
    assert written_topics(seen) == []
    assert_recorded_once(cluster)


def test_topic_that_another_client_changed_is_restored_with_the_records_of_its_moves() -> None:
    cluster = with_25_partitions()
    changed = {key: [1, 2] for _, key in ALL}
    cluster.once(FIRST_PART, lambda: cluster.change_topic_quietly("t", changed))
    seen = cluster.seen()
    taken_over(cluster)
    assert written_topics(seen)
    assert_recorded_once(cluster)
    assert_can_complete(cluster)


@pytest.mark.parametrize("count", [1, 5])
def test_number_of_round_trips_is_the_same_for_all_moves_of_a_part(count: int) -> None:
    def round_trips(moves: int) -> int:
        cluster = with_25_partitions()
        seen = cluster.seen()
        with OtherControllersTerm(cluster):
            begin_elsewhere(cluster, moves)
        assert len(records(cluster)) == moves
        return sum(1 for _, commands in seen.history if commands)

    assert round_trips(count) == round_trips(PART)


# long-work-interrupted --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("happen", "handled"),
    [(broker_1_dies, "u-0"), (leader_asks_for_isr, "answer"), (broker_1_shuts_down, "answer")],
)
@pytest.mark.deviates("long-work-interrupted")
def test_urgent_event_is_handled_between_two_parts(
    happen: Callable[[Cluster], None], handled: str
) -> None:
    cluster = with_25_partitions()
    cluster.once(FIRST_PART, lambda: happen(cluster))
    seen = cluster.seen()
    taken_over(cluster)
    assert records_before(seen, handled) == PART
    assert_recorded_once(cluster)


def test_urgent_event_waits_until_the_first_part_has_records() -> None:
    """Entries that were read before the first part are still valid in it."""
    cluster = with_25_partitions()
    cluster.once(reads(REASSIGN_CANCEL), lambda: leader_asks_for_isr(cluster))
    seen = cluster.seen()
    taken_over(cluster)
    assert records_before(seen, "answer") == PART
    assert_recorded_once(cluster)


def test_urgent_event_is_handled_while_a_cancellation_records_the_moves() -> None:
    cluster = with_25_partitions()
    cluster.once(FIRST_PART, lambda: cluster.unregister(1))
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        begin_elsewhere(cluster)
        cancel_quietly(cluster)
    assert records_before(seen, "u-0") == PART
    assert {assignment(cluster, name) for name in ALL} == {"1,2"}
    assert {cluster.leadership(*name).leader for name in ALL} == {2}
    assert_nothing_is_left(cluster)
    assert_no_failures(cluster)


def test_urgent_event_is_handled_when_the_end_of_a_cancellation_records_younger_moves() -> None:
    cluster = with_25_partitions()
    cancel_all(cluster)
    taken_over(cluster)
    assert records(cluster) == []
    cluster.once(FIRST_PART, lambda: cluster.unregister(1))
    seen = cluster.seen()
    cluster.remove(REASSIGN_CANCEL)
    assert records_before(seen, "u-0") == PART
    assert_recorded_once(cluster)


def test_move_that_completes_between_two_parts_does_not_begin_again() -> None:
    """Target 4 leads, is the only replica in sync, and returns when ten moves have a record."""
    cluster = with_25_partitions()
    cluster.stop_broker(4)
    cluster.once(FIRST_PART, lambda: cluster.start_broker(4))
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        begin_elsewhere(cluster, COUNT, 4)
        for name in ALL:
            state = msgspec.structs.replace(cluster.leadership(*name), leader=4, isr=(4,))
            cluster.put_quietly(znodes.state_path(*name), znodes.write_state(state))
    assert records_before(seen, "t-24") == PART
    assert len(seen.texts_of("reassignment_completed")) == COUNT
    assert not any(one.reason.rule == BEGIN for _, commands in seen.history for one in commands)
    assert {assignment(cluster, name) for name in ALL} == {"4"}
    assert_nothing_is_left(cluster)
    assert_no_failures(cluster)


# Elections --------------------------------------------------------------------------------------


def test_failover_elects_leaders_before_it_writes_records() -> None:
    cluster = with_25_partitions()
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        begin_elsewhere(cluster)
        cluster.unregister(1)
    found = steps(seen)
    assert records_before(seen, "u-0") == 0
    assert records_before(seen, "t-24") == 0
    assert found.count("record") == COUNT
    assert_recorded_once(cluster)


def test_failover_elects_originals_of_cancelled_moves_before_it_writes_records() -> None:
    """Leader 3 dies. The replicas in sync are target 4 and original 2."""
    cluster = with_25_partitions()
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        begin_elsewhere(cluster)
        cancel_quietly(cluster)
        cluster.unregister(1)
        set_isrs(cluster, 1, 4, 2)
    assert records_before(seen, "t-24") == 0
    assert {cluster.leadership(*name).leader for name in ALL} == {2}
    assert {assignment(cluster, name) for name in ALL} == {"1,2"}
    assert_nothing_is_left(cluster)
    assert_no_failures(cluster)


def test_failover_does_not_restrict_elections_of_moves_that_are_younger_than_the_cancellation() -> (
    None
):
    cluster = with_25_partitions()
    cancel_all(cluster)
    with OtherControllersTerm(cluster):
        begin_elsewhere(cluster)
        cluster.unregister(1)
        set_isrs(cluster, 1, 2, 4)
    assert {cluster.leadership(*name).leader for name in ALL} == {4}
    assert {assignment(cluster, name) for name in ALL} == {UNDER_WAY}


def test_failover_does_not_restrict_elections_of_moves_to_other_replicas_than_the_entrys() -> None:
    """The stock controller began these moves by its API."""
    cluster = with_25_partitions()
    with OtherControllersTerm(cluster):
        begin_elsewhere(cluster)
        submit_quietly(cluster, {name: [3, 5] for name in ALL})
        cancel_quietly(cluster)
        cluster.unregister(1)
        set_isrs(cluster, 1, 2, 4)
    assert {cluster.leadership(*name).leader for name in ALL} == {4}
    assert {assignment(cluster, name) for name in ALL} == {UNDER_WAY}


def test_election_between_two_parts_prefers_the_originals_of_cancelled_moves() -> None:
    """Leader 1 dies when ten moves have a record. Target 4 and original 2 are in sync."""
    cluster = with_25_partitions()
    cluster.once(FIRST_PART, lambda: cluster.unregister(1))
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        begin_elsewhere(cluster)
        cancel_quietly(cluster)
        set_isrs(cluster, 1, 4, 2)
    chosen = [
        choice.chosen
        for _, commands in seen.history
        for issued in commands
        if issued.reason.rule == "offline partition leader election"
        for choice in issued.reason.choices
    ]
    assert set(chosen) == {2}
    assert records_before(seen, "t-24") == PART


# Lost replies and crashes -----------------------------------------------------------------------


@pytest.mark.parametrize("delivery", [Delivery.REQUEST_LOST, Delivery.REPLY_LOST])
@pytest.mark.parametrize("lost", [ALL[5:6], ALL[5:PART]])
def test_moves_are_recorded_once_if_a_reply_is_lost_in_the_middle_of_a_part(
    delivery: Delivery, lost: list[Name]
) -> None:
    cluster = with_25_partitions()
    left = list(lost)

    def deliver(issued: Issued) -> Delivery:
        if left and creates_record(left[0])(issued):
            left.pop(0)
            return delivery
        return Delivery.ANSWERED

    cluster.delivery = deliver
    taken_over(cluster)
    assert left == []
    assert_recorded_once(cluster)
    assert_can_complete(cluster)


def test_record_that_another_client_wrote_is_written_again_and_delays_no_other() -> None:
    cluster = with_25_partitions()

    def disturb() -> None:
        for _ in range(2):
            cluster.put_quietly(reassignment_path(*ALL[3]), b"no record")

    cluster.once(FIRST_PART, disturb)
    seen = cluster.seen()
    taken_over(cluster)
    assert len(written_topics(seen)) == 1
    assert_recorded_once(cluster)
    assert_can_complete(cluster)


def test_topic_that_is_deleted_by_hand_between_two_parts_fails_the_failover() -> None:
    """The controller does not continue with moves that have no record."""
    cluster = with_25_partitions()
    cluster.once(SECOND_PART, lambda: cluster.remove_quietly(znodes.topic_path("t")))
    seen = cluster.seen()
    taken_over_quietly(cluster)
    [text] = seen.texts_of("failover_failed")
    assert "cannot be written for the reassignment of t-10" in text
    assert not cluster.is_active


def test_crash_between_two_parts() -> None:
    """Another controller is elected before the second part. Then the daemon takes over again."""
    cluster = with_25_partitions()
    sessions: list[int] = []
    cluster.once(SECOND_PART, lambda: sessions.append(cluster.seize_role(9)))
    taken_over_quietly(cluster)
    assert not cluster.is_active
    assert len(records(cluster)) == PART
    cluster.leave_role(sessions[0])
    assert cluster.is_active
    assert_recorded_once(cluster)
    assert_can_complete(cluster)


@pytest.mark.parametrize("delivery", [Delivery.SESSION_OVER, Delivery.SESSION_OVER_AFTER])
def test_session_that_ends_in_the_second_part(delivery: Delivery) -> None:
    cluster = with_25_partitions()
    cluster.lose(SECOND_PART, delivery)
    taken_over(cluster)
    assert cluster.fold.is_idle
    assert_recorded_once(cluster)
    assert_can_complete(cluster)
