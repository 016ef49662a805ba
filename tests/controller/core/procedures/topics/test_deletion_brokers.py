"""Brokers that register, die and fail during topic deletions (KB 8.2, 8.3, 8.6, 17.10)."""

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.commands import BrokerRequest, Issued, StopReplicaRequest
from controller.core.events import BrokerResponded
from controller.core.state_machines import ReplicaState
from tests.controller.core.cluster import Cluster, writes_state
from tests.controller.core.endpoint import controlled_shutdown
from tests.controller.core.procedures.topics.deleting import (
    cluster_with_topic,
    deletes,
    left_of,
    logs,
    mark,
    mark_quietly,
    marked,
    slow_to_delete,
    states,
)
from tests.controller.core.procedures.znode_changes.log_dir_failures import announce, storage_errors

SUCCESSFUL = ReplicaState.DELETION_SUCCESSFUL
STARTED = ReplicaState.DELETION_STARTED
INELIGIBLE = ReplicaState.DELETION_INELIGIBLE
OFFLINE = ReplicaState.OFFLINE
ONLINE = ReplicaState.ONLINE


def waiting(cluster: Cluster) -> list[str]:
    return list(cluster.fold.controller.context.ineligible_for_deletion)


# Down at the start ------------------------------------------------------------------------------


def test_SU_13_live_brokers_delete_at_once_and_the_dead_one_after_its_return() -> None:
    cluster = cluster_with_topic()
    cluster.stop_broker(3)
    seen = cluster.seen()
    mark(cluster, "t")
    assert logs(cluster, "t") == {3: [0]}
    assert marked(cluster) == ("t",)
    assert states(cluster, "t") == {1: SUCCESSFUL, 2: SUCCESSFUL, 3: OFFLINE}
    assert waiting(cluster) == ["t"]
    assert seen.texts_of("topic_deletion_waits") == [
        "the deletion of t waits: some of its replicas are offline"
    ]
    seen = cluster.seen()
    cluster.start_broker(3)
    assert left_of(cluster, "t") == []
    assert seen.notices() == []
    stopped = [request for request in seen.requests(3) if request.startswith("StopReplica")]
    assert stopped == ["StopReplica v4; t-0 e -2", "StopReplica v4; t-0 e -2 delete"]
    assert not any("StopReplica" in kind for kind in seen.kinds(1))


def test_SU_14_marker_is_kept_by_a_new_controller() -> None:
    cluster = cluster_with_topic()
    cluster.stop_broker(3)
    mark(cluster, "t")
    cluster.expire()
    assert marked(cluster) == ("t",)
    assert waiting(cluster) == ["t"]
    cluster.start_broker(3)
    assert left_of(cluster, "t") == []


@pytest.mark.parametrize("failover", [False, True])
def test_SU_22_topic_that_has_lost_a_partition_is_deleted(failover: bool) -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2], 1: [2, 1]})
    cluster.stop_broker(1)
    cluster.stop_broker(2)
    cluster.remove_quietly(znodes.partition_path("t", 0))
    mark_quietly(cluster, "t")
    if failover:
        cluster.expire()
    else:
        cluster.run()
    assert marked(cluster) == ("t",)
    cluster.start_broker(1)
    cluster.start_broker(2)
    assert left_of(cluster, "t") == []


def test_broker_without_replicas_does_not_start_a_waiting_deletion() -> None:
    """KB 8.2.5."""
    cluster = cluster_with_topic()
    cluster.stop_broker(3)
    mark(cluster, "t")
    seen = cluster.seen()
    cluster.start_broker(4)
    assert waiting(cluster) == ["t"]
    assert seen.texts_of("topic_deletion_waits") == []
    assert not any("t-0" in request for request in seen.requests(1) + seen.requests(4))


def test_each_of_two_returning_brokers_deletes_its_replicas() -> None:
    cluster = cluster_with_topic()
    cluster.stop_broker(2)
    cluster.stop_broker(3)
    mark(cluster, "t")
    cluster.start_broker(2)
    assert states(cluster, "t") == {1: SUCCESSFUL, 2: SUCCESSFUL, 3: OFFLINE}
    assert waiting(cluster) == ["t"]
    assert logs(cluster, "t") == {3: [0]}
    cluster.start_broker(3)
    assert left_of(cluster, "t") == []


def test_waiting_topic_does_not_delay_another() -> None:
    cluster = cluster_with_topic()
    cluster.create_topic("u", {0: [1, 2]})
    cluster.stop_broker(3)
    mark(cluster, "t")
    mark(cluster, "u")
    assert left_of(cluster, "u") == []
    assert marked(cluster) == ("t",)


# Failures during the deletion -------------------------------------------------------------------


def test_broker_that_dies_before_its_answer_makes_the_topic_wait() -> None:
    cluster = cluster_with_topic()
    slow_to_delete(cluster, 2, 3)
    mark(cluster, "t")
    cluster.stop_broker(3)
    assert states(cluster, "t") == {1: SUCCESSFUL, 2: STARTED, 3: INELIGIBLE}
    assert waiting(cluster) == ["t"]
    cluster.answer_slow()
    assert states(cluster, "t") == {1: SUCCESSFUL, 2: SUCCESSFUL, 3: OFFLINE}
    cluster.start_broker(3)
    cluster.answer_slow()
    assert left_of(cluster, "t") == []


