"""/admin/replica_deletions: replica deletions that brokers have not confirmed (KB 7.7.1).

Most scenarios move t-0, or roll it back, while a broker that loses its replica is dead or does not
answer.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from controller.core import znodes
from controller.core.commands import BrokerRequest, Issued, StopReplicaRequest
from controller.core.error_codes import KAFKA_STORAGE_ERROR
from controller.core.operations import Create
from controller.core.procedures.reassignment.replica_deletion import TIMER
from controller.core.znodes import (
    REPLICA_DELETIONS,
    ReplicaDeletion,
    deletion_path,
    read_deletion,
)
from replay.world.messages import PartitionError
from tests.controller.core.cluster import Cluster
from tests.controller.core.procedures.elections.electing import runs
from tests.controller.core.procedures.reassignment.dropping import (
    ask_for_deletion,
    dead_target,
    deletions,
    known_deletions,
    let_time_pass,
    pending,
    stopped,
)
from tests.controller.core.procedures.reassignment.interrupting import (
    OtherControllersTerm,
    assert_nothing_is_left,
    cancel_all,
    files,
    half_way,
    interruptible,
    remove_cancel,
    request,
    submit,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    assert_no_failures,
    assignment,
    catch_up,
    reassign,
)
from tests.controller.core.unreliable import Delivery

# All brokers answer -----------------------------------------------------------------------------


def test_deletion_is_recorded_before_the_assignment_is_stored() -> None:
    cluster = half_way(4)
    seen = cluster.seen()
    cancel_all(cluster)
    written = seen.writes()
    created = [one for one in written if isinstance(one, Create)]
    recorded = [read_deletion(one.path, one.data) for one in created]
    assert recorded == [ReplicaDeletion(one, (T0,)) for one in (4, 5, 6)]
    assert [one.path for one in created] == [deletion_path(f"1_{number}") for number in (1, 2, 3)]
    paths = [one.path for one in written]
    stored = paths.index(znodes.topic_path("t"))
    assert all(paths.index(one.path) < stored for one in created)


def test_confirmed_deletion_is_removed() -> None:
    cluster = half_way(4)
    seen = cluster.seen()
    cancel_all(cluster)
    assert pending(cluster) == []
    assert known_deletions(cluster) == {}
    assert files(cluster) == [1, 2, 3]
    assert seen.notices() == []


def test_deletion_confirmed_before_it_is_recorded_is_not_recorded() -> None:
    """The responses arrived while the controller wrote another znode."""
    cluster = half_way(4)
    cancel_all(cluster)
    seen = cluster.seen()
    ask_for_deletion(cluster, 6, ("gone", 0))
    assert pending(cluster) == []
    assert seen.texts_of("replicas_not_deleted") == []


def test_confirmation_of_all_deletions_cancels_the_timer_and_reports_nothing() -> None:
    cluster = half_way(4)
    cancel_all(cluster)
    seen = cluster.seen()
    cluster.fire(TIMER)
    assert seen.notices() == []
    assert not runs(cluster, TIMER)


# deletions-remembered ---------------------------------------------------------------------------


@pytest.mark.deviates("deletions-remembered")
def test_deletion_on_a_dead_broker_stays_recorded_and_is_reported_with_the_broker() -> None:
    cluster = half_way(4)
    cluster.stop_broker(6)
    seen = cluster.seen()
    cancel_all(cluster)
    assert assignment(cluster) == "1,2,3"
    assert pending(cluster) == [ReplicaDeletion(6, (T0,))]
    assert seen.texts_of("replicas_not_deleted") == [
        "the broker is not registered, and may still have its replicas of t-0: the deletion is "
        "recorded in /admin/replica_deletions and requested again when the broker registers"
    ]
    assert seen.notices() == [("replicas_not_deleted", "broker 6")]
    assert_nothing_is_left(cluster)


def test_deletion_requested_repeatedly_is_recorded_once() -> None:
    cluster = dead_target()
    seen = cluster.seen()
    for _ in range(2):
        remove_cancel(cluster)
        submit(cluster, {T0: [1, 2, 3, 6]})
        cancel_all(cluster)
        assert assignment(cluster) == "1,2,3"
    assert pending(cluster) == [ReplicaDeletion(6, (T0,))]
    assert len(seen.texts_of("replicas_not_deleted")) == 2
    cluster.start_broker(6)
    assert pending(cluster) == []
    assert files(cluster) == [1, 2, 3]


def test_recorded_deletion_does_not_prevent_the_record_of_another() -> None:
    cluster = Cluster(1, 2, 3, 4, kip_236_enable=True).start()
    cluster.create_topic("t", {0: [1], 1: [2]})
    submit(cluster, {T0: [4]})
    cluster.stop_broker(4)
    cancel_all(cluster)
    remove_cancel(cluster)
    submit(cluster, {T0: [4], ("t", 1): [4]})
    cancel_all(cluster)
    assert pending(cluster) == [ReplicaDeletion(4, (T0,)), ReplicaDeletion(4, (("t", 1),))]


@pytest.mark.deviates("deletions-remembered")
def test_broker_that_registers_deletes_its_remaining_replicas() -> None:
    cluster = dead_target()
    assert files(cluster) == [1, 2, 3, 6]
    seen = cluster.seen()
    cluster.start_broker(6)
    assert stopped(seen, 6) == [T0]
    assert seen.kinds(6)[:2] == ["UpdateMetadata", "StopReplica"]
    assert files(cluster) == [1, 2, 3]
    assert pending(cluster) == []
    assert seen.texts_of("replicas_deleted") == [
        "the broker has deleted the replicas that were left on its disks"
    ]
    assert_no_failures(cluster)


def test_restarted_broker_gets_the_request_again() -> None:
    cluster = half_way(4)
    cluster.is_slow = lambda request: request.broker == 6
    cancel_all(cluster)
    cluster.is_slow = lambda request: False
    seen = cluster.seen()
    cluster.bounce(6)
    assert stopped(seen, 6) == [T0]
    assert pending(cluster) == []


def test_broker_without_pending_deletions_gets_no_request_when_it_registers() -> None:
    cluster = dead_target()
    seen = cluster.seen()
    cluster.bounce(5)
    assert stopped(seen, 5) == []
    assert pending(cluster) == [ReplicaDeletion(6, (T0,))]


def test_completed_move_records_the_replica_of_a_dead_broker() -> None:
    cluster = interruptible(4, 1, 2)
    request(cluster, {T0: [3, 4]})
    cluster.stop_broker(2)
    seen = cluster.seen()
    catch_up(cluster, 3, 4)
    assert assignment(cluster) == "3,4"
    assert pending(cluster) == [ReplicaDeletion(2, (T0,))]
    assert seen.notices() == [("replicas_not_deleted", "broker 2")]
    cluster.start_broker(2)
    assert files(cluster) == [3, 4]
    assert pending(cluster) == []


def test_replaced_target_records_the_replica_of_a_dead_broker() -> None:
    """The controller records replicas of the drop set and of a replaced target."""
    cluster = interruptible(5, 1, 2)
    request(cluster, {T0: [3]})
    cluster.stop_broker(3)
    request(cluster, {T0: [4]})
    assert assignment(cluster) == "4,1,2 adding 4 removing 1,2"
    assert pending(cluster) == [ReplicaDeletion(3, (T0,))]
    cluster.start_broker(3)
    assert files(cluster) == [1, 2, 4]
    assert pending(cluster) == []


def test_api_move_records_the_replica_of_a_dead_broker() -> None:
    cluster = interruptible(4, 1, 2)
    assert reassign(cluster, 3) == 0
    cluster.stop_broker(2)
    catch_up(cluster, 3)
    assert pending(cluster) == [ReplicaDeletion(2, (T0,))]


def test_several_partitions_of_a_broker_share_one_record() -> None:
    cluster = Cluster(1, 2, 3, 4, kip_236_enable=True).start()
    cluster.create_topic("t", {0: [1], 1: [2]})
    cluster.create_topic("u", {0: [1]})
    submit(cluster, {T0: [4], ("t", 1): [4], ("u", 0): [4]})
    cluster.stop_broker(4)
    cancel_all(cluster)
    assert pending(cluster) == [ReplicaDeletion(4, (T0, ("t", 1), ("u", 0)))]


# Brokers that do not confirm --------------------------------------------------------------------


def hanging_target() -> Cluster:
    """Broker 6 is registered and does not answer its request to delete t-0."""
    cluster = half_way(4)
    cluster.is_slow = lambda request: request.broker == 6
    cancel_all(cluster)
    return cluster


def test_rollback_does_not_wait_for_a_broker_that_does_not_answer() -> None:
    cluster = hanging_target()
    assert assignment(cluster) == "1,2,3"
    assert_nothing_is_left(cluster)
    assert pending(cluster) == [ReplicaDeletion(6, (T0,))]


def test_broker_without_an_answer_is_reported_at_the_timeout() -> None:
    cluster = hanging_target()
    seen = cluster.seen()
    let_time_pass(cluster)
    assert seen.texts_of("replicas_not_deleted") == [
        "the broker has not confirmed the deletion, and may still have its replicas of t-0: the "
        "deletion is recorded in /admin/replica_deletions and requested again when the broker "
        "registers"
    ]
    assert not runs(cluster, TIMER)
    cluster.answer_slow()
    assert pending(cluster) == []
    assert len(seen.texts_of("replicas_deleted")) == 1


def test_broker_that_answers_in_time_is_not_reported() -> None:
    cluster = hanging_target()
    seen = cluster.seen()
    cluster.fire(TIMER)
    cluster.answer_slow()
    cluster.fire(TIMER)
    assert seen.texts_of("replicas_not_deleted") == []
    assert seen.texts_of("replicas_deleted") == []
    assert pending(cluster) == []


def test_deletion_requested_while_the_timer_runs_has_its_full_timeout() -> None:
    """The timer was started for an earlier deletion."""
    cluster = hanging_target()
    cluster.fire(TIMER)
    ask_for_deletion(cluster, 6, ("u", 7))
    seen = cluster.seen()
    cluster.fire(TIMER)
    [text] = seen.texts_of("replicas_not_deleted")
    assert "t-0" in text
    cluster.fire(TIMER)
    assert len(seen.texts_of("replicas_not_deleted")) == 2


def failing(cluster: Cluster, broker: int) -> None:
    """The broker fails to delete replicas."""

    def errors(request: BrokerRequest) -> list[PartitionError]:
        is_it = isinstance(request, StopReplicaRequest) and request.broker == broker
        return [(*T0, KAFKA_STORAGE_ERROR)] if is_it else []

    cluster.broker_errors = errors


def test_partition_error_does_not_confirm() -> None:
    cluster = half_way(4)
    failing(cluster, 6)
    cancel_all(cluster)
    assert pending(cluster) == [ReplicaDeletion(6, (T0,))]
    assert files(cluster) == [1, 2, 3, 6]
    cluster.broker_errors = lambda request: []
    cluster.bounce(6)
    assert pending(cluster) == []
    assert files(cluster) == [1, 2, 3]


def test_request_error_does_not_confirm() -> None:
    """The broker has restarted meanwhile, and rejects the broker epoch."""
    cluster = half_way(4)
    cluster.unregister(6)
    cluster.register(6)
    cluster.once(
        lambda issued: (
            isinstance(issued.command, StopReplicaRequest)
            and issued.command.broker == 6
            and any(one.delete for one in issued.command.partitions)
        ),
        lambda: (cluster.unregister(6), cluster.register(6)),
    )
    cancel_all(cluster)
    assert assignment(cluster) == "1,2,3"
    assert pending(cluster) == []
    assert files(cluster) == [1, 2, 3]


def test_stopping_a_replica_without_deletion_does_not_confirm() -> None:
    cluster = dead_target()
    child = next(iter(deletions(cluster)))
    assert known_deletions(cluster) == {child: ReplicaDeletion(6, (T0,))}
    cluster.register(6)
    cluster.is_slow = lambda request: (
        isinstance(request, StopReplicaRequest)
        and request.broker == 6
        and any(one.delete for one in request.partitions)
    )
    cluster.run()
    assert pending(cluster) == [ReplicaDeletion(6, (T0,))]


# Failovers --------------------------------------------------------------------------------------


@pytest.mark.deviates("deletions-remembered")
def test_failover_requests_deletions_again() -> None:
    cluster = hanging_target()
    cluster.is_slow = lambda request: False
    seen = cluster.seen()
    cluster.expire()
    assert stopped(seen, 6) == [T0]
    assert pending(cluster) == []
    assert len(seen.texts_of("replicas_deleted")) == 1


def test_dead_broker_is_reported_at_the_timeout_after_a_failover() -> None:
    cluster = dead_target()
    cluster.expire()
    assert pending(cluster) == [ReplicaDeletion(6, (T0,))]
    seen = cluster.seen()
    let_time_pass(cluster)
    [text] = seen.texts_of("replicas_not_deleted")
    assert text.startswith("the broker is not registered, ")
    cluster.start_broker(6)
    assert pending(cluster) == []
    assert len(seen.texts_of("replicas_deleted")) == 1


def test_record_deleted_by_a_client_is_forgotten() -> None:
    """Its broker never returns."""
    cluster = dead_target()
    [child] = deletions(cluster)
    cluster.remove(deletion_path(child))
    seen = cluster.seen()
    cluster.expire()
    cluster.fire(TIMER)
    assert seen.texts_of("replicas_not_deleted") == []
    cluster.start_broker(6)
    assert stopped(seen, 6) == []


def test_term_of_a_stock_controller_does_not_change_deletions() -> None:
    cluster = dead_target()
    with OtherControllersTerm(cluster):
        cluster.register(6)
        assert pending(cluster) == [ReplicaDeletion(6, (T0,))]
    assert files(cluster) == [1, 2, 3]
    assert pending(cluster) == []


def test_deletions_of_two_terms_have_different_names() -> None:
    cluster = interruptible(5, 1, 2, 3)
    for broker in (4, 5):
        submit(cluster, {T0: [1, 2, 3, broker]})
        cluster.stop_broker(broker)
        cancel_all(cluster)
        remove_cancel(cluster)
        cluster.expire()
    assert [one.broker for one in pending(cluster)] == [4, 5]


@pytest.mark.parametrize("delivery", [Delivery.REQUEST_LOST, Delivery.REPLY_LOST])
def test_lost_reply_to_the_record_of_a_deletion_is_resolved(delivery: Delivery) -> None:
    cluster = half_way(4)
    cluster.stop_broker(6)
    cluster.lose(lambda issued: any(is_deletion(one) for one in written_by(issued)), delivery)
    cancel_all(cluster)
    assert pending(cluster) == [ReplicaDeletion(6, (T0,))]
    assert assignment(cluster) == "1,2,3"


def written_by(issued: Issued) -> Sequence[Any]:
    """The operations of a write."""
    found: Sequence[Any] = getattr(issued.command, "operations", ())
    return found


def is_deletion(operation: Any) -> bool:
    """Whether the operation records a deletion."""
    return isinstance(operation, Create) and operation.path.startswith(f"{REPLICA_DELETIONS}/")


def test_recorded_deletion_is_dropped_if_the_controller_ended_before_the_next_write() -> None:
    """The next controller finds the move under way. Its rollback then completes."""
    cluster = half_way(4)
    sessions: list[int] = []
    stores = "rollback: store the originals"
    cluster.once(
        lambda issued: issued.reason.rule == stores, lambda: sessions.append(cluster.seize_role(9))
    )
    cancel_all(cluster)
    assert len(pending(cluster)) == 3
    remove_cancel(cluster)
    seen = cluster.seen()
    cluster.leave_role(sessions[0])
    assert assignment(cluster) == "4,5,6,1,2,3 adding 4,5,6 removing 1,2,3"
    assert [stopped(seen, broker) for broker in (4, 5, 6)] == [[], [], []]
    assert pending(cluster) == []


# Replicas assigned again ------------------------------------------------------------------------


def test_replica_assigned_again_is_not_deleted() -> None:
    cluster = dead_target()
    remove_cancel(cluster)
    submit(cluster, {T0: [6, 2]})
    seen = cluster.seen()
    cluster.start_broker(6)
    assert stopped(seen, 6) == []
    assert files(cluster) == [1, 2, 3, 6]
    catch_up(cluster, 6)
    assert assignment(cluster) == "6,2"
    cluster.expire()
    assert stopped(seen, 6) == []
    assert pending(cluster) == []


def test_requested_deletion_of_an_assigned_replica_is_dropped_and_logged() -> None:
    cluster = interruptible(4, 1, 2)
    cluster.create_topic("u", {0: [3]})
    seen = cluster.seen()
    child = ask_for_deletion(cluster, 2, T0, ("u", 0))
    assert stopped(seen, 2) == [("u", 0)]
    assert pending(cluster) == []
    assert files(cluster) == [1, 2]
    assert seen.notices() == [("deletion_dropped", deletion_path(child))]
    assert seen.texts() == ["t-0: not deleted, because broker 2 is a replica"]


def test_recorded_deletion_of_a_replica_assigned_again_is_logged() -> None:
    cluster = dead_target()
    remove_cancel(cluster)
    submit(cluster, {T0: [6, 2]})
    seen = cluster.seen()
    cluster.expire()
    assert seen.texts_of("deletion_dropped") == []
    cluster.start_broker(6)
    assert seen.texts_of("deletion_dropped") == ["t-0: not deleted, because broker 6 is a replica"]
    assert pending(cluster) == []


# With the setting off ---------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{"rules": "kafka"}, {"kip_236_enable": False}])
def test_without_the_setting_no_deletion_is_recorded(settings: dict[str, Any]) -> None:
    cluster = Cluster(1, 2, 3, 4, **({"kip_236_enable": True} | settings)).start()
    cluster.create_topic("t", {0: [1, 2]})
    assert reassign(cluster, 3) == 0
    cluster.stop_broker(2)
    seen = cluster.seen()
    catch_up(cluster, 3)
    assert assignment(cluster) == "3"
    assert cluster.data(REPLICA_DELETIONS) is None
    assert seen.texts_of("replicas_not_deleted") == []
    cluster.put(REPLICA_DELETIONS, b"")
    ask_for_deletion(cluster, 4, T0)
    assert len(deletions(cluster)) == 1
    assert stopped(seen, 4) == []
