"""How a leader changes the ISR: AlterPartition, or a write to ZooKeeper."""

from collections.abc import Callable

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.api_requests import ApiRequest, ApiResponse
from controller.core.api_requests.alter_partition import (
    AlterPartitionReceived,
    AlterPartitionResponse,
)
from controller.core.operations import Create, SetData
from controller.core.values import ANY_VERSION, NO_EPOCH, NO_LEADER, LeaderAndIsr
from replay.world.observer import Name
from replay.world.requests import Multi
from tests.replay.world.broker.manual_cluster import T0, T1, TOPIC_ID, ManualCluster, refuse

Respond = Callable[[ApiRequest], ApiResponse | None]


def leading_alone(answer: Respond | None = None) -> ManualCluster:
    """Broker 1 leads with itself as the ISR: the others are about to join."""
    cluster = ManualCluster().start()
    cluster.answer = answer or cluster.accept
    make_known(cluster, T0)
    cluster.lead(1, 0, isr=(1,))
    return cluster


def make_known(cluster: ManualCluster, *names: Name) -> None:
    """Put partitions into the metadata of all brokers, so that the first fetches succeed."""
    for name in names:
        cluster.states[name] = LeaderAndIsr(NO_LEADER, NO_EPOCH, (1,), 0, 1)
    cluster.update_metadata()


def requests(cluster: ManualCluster) -> list[AlterPartitionReceived]:
    return [one for one in cluster.requests if isinstance(one, AlterPartitionReceived)]


def test_request_has_the_broker_epoch_and_the_version_of_the_znode() -> None:
    cluster = leading_alone()
    cluster.run(1)
    first, second = requests(cluster)
    assert (first.version, first.broker, first.broker_epoch) == (
        3,
        1,
        cluster.seen.epochs["broker 1"][0],
    )
    (proposed,) = first.partitions
    assert (proposed.topic, proposed.leader_epoch, proposed.isr) == (TOPIC_ID.hex(), 0, (1, 2))
    assert proposed.partition_epoch == cluster.versions[T0]
    # The version of the response is that of the next request.
    assert second.partitions[0].partition_epoch == cluster.versions[T0] + 1


@pytest.mark.parametrize("error", [codes.OPERATION_NOT_ATTEMPTED, codes.INELIGIBLE_REPLICA])
def test_change_that_was_certainly_not_made_is_tried_again_at_the_next_fetch(error: int) -> None:
    cluster = leading_alone(refuse(error))
    cluster.run(3)
    assert len(requests(cluster)) >= 5
    assert cluster.partition(1).maximal_isr in ((1,), (1, 2), (1, 3))
    cluster.answer = cluster.accept
    cluster.run(2)
    assert sorted(cluster.partition(1).isr) == [1, 2, 3]


@pytest.mark.parametrize(
    "error",
    [
        codes.INVALID_UPDATE_VERSION,
        codes.FENCED_LEADER_EPOCH,
        codes.UNKNOWN_TOPIC_ID,
        codes.UNKNOWN_TOPIC_OR_PARTITION,
        codes.INVALID_REQUEST,
    ],
)
def test_leader_with_an_old_state_waits_for_a_new_one(error: int) -> None:
    cluster = leading_alone(refuse(error))
    cluster.run(60)
    assert len(requests(cluster)) == 1
    assert cluster.partition(1).pending is not None
    cluster.answer = cluster.accept
    cluster.lead(1, 1, isr=(1,))
    cluster.run(2)
    assert sorted(cluster.partition(1).isr) == [1, 2, 3]


@pytest.mark.parametrize("error", [codes.NOT_CONTROLLER, codes.UNKNOWN_SERVER_ERROR])
def test_further_errors_of_a_partition_are_tried_again(error: int) -> None:
    cluster = leading_alone(refuse(error))
    cluster.run(1)
    assert len(requests(cluster)) == pytest.approx(18, abs=4)
    cluster.answer = cluster.accept
    cluster.run(2)
    assert sorted(cluster.partition(1).isr) == [1, 2, 3]


@pytest.mark.parametrize("error", [codes.STALE_BROKER_EPOCH, codes.UNKNOWN_SERVER_ERROR])
def test_error_of_the_whole_request_sends_all_proposals_again(error: int) -> None:
    cluster = ManualCluster().start()
    cluster.answer = lambda request: AlterPartitionResponse(0, error)
    make_known(cluster, T0, T1)
    cluster.lead(1, 0, isr=(1,))
    cluster.lead(1, 0, isr=(1,), name=T1)
    cluster.run(1)
    assert len(requests(cluster)) == pytest.approx(19, abs=4)
    assert [one.partition for one in requests(cluster)[-1].partitions] == [0, 1]


def test_not_controller_makes_the_broker_look_for_another_controller() -> None:
    cluster = leading_alone(lambda request: AlterPartitionResponse(0, codes.NOT_CONTROLLER))
    cluster.run(1)
    assert len(requests(cluster)) == pytest.approx(18, abs=4)
    cluster.answer = cluster.accept
    cluster.run(1)
    assert sorted(cluster.partition(1).isr) == [1, 2, 3]


def test_request_waits_for_a_controller_that_cannot_be_reached() -> None:
    cluster = ManualCluster().start()
    cluster.network.cut("broker 1", "refold 100")
    cluster.lead(1, 0, isr=(1,), to=(2, 3))
    cluster.network.heal("broker 1", "refold 100")
    cluster.network.listen("refold 100", lambda process: None)
    cluster.lead(1, 0, isr=(1,), to=(1,), version=cluster.versions[T0])
    cluster.run(5)
    cluster.network.listen("refold 100", lambda process: cluster)
    cluster.network.heal("broker 1", "refold 100")
    cluster.run(1)
    assert sorted(cluster.partition(1).isr) == [1, 2, 3]


