"""Which responses of brokers confirm a recorded deletion of a replica, and which replicas are
deleted that are assigned again (KB 7.7.1)."""

from collections.abc import Callable

import pytest

from controller.core import znodes
from controller.core.commands import (
    BrokerRequest,
    CommandId,
    Issued,
    LeaderAndIsrRequest,
    ReadZnodes,
    StopReplicaRequest,
    WriteZnodes,
    ZooKeeperCommand,
)
from controller.core.error_codes import (
    INCONSISTENT_TOPIC_ID,
    KAFKA_STORAGE_ERROR,
    STALE_CONTROLLER_EPOCH,
)
from controller.core.events import BrokerResponded, TimerFired, ZnodesWritten
from controller.core.operations import NO_AUTH, OK, Create
from controller.core.procedures.reassignment.replica_deletion import TIMER
from controller.core.znodes import (
    REPLICA_DELETIONS,
    ReplicaDeletion,
    deletion_path,
    write_deletion,
)
from replay.world.messages import PartitionError
from replay.world.outcomes import ZooKeeperOutcome
from tests.controller.core.cluster import Cluster, by_rule
from tests.controller.core.procedures.reassignment.dropping import (
    ask_for_deletion,
    dead_target,
    deletions,
    known_deletions,
    let_time_pass,
    pending,
    recorded,
    stopped,
)
from tests.controller.core.procedures.reassignment.interrupting import (
    WriteRejectingCluster,
    cancel_all,
    half_way,
    submit,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    T1,
    Name,
    ask,
    assert_no_failures,
    catch_up,
)
from tests.controller.core.procedures.topics.deleting import mark

Errors = Callable[[BrokerRequest], list[PartitionError]]


def kip_236(*brokers: int, **settings: str) -> Cluster:
    """A cluster of these brokers."""
    return Cluster(*brokers, kip_236_enable=True, **settings).start()


def put_record(cluster: Cluster, broker: int, *names: tuple[str, int]) -> None:
    """Another controller has recorded a deletion."""
    cluster.put(deletion_path("1_1"), write_deletion(ReplicaDeletion(broker, names)))


def fails(name: tuple[str, int]) -> Errors:
    """Brokers cannot delete the log of a partition."""
    return lambda request: (
        [(*name, KAFKA_STORAGE_ERROR)] if isinstance(request, StopReplicaRequest) else []
    )


# Confirmations ----------------------------------------------------------------------------------


def test_record_stays_until_the_last_of_its_replicas_is_deleted() -> None:
    cluster = kip_236(1, 2, 3, 4)
    cluster.create_topic("t", {0: [1], 1: [2]})
    submit(cluster, {T0: [4], T1: [4]})
    cluster.stop_broker(4)
    cancel_all(cluster)
    cluster.broker_errors = fails(T1)
    seen = cluster.seen()
    cluster.start_broker(4)
    assert seen.texts_of("replicas_deleted") == []
    assert list(known_deletions(cluster).values()) == [ReplicaDeletion(4, (T1,))]
    assert pending(cluster) == [ReplicaDeletion(4, (T0, T1))]
    cluster.broker_errors = lambda request: []
    seen = cluster.seen()
    cluster.bounce(4)
    assert stopped(seen, 4) == [T1]
    assert pending(cluster) == []


def test_broker_that_registers_does_not_repeat_the_requests_of_others() -> None:
    cluster = dead_target()
    cluster.is_slow = lambda request: request.broker == 5
    ask_for_deletion(cluster, 5, ("gone", 0))
    seen = cluster.seen()
    cluster.start_broker(6)
    assert stopped(seen, 6) == [T0]
    assert stopped(seen, 5) == []


def test_replica_that_two_records_name_is_requested_once_from_its_broker() -> None:
    cluster = kip_236(1, 4)
    cluster.create_topic("t", {0: [1]})
    cluster.stop_broker(4)
    ask_for_deletion(cluster, 4, T0)
    ask_for_deletion(cluster, 4, T0)
    seen = cluster.seen()
    cluster.start_broker(4)
    assert stopped(seen, 4) == [T0]
    assert pending(cluster) == []


def test_record_of_a_confirmed_deletion_that_cannot_be_deleted_is_reported() -> None:
    cluster = unanswered()
    drop_from_4(cluster, T0)
    [child] = deletions(cluster)
    cluster.refuses = lambda issued: issued.reason.rule == "replica deletions"
    seen = cluster.seen()
    cluster.answer_slow()
    assert ("deletion_not_removed", deletion_path(child)) in seen.notices()
    assert seen.texts_of("deletion_not_removed") == [
        "the deletion is confirmed, but the znode cannot be deleted (ZooKeeper code -102): delete "
        "the znode"
    ]


