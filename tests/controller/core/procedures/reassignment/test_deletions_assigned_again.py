"""Replica deletions that are pending when their replicas are assigned again (KB 7.7.1).

Most scenarios delete a topic and create it again. The broker rejects the new replica as long as it
has the log of the earlier topic, which has another topic id.
"""

import pytest

from controller.core import znodes
from controller.core.commands import BrokerRequest, LeaderAndIsrRequest, StopReplicaRequest
from controller.core.error_codes import KAFKA_STORAGE_ERROR, STALE_CONTROLLER_EPOCH
from controller.core.events import BrokerResponded
from controller.core.values import NO_EPOCH, Assignment
from controller.core.znodes import (
    DELETION_PREFIX,
    REPLICA_DELETIONS,
    ReplicaDeletion,
    TopicContent,
    deletion_path,
    write_deletion,
)
from replay.world.messages import PartitionError
from tests.controller.core.cluster import Cluster, Seen, reads, writes_state
from tests.controller.core.procedures.reassignment.dropping import (
    ask_for_deletion,
    pending,
    stopped,
)
from tests.controller.core.procedures.reassignment.interrupting import (
    WriteRejectingCluster,
    cancel_all,
    remove_cancel,
    submit,
)
from tests.controller.core.procedures.reassignment.reassigning import T0, catch_up
from tests.controller.core.procedures.topics.deleting import mark
from tests.controller.core.procedures.znode_changes.log_dir_failures import storage_errors


def created_again() -> Cluster:
    """t-0 moves away from broker 2, which is dead. The topic is deleted, and created again with a
    replica on broker 2."""
    cluster = Cluster(1, 2, 3, kip_236_enable=True).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.stop_broker(2)
    submit(cluster, {T0: [1, 3]})
    catch_up(cluster, 3)
    mark(cluster, "t")
    assert cluster.data(znodes.topic_path("t")) is None
    cluster.create_topic("t", {0: [1, 2]})
    return cluster


def log_ids(cluster: Cluster) -> list[bytes | None]:
    """The topic ids of the logs of t-0 on brokers 1 and 2."""
    return [cluster.brokers[one].logs[T0] for one in (1, 2)]


@pytest.mark.parametrize("failover", ["none", "before", "after"])
@pytest.mark.deviates("deletions-remembered")
def test_log_of_an_earlier_topic_is_deleted_when_the_topic_is_created_again(failover: str) -> None:
    cluster = created_again()
    seen = cluster.seen()
    if failover == "before":
        cluster.expire()
    cluster.start_broker(2)
    if failover == "after":
        cluster.expire()
    assert log_ids(cluster) == [cluster.topic("t").topic_id] * 2
    assert stopped(seen, 2) == [T0]
    assert pending(cluster) == []
    assert len(seen.texts_of("earlier_log_deleted")) == 1
    assert cluster.leadership("t", 0).leader_epoch == 0


def test_log_that_a_broker_cannot_delete_is_requested_once_until_it_registers_again() -> None:
    cluster = created_again()
    seen = cluster.seen()
    cluster.broker_errors = lambda request: (
        [(*T0, KAFKA_STORAGE_ERROR)] if isinstance(request, StopReplicaRequest) else []
    )
    cluster.start_broker(2)
    assert stopped(seen, 2) == [T0]
    assert pending(cluster) == [ReplicaDeletion(2, (T0,))]
    sent = len(seen.leader_and_isr(2))
    ask_for_deletion(cluster, 3, ("gone", 0))
    assert (stopped(seen, 2), len(seen.leader_and_isr(2))) == ([T0], sent)
    cluster.broker_errors = lambda request: []
    cluster.stop_broker(2)
    cluster.start_broker(2)
    assert stopped(seen, 2) == [T0, T0]
    assert log_ids(cluster) == [cluster.topic("t").topic_id] * 2
    assert pending(cluster) == []