def test_returned_broker_waits_for_those_still_deleting() -> None:
    """KB 8.6: no retry while a replica is in DeletionStarted."""
    cluster = cluster_with_topic()
    slow_to_delete(cluster, 2, 3)
    mark(cluster, "t")
    cluster.stop_broker(3)
    seen = cluster.seen()
    cluster.start_broker(3)
    assert waiting(cluster) == []
    # KB 9.1 step 4: brought online like every replica of a registering broker.
    assert states(cluster, "t") == {1: SUCCESSFUL, 2: STARTED, 3: ONLINE}
    assert "LeaderAndIsr" in seen.kinds(3)
    assert "StopReplica" not in seen.kinds(3)
    cluster.answer_slow()
    assert states(cluster, "t")[3] is STARTED
    cluster.answer_slow()
    assert left_of(cluster, "t") == []


def test_broker_restarted_before_its_answer_gets_the_request_again() -> None:
    cluster = cluster_with_topic()
    slow_to_delete(cluster, 3)
    mark(cluster, "t")
    seen = cluster.seen()
    cluster.bounce(3)
    assert seen.requests(3)[-2:] == ["StopReplica v4; t-0 e -2", "StopReplica v4; t-0 e -2 delete"]
    cluster.answer_slow()
    assert left_of(cluster, "t") == []


def test_broker_restarted_after_its_answer_gets_no_second_request() -> None:
    cluster = cluster_with_topic()
    slow_to_delete(cluster, 3)
    mark(cluster, "t")
    cluster.is_slow = lambda request: False
    seen = cluster.seen()
    cluster.bounce(1)
    assert "StopReplica" not in seen.kinds(1)
    assert logs(cluster, "t") == {}
    cluster.answer_slow()
    assert left_of(cluster, "t") == []


def test_death_of_a_broker_with_only_queued_topics_is_sent_to_the_live_brokers() -> None:
    """KB 9.3 step 6."""
    cluster = cluster_with_topic()
    slow_to_delete(cluster, 1, 2, 3)
    mark(cluster, "t")
    seen = cluster.seen()
    cluster.stop_broker(3)
    assert seen.requested() == {
        1: ["UpdateMetadata v8; live [1,2]"],
        2: ["UpdateMetadata v8; live [1,2]"],
    }


def test_broker_in_controlled_shutdown_counts_as_offline() -> None:
    cluster = cluster_with_topic()
    controlled_shutdown(cluster, 3)
    mark(cluster, "t")
    assert waiting(cluster) == ["t"]
    assert states(cluster, "t") == {1: SUCCESSFUL, 2: SUCCESSFUL, 3: OFFLINE}
    assert logs(cluster, "t") == {3: [0]}
    cluster.stop_broker(3)
    cluster.start_broker(3)
    assert left_of(cluster, "t") == []


def test_leader_in_controlled_shutdown_counts_as_offline() -> None:
    """Its replica is still Online and cannot become DeletionIneligible. It is deleted later."""
    cluster = cluster_with_topic()
    controlled_shutdown(cluster, 1)
    mark(cluster, "t")
    assert waiting(cluster) == ["t"]
    assert states(cluster, "t") == {1: ONLINE, 2: SUCCESSFUL, 3: SUCCESSFUL}
    cluster.stop_broker(1)
    cluster.start_broker(1)
    assert left_of(cluster, "t") == []


def test_controlled_shutdown_during_the_deletion_changes_nothing() -> None:
    cluster = cluster_with_topic()
    slow_to_delete(cluster, 3)
    mark(cluster, "t")
    answer = controlled_shutdown(cluster, 3)
    assert (answer.error, answer.remaining) == (codes.NONE, ())
    assert states(cluster, "t")[3] is STARTED
    cluster.answer_slow()
    assert left_of(cluster, "t") == []


def test_deletion_requested_while_one_broker_starts_and_another_is_dead() -> None:
    """KB 3.3.7: while the new broker is handled, the dead one counts as live and gets the
    request."""
    cluster = cluster_with_topic()
    cluster.stop_broker(3)
    mark(cluster, "t")
    cluster.unregister(2)
    cluster.register(3)
    cluster.run()
    assert logs(cluster, "t") == {}
    assert left_of(cluster, "t") == []


def test_dead_broker_gets_the_request_after_its_return() -> None:
    cluster = cluster_with_topic()
    cluster.stop_broker(2)
    cluster.stop_broker(3)
    mark(cluster, "t")
    cluster.start_broker(2)
    cluster.unregister(1)
    cluster.register(3)
    cluster.run()
    assert left_of(cluster, "t") == []
    cluster.start_broker(1)
    assert left_of(cluster, "t") == []


# Answers of brokers -----------------------------------------------------------------------------