def test_deletion_whose_record_could_not_be_deleted_is_requested_again_with_the_next() -> None:
    cluster = unanswered()
    drop_from_4(cluster, T0)
    cluster.refuses = lambda issued: issued.reason.rule == "replica deletions"
    cluster.answer_slow()
    cluster.refuses = lambda issued: False
    seen = cluster.seen()
    ask_for_deletion(cluster, 4, ("gone", 0))
    cluster.answer_slow()
    assert set(stopped(seen, 4)) == {T0, ("gone", 0)}
    assert pending(cluster) == []


def test_record_of_a_confirmed_deletion_that_a_client_has_deleted_is_not_reported() -> None:
    cluster = unanswered()
    drop_from_4(cluster, T0)
    [child] = deletions(cluster)
    cluster.once(
        by_rule(WriteZnodes, "replica deletions"),
        lambda: cluster.remove_quietly(deletion_path(child)),
    )
    seen = cluster.seen()
    cluster.answer_slow()
    assert pending(cluster) == []
    assert seen.texts_of("deletion_not_removed") == []


class PartlyRejectingCluster(Cluster):
    """A cluster whose ZooKeeper writes the first of several records, and no other."""

    def ask_zookeeper(self, issued: Issued, command: ZooKeeperCommand) -> list[ZooKeeperOutcome]:
        count = len(command.operations) if isinstance(command, WriteZnodes) else 0
        if count > 1 and issued.reason.rule == "replica deletions":
            errors = [OK, *[NO_AUTH] * (count - 1)]
            return [ZnodesWritten(issued.id, 0, errors, [0] * count)]
        return super().ask_zookeeper(issued, command)


def test_deletions_of_which_one_cannot_be_recorded_are_not_requested() -> None:
    cluster = PartlyRejectingCluster(*range(1, 7), kip_236_enable=True)
    cluster.start()
    cluster.create_topic("t", {0: [1, 2, 3]})
    submit(cluster, {T0: [4, 5, 6]})
    seen = cluster.seen()
    cancel_all(cluster)
    assert [stopped(seen, one) for one in (4, 5, 6)] == [[], [], []]


# Records that are not stored yet ------------------------------------------------------------------


def drop_from_4(cluster: Cluster, name: Name) -> None:
    """A partition is to move to broker 4, and the move is cancelled by the API."""
    ask(cluster, (name, [4]))
    ask(cluster, (name, None))


def confirm_when(cluster: Cluster, which: Callable[[Issued], bool], asked: CommandId) -> None:
    """Broker 4 confirms a deletion just before a command."""
    answer = BrokerResponded(asked, 4, cluster.broker_epoch(4), 0, [])
    cluster.once(which, lambda: cluster.happen_next(answer, "broker:4"))


def deletion_request(cluster: Cluster) -> CommandId:
    """The last request to broker 4 to delete replicas."""
    [*_, last] = [
        one.id
        for one in cluster.commands()
        if isinstance(one.command, StopReplicaRequest) and one.command.broker == 4
    ]
    return last


def unanswered() -> WriteRejectingCluster:
    """Broker 4 does not answer the requests to delete replicas."""
    cluster = WriteRejectingCluster(1, 2, 3, 4, kip_236_enable=True)
    cluster.start()
    cluster.create_topic("t", {0: [1], 1: [2]})
    cluster.is_slow = lambda request: (
        isinstance(request, StopReplicaRequest) and request.broker == 4
    )
    return cluster


def unrecorded() -> tuple[WriteRejectingCluster, CommandId]:
    """As `unanswered`. Broker 4 was asked to delete t-0, and a client has removed the record. t-0
    was to be deleted again, which could not be recorded, so that its move continues; broker 4 has
    not answered this either. Returns the first request, too."""
    cluster = unanswered()
    cluster.is_slow = lambda request: request.broker == 4
    drop_from_4(cluster, T0)
    asked = deletion_request(cluster)
    [child] = deletions(cluster)
    cluster.remove(deletion_path(child))
    cluster.refuses = lambda issued: issued.reason.rule == "replica deletions"
    drop_from_4(cluster, T0)
    cluster.refuses = lambda issued: False
    return cluster, asked


