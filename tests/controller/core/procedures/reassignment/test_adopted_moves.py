"""Many reassignments that a stock controller began get their records in parts (KB 14.4, 14.5.5).

25 partitions of t move in parts of 10; u-0 is on brokers 1 and 2 and stays there.
"""

from collections.abc import Callable

import msgspec
import pytest

from controller.core import pauses, znodes
from controller.core.api_requests.alter_partition import (
    AlterPartitionReceived,
    AlterPartitionResponse,
)
from controller.core.api_requests.controlled_shutdown import (
    ControlledShutdownReceived,
    ControlledShutdownResponse,
)
from controller.core.commands import (
    Issued,
    ReadStats,
    ReadZnodes,
    WriteAtomically,
)
from controller.core.operations import SetData
from controller.core.znodes import REASSIGN_CANCEL, Entry, Reassignment, reassignment_path
from replay.world.simulation import Delivery
from tests.controller.core.cluster import Cluster, Seen
from tests.controller.core.endpoint import proposal
from tests.controller.core.procedures.reassignment.interrupting import (
    OtherControllersTerm,
    assert_nothing_is_left,
    cancel_all,
    cancel_quietly,
    entries,
    identity,
    record,
    records,
    submit,
    submit_quietly,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    Name,
    assert_no_failures,
    assignment,
    catch_up,
    reassigning,
)