def test_request_without_a_response_is_sent_again_after_the_socket_time_out() -> None:
    cluster = leading_alone(lambda request: None)
    cluster.run(40)
    assert len(requests(cluster)) == 2


def test_request_after_the_end_of_an_idle_connection_is_sent_once() -> None:
    """A second response would be taken for that of the next request."""
    cluster = leading_alone()
    cluster.run(1)
    cluster.close_idle_connection(1)
    cluster.answer, begun = lambda request: None, len(requests(cluster))
    cluster.run(0.002)
    cluster.lead(1, 1, isr=(1,))
    cluster.run(1)
    assert len(requests(cluster)) == begun + 1


def test_high_watermark_waits_for_a_replica_that_is_about_to_join() -> None:
    """The maximal ISR of KIP-497."""
    cluster = leading_alone(lambda request: None)
    cluster.run(2)
    assert cluster.partition(1).isr == (1,)
    assert cluster.partition(1).maximal_isr == (1, 2)
    cluster.producer()
    cluster.run(2)
    cluster.network.hold_messages("broker 2", "broker 1")
    acknowledged = len(cluster.seen.acknowledged_records)
    cluster.run(5)
    assert len(cluster.seen.acknowledged_records) <= acknowledged + 1


def test_shrinking_counts_only_when_it_is_committed() -> None:
    cluster = ManualCluster().start()
    cluster.lead(1, 0)
    cluster.producer()
    cluster.run(2)
    cluster.answer = lambda request: None
    cluster.brokers[3].crash()
    acknowledged = len(cluster.seen.acknowledged_records)
    cluster.run(60)
    assert cluster.partition(1).maximal_isr == (1, 2, 3)
    assert len(cluster.seen.acknowledged_records) <= acknowledged + 1


def test_response_after_a_newer_leader_and_isr_request_is_ignored() -> None:
    cluster = leading_alone(lambda request: None)
    cluster.run(1)
    cluster.lead(1, 1, isr=(1, 3))
    (late,) = requests(cluster)
    cluster.answer_late(1, cluster.accept(late))
    cluster.run(1)
    assert cluster.partition(1).isr == (1, 3)
    assert cluster.partition(1).leader_epoch == 1


# ZooKeeper ---------------------------------------------------------------------------------------


def write_state(cluster: ManualCluster, state: LeaderAndIsr) -> None:
    """A controller writes the state znode."""
    path, data = znodes.state_path(*T0), znodes.write_state(state)
    tree = cluster.zookeeper.state
    session = tree.create_session()
    if tree.find(path):
        tree.apply(session, SetData(path, data, ANY_VERSION), 0)
    else:
        parents = [
            "/brokers/topics/t",
            "/brokers/topics/t/partitions",
            "/brokers/topics/t/partitions/0",
        ]
        creates = tuple(Create(one) for one in parents)
        tree.apply(session, Multi((*creates, Create(path, data))), 0)


def znode(cluster: ManualCluster) -> tuple[bytes, int]:
    found = cluster.zookeeper.state.find(znodes.state_path(*T0))
    assert found is not None
    assert found.data is not None
    return found.data, found.version


def leading_by_zookeeper(
    prepare: Callable[[ManualCluster], None] = lambda cluster: None,
) -> ManualCluster:
    cluster = ManualCluster(protocol="2.6").start()
    write_state(cluster, LeaderAndIsr(1, 0, (1,), 0, 1))
    prepare(cluster)
    cluster.lead(1, 0, isr=(1,), version=0)
    return cluster


def test_isr_is_written_to_zookeeper_before_2_7() -> None:
    cluster = leading_by_zookeeper()
    cluster.run(2)
    assert requests(cluster) == []
    data, version = znode(cluster)
    assert sorted(cluster.partition(1).isr) == [1, 2, 3]
    assert version == cluster.partition(1).partition_epoch == 2
    assert znodes.read_state("", data, 2).controller_epoch == 1


def test_changed_partitions_are_reported_by_a_sequential_znode() -> None:
    cluster = leading_by_zookeeper()
    cluster.run(2)
    state = cluster.zookeeper.state
    path = f"{znodes.ISR_CHANGES}/isr_change_0000000000"
    assert state.find(path) is None
    cluster.run(7)
    reported = state.find(path)
    assert reported is not None
    assert znodes.read_isr_change(path, reported.data) == [T0]


def test_write_with_an_old_version_is_skipped_and_tried_again() -> None:
    """KAFKA-2729: until the next LeaderAndIsr request no attempt can succeed."""
    cluster = leading_by_zookeeper(
        lambda cluster: write_state(cluster, LeaderAndIsr(1, 1, (1,), 0, 2))
    )
    cluster.run(10)
    assert cluster.partition(1).isr == (1,)
    assert len(cluster.seen.proposals) > 10
    cluster.lead(1, 1, isr=(1,), version=1)
    cluster.run(2)
    assert sorted(cluster.partition(1).isr) == [1, 2, 3]


def test_write_whose_reply_was_lost_is_found_in_zookeeper() -> None:
    """ReplicationUtils.checkLeaderAndIsrZkData."""
    cluster = leading_by_zookeeper(lambda cluster: cluster.zookeeper.lose_reply("broker 1"))
    cluster.run(5)
    assert sorted(cluster.partition(1).isr) == [1, 2, 3]
    assert znode(cluster)[1] == cluster.partition(1).partition_epoch