def test_deletion_stays_while_the_broker_answers_with_a_storage_error() -> None:
    """Only an accepted replica shows that its log is not that of an earlier topic."""
    cluster = created_again()
    storage_errors(cluster, 2, T0)
    cluster.start_broker(2)
    assert pending(cluster) == [ReplicaDeletion(2, (T0,))]


def late_answer(cluster: Cluster, seen: Seen, broker: int) -> BrokerResponded:
    """The broker's response to its first LeaderAndIsr request."""
    [first, *_] = [
        one
        for _, issued in seen.history
        for one in issued
        if isinstance(one.command, LeaderAndIsrRequest) and one.command.broker == broker
    ]
    return BrokerResponded(first.id, broker, cluster.broker_epoch(broker), 0, [])


@pytest.mark.parametrize("protocol", ["3.9", "2.7"])
def test_late_answer_about_the_earlier_topic_does_not_drop_the_deletion(protocol: str) -> None:
    """Found by refold explore: the broker still had to delete the log when the controller ended."""
    cluster = Cluster(1, 2, 3, inter_broker_protocol_version=protocol, kip_236_enable=True).start()
    cluster.create_topic("t", {0: [1, 2]})
    seen = cluster.seen()
    cluster.is_slow = lambda request: request.broker == 3
    submit(cluster, {T0: [1, 3]})
    cancel_all(cluster)
    remove_cancel(cluster)
    mark(cluster, "t")
    cluster.create_topic("t", {0: [1, 3]})
    cluster.happen(late_answer(cluster, seen, 3), "broker:3")
    assert pending(cluster) == [ReplicaDeletion(3, (T0,))]
    assert not seen.texts_of("deletion_dropped")


def deleted_before_an_answer(protocol: str = "3.9") -> tuple[Cluster, BrokerResponded]:
    """t-0 moves away from broker 3, and the topic is deleted. Broker 3 has answered nothing.
    Returns its first response, too."""
    cluster = Cluster(1, 2, 3, inter_broker_protocol_version=protocol, kip_236_enable=True).start()
    cluster.is_slow = lambda request: request.broker == 3
    seen = cluster.seen()
    cluster.create_topic("t", {0: [1, 3]})
    answer = late_answer(cluster, seen, 3)
    submit(cluster, {T0: [1, 2]})
    catch_up(cluster, 2)
    assert pending(cluster) == [ReplicaDeletion(3, (T0,))]
    mark(cluster, "t")
    return cluster, answer


def test_late_answer_with_the_leader_epoch_of_the_new_topic_is_known_by_its_topic_id() -> None:
    cluster, answer = deleted_before_an_answer()
    cluster.create_topic("t", {0: [1, 3]})
    assert cluster.leadership("t", 0).leader_epoch == 0
    cluster.happen(answer, "broker:3")
    assert pending(cluster) == [ReplicaDeletion(3, (T0,))]
    cluster.answer_slow()
    assert pending(cluster) == []


@pytest.mark.parametrize("protocol", ["3.9", "2.7"])
def test_late_answer_about_the_earlier_topic_before_the_new_one_has_a_leader_does_not_count(
    protocol: str,
) -> None:
    cluster, answer = deleted_before_an_answer(protocol)
    cluster.once(writes_state("t", 0), lambda: cluster.happen_next(answer, "broker:3"))
    cluster.create_topic("t", {0: [1, 3]})
    assert pending(cluster) == [ReplicaDeletion(3, (T0,))]


def test_below_2_8_an_answer_about_a_topic_with_an_id_has_its_leader_epoch() -> None:
    """The id is from before a downgrade. Requests have none."""
    cluster = Cluster(1, 2, 3, inter_broker_protocol_version="2.7", kip_236_enable=True).start()
    content = TopicContent({0: Assignment((1, 2))}, bytes(15) + b"\1")
    cluster.put(znodes.topic_path("t"), znodes.write_topic(content))
    cluster.put(deletion_path("1_1"), write_deletion(ReplicaDeletion(2, (T0,))))
    assert pending(cluster) == []