def test_deletion_confirmed_while_another_is_recorded_is_not_requested_again() -> None:
    cluster = unanswered()
    drop_from_4(cluster, T0)
    confirm_when(cluster, by_rule(WriteZnodes, "replica deletions"), deletion_request(cluster))
    seen = cluster.seen()
    drop_from_4(cluster, T1)
    assert stopped(seen, 4) == [T1]
    assert pending(cluster) == [ReplicaDeletion(4, (T1,))]


def test_deletion_confirmed_before_it_is_recorded_gets_no_record() -> None:
    cluster, asked = unrecorded()
    ask(cluster, (T1, [4]))
    confirm_when(cluster, lambda issued: isinstance(issued.command, ReadZnodes), asked)
    seen = cluster.seen()
    ask(cluster, (T1, None))
    created = [one.data for one in seen.writes() if isinstance(one, Create)]
    assert created == [write_deletion(ReplicaDeletion(4, (T1,)))]


def test_deletion_that_could_not_be_recorded_is_recorded_with_the_next_one() -> None:
    """Another deletion is confirmed in between."""
    cluster, _ = unrecorded()
    ask_for_deletion(cluster, 3, ("gone", 0))
    drop_from_4(cluster, T1)
    assert pending(cluster) == [ReplicaDeletion(4, (T0,)), ReplicaDeletion(4, (T1,))]


def test_deletion_that_could_not_be_recorded_is_forgotten_when_the_broker_has_the_replica() -> None:
    """The reassignment to the broker continues."""
    cluster, _ = unrecorded()
    assert 4 in cluster.topic("t").assignments[0].adding
    cluster.answer_slow()
    drop_from_4(cluster, T1)
    assert recorded(cluster) == {(4, T1)}


def test_parent_of_the_records_that_a_client_deletes_is_created_again() -> None:
    cluster = unanswered()
    cluster.once(
        by_rule(WriteZnodes, "replica deletions"), lambda: cluster.remove_quietly(REPLICA_DELETIONS)
    )
    drop_from_4(cluster, T0)
    assert pending(cluster) == [ReplicaDeletion(4, (T0,))]
    assert_no_failures(cluster)


def test_deletion_that_a_client_has_requested_and_no_broker_confirms_is_reported() -> None:
    cluster = unanswered()
    seen = cluster.seen()
    ask_for_deletion(cluster, 4, ("gone", 0))
    let_time_pass(cluster)
    [text] = seen.texts_of("replicas_not_deleted")
    assert "has not confirmed the deletion" in text


# Replicas that are assigned again -----------------------------------------------------------------


def test_replica_of_a_topic_that_is_being_deleted_is_not_offered_to_its_broker() -> None:
    """A LeaderAndIsr request would create the log again."""
    cluster = kip_236(1, 2, 3)
    cluster.create_topic("t", {0: [1, 2, 3]})
    cluster.stop_broker(3)
    mark(cluster, "t")
    seen = cluster.seen()
    put_record(cluster, 2, T0)
    assert seen.leader_and_isr(2) == []
    cluster.start_broker(3)
    assert cluster.data(znodes.topic_path("t")) is None


def test_deletion_of_a_replica_without_a_leader_waits() -> None:
    cluster = kip_236(1)
    cluster.create_topic("t", {0: [2]})
    put_record(cluster, 2, T0)
    assert pending(cluster) == [ReplicaDeletion(2, (T0,))]
    assert_no_failures(cluster)


def test_requested_deletion_of_an_assigned_replica_is_dropped_while_its_broker_is_dead() -> None:
    cluster = kip_236(1, 2)
    cluster.create_topic("t", {0: [1, 2]})
    cluster.stop_broker(2)
    seen = cluster.seen()
    ask_for_deletion(cluster, 2, T0)
    assert pending(cluster) == []
    assert seen.texts_of("deletion_dropped") == ["t-0: not deleted, because broker 2 is a replica"]