def failing(cluster: Cluster, broker: int, *numbers: int) -> None:
    """The broker fails to delete these partitions of t, because their log directory has failed."""

    def errors(request: BrokerRequest) -> list[tuple[str, int, int]]:
        if request.broker != broker or not deletes(request):
            return []
        return [("t", number, codes.KAFKA_STORAGE_ERROR) for number in numbers]

    cluster.broker_errors = errors


def test_partition_that_cannot_be_deleted_makes_the_topic_wait() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2], 1: [2, 1]})
    failing(cluster, 2, 1)
    seen = cluster.seen()
    mark(cluster, "t")
    assert states(cluster, "t", 0) == {1: SUCCESSFUL, 2: SUCCESSFUL}
    assert states(cluster, "t", 1) == {1: SUCCESSFUL, 2: OFFLINE}
    assert waiting(cluster) == ["t"]
    assert logs(cluster, "t") == {2: [1]}
    assert seen.texts_of("topic_deletion_waits") == [
        "the deletion of t waits: some of its replicas could not be deleted"
    ]
    assert seen.notices() == []
    # Stopping is retried (KB 8.3 step 4), deleting only after a restart.
    assert [one for one in seen.requests(2) if "StopReplica" in one] == [
        "StopReplica v4; t-0 e -2; t-1 e -2",
        "StopReplica v4; t-0 e -2 delete; t-1 e -2 delete",
        "StopReplica v4; t-1 e -2",
    ]
    cluster.broker_errors = lambda request: []
    cluster.bounce(2)
    assert left_of(cluster, "t") == []


def test_partition_that_cannot_be_deleted_does_not_delay_another_topic() -> None:
    cluster = cluster_with_topic()
    cluster.create_topic("u", {0: [2, 3]})
    failing(cluster, 2, 0)
    mark(cluster, "t", "u")
    assert left_of(cluster, "u") == []
    assert marked(cluster) == ("t",)


def last_deletion(cluster: Cluster, broker: int) -> Issued:
    return [
        one
        for one in cluster.commands()
        if isinstance(one.command, StopReplicaRequest)
        and one.command.broker == broker
        and deletes(one.command)
    ][-1]


def answer_with(
    cluster: Cluster, broker: int, error: int, *partitions: tuple[str, int, int]
) -> None:
    """The broker answers its last deletion with this error."""
    asked = last_deletion(cluster, broker)
    epoch = cluster.broker_epoch(broker)
    cluster.happen(
        BrokerResponded(asked.id, broker, epoch, error, list(partitions)), f"broker:{broker}"
    )


def test_request_error_fails_the_listed_partitions() -> None:
    cluster = cluster_with_topic()
    slow_to_delete(cluster, 2)
    mark(cluster, "t")
    seen = cluster.seen()
    unknown = codes.UNKNOWN_SERVER_ERROR
    answer_with(cluster, 2, unknown, ("t", 0, unknown))
    assert states(cluster, "t")[2] is OFFLINE
    assert waiting(cluster) == ["t"]
    assert ("broker_error", "broker 2") in seen.notices()


def test_stale_broker_epoch_leaves_the_replica_in_deletion_until_the_broker_change() -> None:
    """KB 8.6: such a response lists no partitions."""
    cluster = cluster_with_topic()
    slow_to_delete(cluster, 2)
    mark(cluster, "t")
    answer_with(cluster, 2, codes.STALE_BROKER_EPOCH)
    assert states(cluster, "t")[2] is STARTED
    assert waiting(cluster) == []
    cluster.is_slow = lambda request: False
    cluster.bounce(2)
    assert left_of(cluster, "t") == []


def test_request_to_an_earlier_run_of_the_broker_deletes_nothing() -> None:
    """The broker has just restarted. The broker change follows the start of the deletion."""
    cluster = cluster_with_topic()

    def bounce_quietly() -> None:
        cluster.unregister(2)
        cluster.register(2)

    cluster.once(writes_state("t", 0), bounce_quietly)
    mark(cluster, "t")
    answers = [
        recorded.event
        for recorded, _ in cluster.history
        if isinstance(recorded.event, BrokerResponded)
    ]
    assert codes.STALE_BROKER_EPOCH in [one.error for one in answers]
    assert left_of(cluster, "t") == []


def test_answer_sent_before_the_broker_died_is_ignored() -> None:
    cluster = cluster_with_topic()
    slow_to_delete(cluster, 2, 3)
    mark(cluster, "t")
    asked, epoch = last_deletion(cluster, 3), cluster.broker_epoch(3)
    cluster.stop_broker(3)
    seen = cluster.seen()
    cluster.happen(BrokerResponded(asked.id, 3, epoch, 0, []), "broker:3")
    assert states(cluster, "t")[3] is INELIGIBLE
    assert seen.commands == []


def test_failed_log_directory_makes_the_topic_wait_like_a_dead_broker() -> None:
    cluster = cluster_with_topic()
    storage_errors(cluster, 3, ("t", 0))
    announce(cluster, b'{"version":1,"broker":3,"event":1}')
    mark(cluster, "t")
    assert logs(cluster, "t") == {3: [0]}
    assert waiting(cluster) == ["t"]
    storage_errors(cluster, 3)
    cluster.bounce(3)
    assert left_of(cluster, "t") == []
