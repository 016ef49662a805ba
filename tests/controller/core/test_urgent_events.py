"""Urgent controller events are handled between two parts of long work (LONG_WORK_INTERRUPTED).

25 partitions of t are moved in parts of 10; u-0 is on brokers 1 and 2 and stays there.
"""

from collections.abc import Callable
from typing import Any

import pytest

from controller.core import error_codes as codes
from controller.core import pauses, znodes
from controller.core.api_requests.alter_partition import (
    AlterPartitionReceived,
    AlterPartitionResponse,
)
from controller.core.api_requests.controlled_shutdown import (
    ControlledShutdownReceived,
    ControlledShutdownResponse,
)
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    AlterPartitionReassignmentsResponse,
    ReassignmentTarget,
)
from controller.core.commands import Issued, WriteAtomically, WriteZnodes
from controller.core.triggers import trigger_name
from controller.core.znodes import REASSIGN_CANCEL, REASSIGN_PARTITIONS_EXTRA, reassignment_path
from tests.controller.core.cluster import Cluster, Seen, writes
from tests.controller.core.endpoint import answers, proposal
from tests.controller.core.procedures.reassignment.interrupting import (
    OtherControllersTerm,
    assert_nothing_is_left,
    cancel_all,
    cancel_quietly,
    entries,
    entries_json,
    records,
    request,
    requests,
    set_minimum,
    submit,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    Name,
    assert_no_failures,
    assignment,
    catch_up,
    reassigning,
)
from tests.controller.core.unreliable import Delivery