def test_request_to_delete_an_earlier_log_has_no_leader_epoch() -> None:
    """The log's leader epoch may be higher than that of the new topic."""
    cluster = created_again()
    seen = cluster.seen()
    cluster.start_broker(2)
    [request] = [one for one in seen.broker_requests() if isinstance(one, StopReplicaRequest)]
    assert [one.leader_epoch for one in request.partitions] == [NO_EPOCH]


# Without topic ids, below IBP 2.8 -----------------------------------------------------------------


def refuses_until_deleted(cluster: Cluster) -> None:
    """Broker 2 has a log of t-0 with a higher leader epoch, until it is asked to delete it."""

    def errors(request: BrokerRequest) -> list[PartitionError]:
        if isinstance(request, StopReplicaRequest):
            cluster.broker_errors = lambda request: []
        is_refused = isinstance(request, LeaderAndIsrRequest) and request.broker == 2
        return [(*T0, STALE_CONTROLLER_EPOCH)] if is_refused else []

    cluster.broker_errors = errors


def test_without_topic_ids_a_refused_replica_outside_of_the_isr_is_deleted_first() -> None:
    """Found by refold explore."""
    cluster = Cluster(1, inter_broker_protocol_version="2.7", kip_236_enable=True).start()
    cluster.put(deletion_path("1_1"), write_deletion(ReplicaDeletion(2, (T0,))))
    cluster.create_topic("t", {0: [1, 2]})
    before = cluster.leadership("t", 0)
    seen = cluster.seen()
    refuses_until_deleted(cluster)
    cluster.start_broker(2)
    assert stopped(seen, 2) == [T0]
    assert pending(cluster) == []
    assert len(seen.texts_of("earlier_log_deleted")) == 1
    kinds = seen.kinds(2)
    assert "LeaderAndIsr" in kinds[kinds.index("StopReplica") :]
    # The leader cannot add the replica meanwhile: it has another leader epoch than the replica.
    after = cluster.leadership("t", 0)
    assert (after.isr, after.leader_epoch) == (before.isr, before.leader_epoch + 1)
    sent = [each.leadership for one in seen.leader_and_isr(1) for each in one.partitions]
    assert after.leader_epoch in [one.leader_epoch for one in sent]


def deleted_before() -> WriteRejectingCluster:
    """A deletion of t-0 on broker 2 was recorded, then t-0 was created on 1 and 2; 2 is dead."""
    cluster = WriteRejectingCluster(1, inter_broker_protocol_version="2.7", kip_236_enable=True)
    cluster.start()
    cluster.put(deletion_path("1_1"), write_deletion(ReplicaDeletion(2, (T0,))))
    cluster.create_topic("t", {0: [1, 2]})
    return cluster


def test_without_topic_ids_an_accepted_replica_is_kept() -> None:
    cluster = deleted_before()
    seen = cluster.seen()
    cluster.start_broker(2)
    assert (stopped(seen, 2), pending(cluster)) == ([], [])
    assert len(seen.texts_of("deletion_dropped")) == 1
    assert len(seen.leader_and_isr(2)) == 1


def test_without_topic_ids_a_refused_replica_that_joins_the_isr_meanwhile_is_kept() -> None:
    cluster = deleted_before()
    seen = cluster.seen()
    refuses_until_deleted(cluster)
    cluster.once(writes_state(*T0), lambda: cluster.set_isr(*T0, (1, 2)))
    cluster.start_broker(2)
    assert cluster.leadership(*T0).isr == (1, 2)
    assert stopped(seen, 2) == []
    assert pending(cluster) == []


def test_without_topic_ids_a_replica_is_kept_if_its_leader_epoch_cannot_be_raised() -> None:
    cluster = deleted_before()
    seen = cluster.seen()
    refuses_until_deleted(cluster)
    cluster.refuses = writes_state(*T0)
    cluster.start_broker(2)
    assert stopped(seen, 2) == []