def test_requested_deletion_of_an_earlier_log_stays_until_it_is_confirmed() -> None:
    """Broker 2 has the log of an earlier topic, and is a replica of the present one."""
    cluster = kip_236(1, 2, 3)
    cluster.create_topic("t", {0: [1, 2]})
    cluster.stop_broker(2)
    submit(cluster, {T0: [1, 3]})
    catch_up(cluster, 3)
    for child in list(cluster.fold.controller.context.deletions):
        cluster.remove(deletion_path(child))
    ask_for_deletion(cluster, 2, T0)
    mark(cluster, "t")
    cluster.create_topic("t", {0: [1, 2]})
    cluster.broker_errors = fails(T0)
    seen = cluster.seen()
    cluster.start_broker(2)
    assert stopped(seen, 2) == [T0]
    assert pending(cluster) == [ReplicaDeletion(2, (T0,))]
    ask_for_deletion(cluster, 3, ("gone", 0))
    sent = len(seen.leader_and_isr(2))
    ask_for_deletion(cluster, 3, ("gone", 1))
    assert len(seen.leader_and_isr(2)) == sent


@pytest.mark.parametrize("last_is_refused", [False, True])
def test_last_of_two_answers_decides_about_a_replica(last_is_refused: bool) -> None:
    """Both arrive before the controller reads the records."""
    cluster = kip_236(1, 2, 3)
    cluster.create_topic("t", {0: [1, 2]})
    cluster.is_slow = lambda request: isinstance(request, LeaderAndIsrRequest)
    put_record(cluster, 2, T0)
    ask_for_deletion(cluster, 3, ("gone", 0))
    *_, first, second = [
        one.id
        for one in cluster.commands()
        if isinstance(one.command, LeaderAndIsrRequest) and one.command.broker == 2
    ]
    refused = [(*T0, INCONSISTENT_TOPIC_ID)]
    epoch = cluster.broker_epoch(2)
    seen = cluster.seen()
    one = BrokerResponded(first, 2, epoch, 0, [] if last_is_refused else refused)
    cluster.happen_next(one, "broker:2")
    one = BrokerResponded(second, 2, epoch, 0, refused if last_is_refused else [])
    cluster.happen(one, "broker:2")
    assert stopped(seen, 2) == ([T0] if last_is_refused else [])
    assert len(seen.texts_of("deletion_dropped")) == (0 if last_is_refused else 1)
    assert seen.notices() == []
    assert pending(cluster) == []


@pytest.mark.parametrize("are_refused", [False, True])
def test_answer_about_several_replicas_decides_about_each(are_refused: bool) -> None:
    cluster = kip_236(1, 2)
    cluster.create_topic("t", {0: [1, 2], 1: [1, 2]})
    cluster.is_slow = lambda request: isinstance(request, LeaderAndIsrRequest)
    put_record(cluster, 2, T0, T1)
    [*_, asked] = [
        one.id
        for one in cluster.commands()
        if isinstance(one.command, LeaderAndIsrRequest) and one.command.broker == 2
    ]
    errors = [(*name, INCONSISTENT_TOPIC_ID) for name in (T0, T1)] if are_refused else []
    seen = cluster.seen()
    answer = BrokerResponded(asked, 2, cluster.broker_epoch(2), 0, errors)
    cluster.happen(answer, "broker:2")
    assert stopped(seen, 2) == ([T0, T1] if are_refused else [])
    assert len(seen.texts_of("deletion_dropped")) == (0 if are_refused else 1)
    assert pending(cluster) == []


def test_below_ibp_2_8_answers_name_a_topic_that_has_an_id() -> None:
    """The id is from a time with a later version."""
    cluster = kip_236(1, inter_broker_protocol_version="2.7")
    put_record(cluster, 2, T0)
    cluster.create_topic("t", {0: [1, 2]}, topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
    refused = [True]

    def errors(request: BrokerRequest) -> list[PartitionError]:
        if isinstance(request, StopReplicaRequest):
            refused.clear()
        is_asked = isinstance(request, LeaderAndIsrRequest) and request.broker == 2
        return [(*T0, STALE_CONTROLLER_EPOCH)] if is_asked and refused else []

    cluster.broker_errors = errors
    seen = cluster.seen()
    cluster.start_broker(2)
    assert stopped(seen, 2) == [T0]


def test_broker_that_confirms_while_its_report_is_queued_is_not_reported() -> None:
    """The controller is creating a topic meanwhile."""
    cluster = half_way(4)
    cluster.is_slow = lambda one: one.broker == 6 and isinstance(one, StopReplicaRequest)
    cancel_all(cluster)
    cluster.fire(TIMER)
    seen = cluster.seen()
    cluster.change_topic_quietly("u", {0: [1]})
    cluster.happen_next(TimerFired(TIMER), f"timer:{TIMER}")
    cluster.answer_slow()
    assert pending(cluster) == []
    assert seen.notices() == []