COUNT = 25
PART = 10
ALL: list[Name] = [("t", number) for number in range(COUNT)]
TARGETS: dict[Name, list[int]] = {key: [3, 4] for key in ALL}
U0 = ("u", 0)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of 10 partitions, so that the tests are fast."""
    monkeypatch.setattr(pauses, "TOGETHER_MAX", PART)


def with_25_partitions(**settings: Any) -> Cluster:
    """t with 25 partitions on [1,2], and u-0 on [1,2]."""
    cluster = Cluster(1, 2, 3, 4, 5, kip_236_enable=True, **settings).start()
    cluster.create_topic("t", {key: [1, 2] for key in range(COUNT)})
    cluster.create_topic("u", {0: [1, 2]})
    return cluster


def begins(*numbers: int) -> Callable[[Issued], bool]:
    """A predicate that matches the write with which one of these partitions begins to move."""
    paths = {reassignment_path("t", number) for number in numbers}

    def matches(issued: Issued) -> bool:
        command = issued.command
        return isinstance(command, WriteAtomically) and any(
            operation.path in paths for operation in command.operations
        )

    return matches


FIRST_PART = begins(0)
SECOND_PART = begins(PART)


def rules(seen: Seen) -> list[str]:
    """The started moves, one item per partition, and other writes and answers, in order."""
    found: list[str] = []
    for issued in (one for _, commands in seen.history for one in commands):
        command = issued.command
        operations = getattr(command, "operations", ())
        if isinstance(command, WriteAtomically) and any(
            one.path.startswith("/admin/reassignments/") for one in operations
        ):
            found.append("begins")
        elif any(one.path == znodes.state_path(*U0) for one in operations):
            found.append("u-0")
        elif isinstance(command, AlterPartitionResponse | ControlledShutdownResponse):
            found.append(type(command).__name__)
    return found


def between(seen: Seen, what: str) -> int:
    """The number of moves that had started before `what`."""
    found = rules(seen)
    return found[: found.index(what)].count("begins")


# long-work-interrupted --------------------------------------------------------------------------


def test_250_entries_begin_in_three_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    cluster = Cluster(1, 2, 3, kip_236_enable=True).start()
    cluster.create_topic("t", {key: [1, 2] for key in range(250)})
    seen = cluster.seen()
    submit(cluster, {("t", number): [3] for number in range(250)})
    raised = [
        one
        for _, commands in seen.history
        for one in commands
        if one.reason.rule == "reassignment: raise the leader epoch"
        and isinstance(one.command, WriteZnodes)
    ]
    assert [len(one.command.operations) for one in raised] == [100, 100, 50]
    assert len(records(cluster)) == 250
    assert_no_failures(cluster)


@pytest.mark.deviates("long-work-interrupted")
def test_failure_of_a_broker_is_handled_after_the_current_part() -> None:
    cluster = with_25_partitions()
    cluster.once(FIRST_PART, lambda: cluster.unregister(1))
    seen = cluster.seen()
    submit(cluster, TARGETS)
    assert between(seen, "u-0") == PART
    assert cluster.leadership(*U0).leader == 2
    assert len(records(cluster)) == COUNT
    assert {cluster.leadership(*name).leader for name in ALL} == {2}
    assert_no_failures(cluster)


def test_controlled_shutdown_is_answered_between_two_parts() -> None:
    cluster = with_25_partitions()
    asked = ControlledShutdownReceived(77, 3, 1, cluster.broker_epoch(1))
    cluster.once(FIRST_PART, lambda: cluster.happen_next(asked, "api:1"))
    seen = cluster.seen()
    submit(cluster, TARGETS)
    assert between(seen, "ControlledShutdownResponse") == PART
    assert cluster.leadership(*U0).leader == 2
    assert len(records(cluster)) == COUNT


def alter_u0(cluster: Cluster, number: int = 77) -> AlterPartitionReceived:
    """The leader of u-0 requests an ISR without broker 2."""
    asked = proposal(cluster, *U0, isr=(1,))
    return AlterPartitionReceived(number, 3, 1, cluster.broker_epoch(1), [asked])


def test_alter_partition_is_answered_between_two_parts() -> None:
    cluster = with_25_partitions()
    asked = alter_u0(cluster)
    cluster.once(FIRST_PART, lambda: cluster.happen_next(asked, "api:1"))
    seen = cluster.seen()
    submit(cluster, TARGETS)
    assert between(seen, "AlterPartitionResponse") == PART
    assert cluster.leadership(*U0).isr == (1,)


def test_urgent_event_during_the_second_part_is_handled_before_the_third() -> None:
    cluster = with_25_partitions()
    cluster.once(SECOND_PART, lambda: cluster.unregister(1))
    seen = cluster.seen()
    submit(cluster, TARGETS)
    assert between(seen, "u-0") == 2 * PART


def test_urgent_events_keep_their_order() -> None:
    cluster = with_25_partitions()
    shut_down = ControlledShutdownReceived(78, 3, 2, cluster.broker_epoch(2))

    def happen() -> None:
        cluster.happen_next(alter_u0(cluster, 76), "api:1")
        cluster.happen_next(shut_down, "api:2")
        cluster.happen_next(alter_u0(cluster, 77), "api:1")

    cluster.once(FIRST_PART, happen)
    submit(cluster, TARGETS)
    known = [one.request for one in answers(cluster) if one.request in (76, 77, 78)]
    assert known == [76, 78, 77]


def test_events_that_are_not_urgent_wait_for_the_end_of_the_long_work() -> None:
    cluster = with_25_partitions()
    cluster.once(FIRST_PART, lambda: cluster.change_topic_quietly("v", {0: [1]}))
    seen = cluster.seen()
    submit(cluster, TARGETS)
    found = [
        one.reason.rule
        for _, commands in seen.history
        for one in commands
        if one.reason.rule == "create first leader" or SECOND_PART(one) or begins(COUNT - 1)(one)
    ]
    assert found[-1] == "create first leader"
    assert found.count("create first leader") == 1


@pytest.mark.parametrize("work", ["submit", "request", "api", "cancel", "complete", "extra"])
def test_all_long_work_on_reassignments_is_interrupted(work: str) -> None:
    cluster = with_25_partitions()
    if work in ("cancel", "complete"):
        submit(cluster, TARGETS)
    asked = alter_u0(cluster)
    seen = cluster.seen()
    cluster.once(topic_is_written, lambda: cluster.happen_next(asked, "api:1"))
    match work:
        case "submit":
            submit(cluster, TARGETS)
        case "request":
            request(cluster, TARGETS)
        case "api":
            cluster.happen(api_request(), "api:2")
        case "cancel":
            cancel_all(cluster)
        case "complete":
            catch_up_all(cluster)
        case "extra":
            cluster.put(REASSIGN_PARTITIONS_EXTRA, entries_json(TARGETS))
    order = [
        "answer" if isinstance(one.command, AlterPartitionResponse) else "topic"
        for _, commands in seen.history
        for one in commands
        if topic_is_written(one)
        or (isinstance(one.command, AlterPartitionResponse) and one.command.request == 77)
    ]
    assert order.count("answer") == 1
    assert order.index("answer") < len(order) - 1
    assert cluster.fold.is_idle


def topic_is_written(issued: Issued) -> bool:
    """Whether the command writes the assignment of t."""
    path = znodes.topic_path("t")
    return any(one.path == path for one in getattr(issued.command, "operations", ()))


def api_request(number: int = 500) -> AlterPartitionReassignmentsReceived:
    """Reassign all partitions of t to [3,4] by the API."""
    return AlterPartitionReassignmentsReceived(
        number, 0, [ReassignmentTarget(*name, (3, 4)) for name in ALL]
    )


def catch_up_all(cluster: Cluster) -> None:
    """The leader adds brokers 3 and 4 to the ISR of all partitions of t, in one request."""
    wanted = [proposal(cluster, *name, isr=(1, 2, 3, 4)) for name in ALL]
    epoch = cluster.broker_epoch(1)
    cluster.happen(AlterPartitionReceived(900, 3, 1, epoch, wanted), "api:1")


# Kafka's rules ----------------------------------------------------------------------------------


def test_under_kafka_rules_long_work_is_not_interrupted() -> None:
    cluster = Cluster(1, 2, 3, 4, rules="kafka").start()
    cluster.create_topic("t", {key: [1, 2] for key in range(5)})
    cluster.create_topic("u", {0: [1, 2]})
    asked = alter_u0(cluster)
    cluster.once(topic_is_written, lambda: cluster.happen_next(asked, "api:1"))
    seen = cluster.seen()
    submit(cluster, {("t", number): [3, 4] for number in range(5)})
    order = [
        type(one.command).__name__
        for _, commands in seen.history
        for one in commands
        if topic_is_written(one) or isinstance(one.command, AlterPartitionResponse)
    ]
    assert order[-1] == "AlterPartitionResponse"
    assert len(order) == 6


# The end of a term ------------------------------------------------------------------------------


def lose_role_in_the_interruption(cluster: Cluster, sessions: list[int]) -> None:
    """Broker 1 dies in the first part. Another controller is elected before the leader of u-0
    is."""

    def seize() -> None:
        cluster.unregister(1)
        cluster.once(writes(znodes.state_path(*U0)), lambda: sessions.append(cluster.seize_role(9)))

    cluster.once(FIRST_PART, seize)


def test_role_lost_in_the_interruption_ends_the_long_work() -> None:
    """The write after the broker's failure is fenced, and the second part never starts."""
    cluster = with_25_partitions()
    sessions: list[int] = []
    lose_role_in_the_interruption(cluster, sessions)
    seen = cluster.seen()
    submit(cluster, TARGETS)
    assert sessions
    assert not cluster.is_active
    assert rules(seen).count("begins") == PART
    assert seen.texts_of("reassignment_refused") == []
    assert cluster.fold.is_idle
    cluster.leave_role(sessions[0])
    assert cluster.is_active
    assert len(records(cluster)) == COUNT
    assert_no_failures(cluster)