def test_without_topic_ids_a_replica_is_kept_if_its_record_is_gone() -> None:
    cluster = deleted_before()
    seen = cluster.seen()
    refuses_until_deleted(cluster)
    path = deletion_path("1_1")
    cluster.once(reads(path), lambda: cluster.remove_quietly(path))
    cluster.start_broker(2)
    assert stopped(seen, 2) == []


def test_without_topic_ids_a_refused_replica_of_the_first_isr_needs_no_new_leader_epoch() -> None:
    cluster = Cluster(1, 2, inter_broker_protocol_version="2.7", kip_236_enable=True).start()
    cluster.broker_errors = lambda request: (
        [(*T0, KAFKA_STORAGE_ERROR)] if isinstance(request, StopReplicaRequest) else []
    )
    cluster.put(deletion_path("1_1"), write_deletion(ReplicaDeletion(2, (T0,))))
    refuses_until_deleted(cluster)
    seen = cluster.seen()
    cluster.create_topic("t", {0: [1, 2]})
    assert cluster.state(*T0) == "leader 1 e 0 isr [1,2] v 0 ce 1"
    assert (stopped(seen, 2), pending(cluster)) == ([], [])


def test_without_topic_ids_a_refused_replica_of_the_same_topic_is_kept() -> None:
    """The broker may have rejected only a leader epoch that it knows, while the replica catches up.

    Found by refold explore.
    """
    cluster = Cluster(1, inter_broker_protocol_version="2.7", kip_236_enable=True).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.put(deletion_path("1_1"), write_deletion(ReplicaDeletion(2, (T0,))))
    seen = cluster.seen()
    refuses_until_deleted(cluster)
    cluster.start_broker(2)
    assert stopped(seen, 2) == []
    assert seen.texts_of("deletion_dropped") == ["t-0: not deleted, because broker 2 is a replica"]
    assert pending(cluster) == []


def test_without_topic_ids_a_refused_replica_in_the_isr_is_kept() -> None:
    """The broker may have refused only a leader epoch that it knows."""
    cluster = Cluster(1, 2, inter_broker_protocol_version="2.7", kip_236_enable=True).start()
    cluster.create_topic("t", {0: [1, 2]})
    seen = cluster.seen()
    refuses_until_deleted(cluster)
    cluster.put(deletion_path("1_1"), write_deletion(ReplicaDeletion(2, (T0,))))
    assert stopped(seen, 2) == []
    assert seen.texts_of("deletion_dropped") == ["t-0: not deleted, because broker 2 is a replica"]
    assert pending(cluster) == []


def test_only_replicas_assigned_again_are_removed_from_a_record() -> None:
    cluster = Cluster(1, 2, 3, 4, kip_236_enable=True).start()
    cluster.create_topic("t", {0: [1], 1: [2]})
    submit(cluster, {T0: [4], ("t", 1): [4]})
    cluster.stop_broker(4)
    cancel_all(cluster)
    remove_cancel(cluster)
    submit(cluster, {T0: [4]})
    seen = cluster.seen()
    cluster.start_broker(4)
    assert stopped(seen, 4) == [("t", 1)]
    assert pending(cluster) == []


# Records that clients delete --------------------------------------------------------------------


def test_parent_that_a_client_deletes_is_created_and_watched_again() -> None:
    cluster = Cluster(1, 2, kip_236_enable=True).start()
    cluster.create_topic("t", {0: [1]})
    cluster.remove(REPLICA_DELETIONS)
    seen = cluster.seen()
    ask_for_deletion(cluster, 2, T0)
    assert stopped(seen, 2) == [T0]


def test_record_that_a_client_deletes_before_it_is_read_is_ignored() -> None:
    cluster = Cluster(1, 2, kip_236_enable=True).start()
    cluster.create_topic("t", {0: [1]})
    path = f"{DELETION_PREFIX}0000000000"
    cluster.once(reads(path), lambda: cluster.remove_quietly(path))
    seen = cluster.seen()
    ask_for_deletion(cluster, 2, T0)
    assert (seen.notices(), stopped(seen, 2), pending(cluster)) == ([], [], [])