COUNT = 25
PART = 10
ALL: list[Name] = [("t", number) for number in range(COUNT)]
LAST = ALL[-1]
U0 = ("u", 0)
UNDER_WAY = "3,4,1,2 adding 3,4 removing 1,2"
RECORD = Reassignment((3, 4), 2, True, (1, 2))
BEGIN = "reassignment: begin"


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of 10 partitions, so that the tests are fast."""
    monkeypatch.setattr(pauses, "TOGETHER_MAX", PART)


def with_25_partitions() -> Cluster:
    """t with 25 partitions on [1,2], and u-0 on [1,2]."""
    cluster = Cluster(1, 2, 3, 4, 5, kip_236_enable=True).start()
    cluster.create_topic("t", {key: [1, 2] for _, key in ALL})
    cluster.create_topic("u", {0: [1, 2]})
    return cluster


def begin_elsewhere(cluster: Cluster, count: int = COUNT, *target: int) -> None:
    """A stock controller begins moves of the first partitions of t from [1,2], to [3,4] if there is
    no `target`."""
    to, moving = list(target or (3, 4)), [str(key) for _, key in ALL[:count]]
    submit_quietly(cluster, {name: to for name in ALL[:count]})
    cluster.change_topic_quietly(
        "t",
        {key: [*to, 1, 2] if key < count else [1, 2] for _, key in ALL},
        adding_replicas={key: to for key in moving},
        removing_replicas={key: [1, 2] for key in moving},
    )


def set_isrs(cluster: Cluster, *isr: int) -> None:
    """The ISR of each partition of t while another controller has the role."""
    for name in ALL:
        cluster.set_isr(*name, isr)


def taken_over(cluster: Cluster) -> Cluster:
    """The daemon takes over the moves of all partitions of t."""
    with OtherControllersTerm(cluster):
        begin_elsewhere(cluster)
    return cluster


def taken_over_quietly(cluster: Cluster) -> None:
    """As `taken_over`, but the daemon may lose the role meanwhile."""
    session = cluster.seize_role(9)
    cluster.run()
    begin_elsewhere(cluster)
    cluster.leave_role(session)


def reads(*paths: str) -> Callable[[Issued], bool]:
    """A predicate that matches a read of one of these znodes."""

    def matches(issued: Issued) -> bool:
        command = issued.command
        return isinstance(command, ReadZnodes | ReadStats) and command.paths[0] in paths

    return matches


def creates_record(*names: Name) -> Callable[[Issued], bool]:
    """A predicate that matches the write of the record of one of these partitions."""
    paths = {reassignment_path(*name) for name in names}

    def matches(issued: Issued) -> bool:
        command = issued.command
        return isinstance(command, WriteAtomically) and any(
            one.path in paths for one in command.operations
        )

    return matches


ANY_RECORD = creates_record(*ALL)
READS_RECORDS = reads(*(reassignment_path(*name) for name in ALL))
READS_ENTRIES = reads(znodes.REASSIGN_PARTITIONS)
FIRST_PART = creates_record(ALL[0])
SECOND_PART = creates_record(ALL[PART])


def steps(seen: Seen) -> list[str]:
    """The written records, reads of the entries, elections of u-0 and of t-24, and answers, in
    order."""
    states = {"u-0": znodes.state_path(*U0), "t-24": znodes.state_path(*LAST)}
    found: list[str] = []
    for issued in (one for _, commands in seen.history for one in commands):
        command = issued.command
        paths = [one.path for one in getattr(command, "operations", ())]
        if ANY_RECORD(issued):
            found.append("record")
        if READS_ENTRIES(issued):
            found.append("entries")
        if "election" in issued.reason.rule:
            found += [one for one, path in states.items() if path in paths]
        if isinstance(command, AlterPartitionResponse | ControlledShutdownResponse):
            found.append("answer")
    return found


def records_before(seen: Seen, what: str) -> int:
    """The number of records that were written before `what`."""
    found = steps(seen)
    return found[: found.index(what)].count("record")


def assert_recorded_once(cluster: Cluster) -> None:
    """Each move has a separate record and is under way."""
    assert {record(cluster, name) for name in ALL} == {RECORD}
    assert {assignment(cluster, name) for name in ALL} == {UNDER_WAY}
    assert len({identity(cluster, name)[0] for name in ALL}) == COUNT
    assert entries(cluster) == dict.fromkeys(ALL, Entry((3, 4), (1, 2)))
    assert reassigning(cluster) == ALL
    assert_no_failures(cluster)


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


def broker_1_dies(cluster: Cluster) -> None:
    """The registration of broker 1, which leads all partitions, is deleted."""
    cluster.unregister(1)


def leader_asks_for_isr(cluster: Cluster) -> None:
    """The leader of u-0 requests an ISR without broker 2."""
    asked = proposal(cluster, *U0, isr=(1,))
    epoch = cluster.broker_epoch(1)
    cluster.happen_next(AlterPartitionReceived(77, 3, 1, epoch, [asked]), "api:1")


def broker_1_shuts_down(cluster: Cluster) -> None:
    """Broker 1 asks for a controlled shutdown."""
    shuts_down(cluster, 1)


def shuts_down(cluster: Cluster, broker: int) -> None:
    """A broker asks for a controlled shutdown."""
    epoch = cluster.broker_epoch(broker)
    cluster.happen_next(ControlledShutdownReceived(77, 3, broker, epoch), f"api:{broker}")


@pytest.mark.parametrize(
    ("happen", "handled"),
    [(broker_1_dies, "u-0"), (leader_asks_for_isr, "answer"), (broker_1_shuts_down, "answer")],
)
def test_urgent_event_is_handled_between_two_parts(
    happen: Callable[[Cluster], None], handled: str
) -> None:
    cluster = with_25_partitions()
    cluster.once(FIRST_PART, lambda: happen(cluster))
    seen = cluster.seen()
    taken_over(cluster)
    assert records_before(seen, handled) == PART
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


def begin_here(cluster: Cluster, count: int = COUNT) -> None:
    """The daemon begins moves of the first partitions of t to [3,4], which have records then."""
    submit(cluster, {name: [3, 4] for name in ALL[:count]})
    assert len(records(cluster)) == count


@pytest.mark.parametrize(
    ("happen", "handled"),
    [(broker_1_dies, "u-0"), (leader_asks_for_isr, "answer"), (broker_1_shuts_down, "answer")],
)
@pytest.mark.parametrize(("count", "waits"), [(COUNT, False), (PART, True)])
def test_urgent_event_is_handled_before_the_entries_of_many_recorded_moves_are_read(
    happen: Callable[[Cluster], None], handled: str, count: int, waits: bool
) -> None:
    cluster = with_25_partitions()
    begin_here(cluster, count)
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        cluster.once(READS_RECORDS, lambda: happen(cluster))
    found = steps(seen)
    assert (found.index("entries") < found.index(handled)) is waits
    assert_no_failures(cluster)


def test_urgent_event_waits_until_recorded_moves_without_a_leader_have_one() -> None:
    cluster = with_25_partitions()
    begin_here(cluster)
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        cluster.unregister(1)
        cluster.once(READS_RECORDS, lambda: shuts_down(cluster, 2))
    found = steps(seen)
    assert found.index("t-24") < found.index("answer")
    assert_no_failures(cluster)


@pytest.mark.parametrize("unrecorded", [[], [LAST]])
def test_election_while_the_records_are_read_prefers_the_originals_of_cancelled_moves(
    unrecorded: list[Name],
) -> None:
    """Leader 1 dies when the records are read. Target 4 and original 2 are in sync."""
    cluster = with_25_partitions()
    begin_here(cluster)
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        for name in unrecorded:
            cluster.remove_quietly(reassignment_path(*name))
        cancel_quietly(cluster)
        set_isrs(cluster, 1, 4, 2)
        cluster.once(READS_RECORDS, lambda: cluster.unregister(1))
    found = steps(seen)
    assert (found.index("entries") < found.index("t-24")) is bool(unrecorded)
    assert {cluster.leadership(*name).leader for name in ALL} == {2}
    assert {assignment(cluster, name) for name in ALL} == {"1,2"}
    assert_nothing_is_left(cluster)
    assert_no_failures(cluster)


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
def test_lost_reply_in_the_middle_of_a_part(delivery: Delivery, lost: list[Name]) -> None:
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


def test_record_that_another_client_created_is_written_again() -> None:
    cluster = with_25_partitions()

    def disturb() -> None:
        cluster.put_quietly(reassignment_path(*ALL[3]), b"no record")

    cluster.once(FIRST_PART, disturb)
    taken_over(cluster)
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