def test_role_lost_in_the_interruption_rejects_the_request_of_the_long_work() -> None:
    cluster = with_25_partitions()
    sessions: list[int] = []
    lose_role_in_the_interruption(cluster, sessions)
    cluster.happen(api_request(), "api:2")
    [answer] = [one for one in answers(cluster) if one.request == 500]
    assert isinstance(answer, AlterPartitionReassignmentsResponse)
    assert answer.error == codes.NOT_CONTROLLER
    assert cluster.fold.is_idle


@pytest.mark.parametrize("delivery", [Delivery.SESSION_OVER, Delivery.SESSION_OVER_AFTER])
def test_session_that_ends_in_the_interruption_ends_both_procedures(delivery: Delivery) -> None:
    """Both requests are answered. The next term continues the reassignments that started."""
    cluster = with_25_partitions()

    def happen() -> None:
        cluster.happen_next(alter_u0(cluster), "api:1")
        cluster.lose(writes(znodes.state_path(*U0)), delivery)

    cluster.once(FIRST_PART, happen)
    cluster.happen(api_request(), "api:2")
    answered = {one.request: one for one in answers(cluster)}
    assert sorted(one for one in answered if one in (77, 500)) == [77, 500]
    later = answered[500]
    assert isinstance(later, AlterPartitionReassignmentsResponse)
    assert later.error == codes.NOT_CONTROLLER
    assert cluster.is_active
    assert cluster.fold.is_idle
    assert len(records(cluster)) == PART
    assert len(reassigning(cluster)) == PART
    assert_no_failures(cluster)


def test_fold_is_not_idle_while_a_procedure_is_paused() -> None:
    """A snapshot would not contain the paused procedure."""
    cluster = with_25_partitions()
    idle: list[bool] = []
    unfinished: list[str] = []

    def look(issued: Issued) -> None:
        if writes(znodes.state_path(*U0))(issued):
            idle.append(cluster.fold.is_idle)
            unfinished.extend(map(trigger_name, cluster.fold.unfinished))

    def happen() -> None:
        cluster.happen_next(alter_u0(cluster), "api:1")
        cluster.before = look

    cluster.once(FIRST_PART, happen)
    submit(cluster, TARGETS)
    assert idle == [False]
    assert unfinished == ["ReassignmentRequests", "AlterPartition"]
    assert cluster.fold.is_idle


def test_shutdown_in_the_interruption_waits_for_the_end_of_the_long_work() -> None:
    cluster = with_25_partitions()

    def happen() -> None:
        cluster.happen_next(alter_u0(cluster), "api:1")
        cluster.shut_down_quietly()

    cluster.once(FIRST_PART, happen)
    submit(cluster, TARGETS)
    assert cluster.is_stopped
    assert len(records(cluster)) == COUNT


# Changes between two parts ----------------------------------------------------------------------


def test_cancellation_between_two_parts_keeps_the_rest_unstarted() -> None:
    cluster = with_25_partitions()
    cluster.once(FIRST_PART, lambda: cluster.put_quietly(REASSIGN_CANCEL, b"{}"))
    submit(cluster, TARGETS)
    assert reassigning(cluster) == []
    assert {assignment(cluster, name) for name in ALL} == {"1,2"}
    assert_nothing_is_left(cluster)


def test_partly_started_request_continues_when_the_cancellation_is_removed() -> None:
    cluster = with_25_partitions()
    cluster.once(FIRST_PART, lambda: cluster.put_quietly(REASSIGN_CANCEL, b"{}"))
    request(cluster, TARGETS)
    assert len(reassigning(cluster)) == PART
    assert len(requests(cluster)) == 1
    cluster.remove(REASSIGN_CANCEL)
    assert len(reassigning(cluster)) == COUNT
    assert requests(cluster) == []


def test_later_parts_know_of_a_broker_that_died() -> None:
    """The second part sees the leaders that were elected after the failure."""
    cluster = with_25_partitions()
    cluster.once(FIRST_PART, lambda: cluster.unregister(1))
    submit(cluster, TARGETS)
    assert {cluster.leadership(*name).isr for name in ALL} == {(2,)}
    assert entries(cluster) is not None


def test_failure_of_a_broker_during_rollback_in_a_failover_is_handled_between_two_parts() -> None:
    cluster = with_25_partitions()
    submit(cluster, TARGETS)
    cluster.once(
        lambda issued: issued.reason.rule == "rollback: store the originals",
        lambda: cluster.unregister(1),
    )
    with OtherControllersTerm(cluster):
        cancel_quietly(cluster)
    assert {assignment(cluster, name) for name in ALL} == {"1,2"}
    assert {cluster.leadership(*name).leader for name in (*ALL, U0)} == {2}
    assert_nothing_is_left(cluster)
    assert_no_failures(cluster)


def test_original_replica_that_dies_between_two_parts_delays_the_rest_of_the_rollback() -> None:
    cluster = with_25_partitions()
    set_minimum(cluster, 2)
    submit(cluster, TARGETS)
    for name in ALL:
        catch_up(cluster, 3, name=name)
    cluster.once(
        lambda issued: issued.reason.rule == "rollback: store the originals",
        lambda: cluster.unregister(1),
    )
    cancel_all(cluster)
    assert len(records(cluster)) == COUNT - PART
    cluster.start_broker(1)
    for name in ALL:
        catch_up(cluster, 1, name=name)
    assert {assignment(cluster, name) for name in ALL} == {"1,2"}
    assert_nothing_is_left(cluster)


# reassignments-together -------------------------------------------------------------------------


@pytest.mark.deviates("reassignments-together")
def test_queued_completions_are_one_procedure() -> None:
    cluster = with_25_partitions()
    submit(cluster, TARGETS)
    seen = cluster.seen()
    catch_up_all(cluster)
    assert {assignment(cluster, name) for name in ALL} == {"3,4"}
    assert_nothing_is_left(cluster)
    begun = [
        one
        for _, commands in seen.history
        for one in commands
        if one.reason.rule == "reassignment: store the assignment"
    ]
    assert len(begun) == 3
    assert len(seen.texts_of("reassignment_completed")) == COUNT
    assert_no_failures(cluster)


def test_under_kafka_rules_completions_are_handled_one_by_one() -> None:
    cluster = Cluster(1, 2, 3, 4, rules="kafka").start()
    cluster.create_topic("t", {key: [1, 2] for key in range(5)})
    submit(cluster, {("t", number): [3, 4] for number in range(5)})
    seen = cluster.seen()
    wanted = [proposal(cluster, "t", number, isr=(1, 2, 3, 4)) for number in range(5)]
    epoch = cluster.broker_epoch(1)
    cluster.happen(AlterPartitionReceived(900, 3, 1, epoch, wanted), "api:1")
    begun = [
        one
        for _, commands in seen.history
        for one in commands
        if one.reason.rule == "reassignment: store the assignment"
    ]
    assert len(begun) == 5
