"""The life of a broker: registration, sessions, pauses, shutdown, failed log directories."""

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.api_requests.controlled_shutdown import (
    ControlledShutdownReceived,
    ControlledShutdownResponse,
)
from controller.core.operations import Create
from tests.replay.world.broker.manual_cluster import T0, ManualCluster


def registered(cluster: ManualCluster, broker: int) -> int | None:
    """The broker epoch in ZooKeeper."""
    found = cluster.zookeeper.state.find(znodes.broker_path(broker))
    return found.czxid if found else None


def listens(cluster: ManualCluster, broker: int) -> bool:
    return f"broker {broker}" in cluster.network.listeners()


def test_broker_registers_before_its_port_accepts() -> None:
    cluster = ManualCluster(brokers=1)
    cluster.brokers[1].start()
    while registered(cluster, 1) is None:
        cluster.run(0.01)
    assert not listens(cluster, 1)
    cluster.run(0.7)
    assert listens(cluster, 1)
    # Its data are written again then; the broker epoch stays.
    node = cluster.zookeeper.state.find(znodes.broker_path(1))
    assert node is not None
    assert node.version == 2
    assert cluster.seen.epochs["broker 1"] == [node.czxid]


def test_registration_can_be_read_by_the_controller() -> None:
    cluster = ManualCluster(brokers=1).start()
    node = cluster.zookeeper.state.find(znodes.broker_path(1))
    assert node is not None
    read = znodes.read_broker(1, node.data, node.czxid)
    assert read.endpoint("PLAINTEXT") is not None
    assert znodes.registration_version(node.data) == 5


def test_expired_session_is_followed_by_a_new_registration() -> None:
    cluster = ManualCluster().start()
    cluster.lead(1, 0)
    before = registered(cluster, 2)
    cluster.zookeeper.expire("broker 2")
    cluster.run(5)
    epochs = cluster.seen.epochs["broker 2"]
    assert epochs == [before, registered(cluster, 2)]
    assert cluster.brokers[2].broker_epoch == epochs[1] > epochs[0]
    # It is the same process: it still has its leader epoch.
    assert cluster.partition(2).leader_epoch == 0


def test_lost_reply_of_the_registration_finds_the_znode_of_its_session() -> None:
    cluster = ManualCluster(brokers=1)
    cluster.zookeeper.lose_reply("broker 1")
    cluster.brokers[1].start()
    cluster.run(10)
    assert cluster.seen.epochs["broker 1"] == [registered(cluster, 1)]


def test_znode_of_the_previous_session_is_replaced() -> None:
    """KAFKA-7165: the ephemeral znode outlives its session."""
    cluster = ManualCluster(brokers=1).start()
    cluster.zookeeper.delay_ephemerals("broker 1", 60_000)
    before = registered(cluster, 1)
    cluster.zookeeper.expire("broker 1")
    cluster.run(5)
    after = registered(cluster, 1)
    assert before is not None
    assert after is not None
    assert after > before
    cluster.run(100)
    assert registered(cluster, 1) == after


def test_broker_that_restarts_before_its_session_expires_exits_until_then() -> None:
    cluster = ManualCluster(brokers=1).start()
    before = registered(cluster, 1)
    cluster.brokers[1].crash()
    cluster.brokers[1].start()
    cluster.run(2)
    assert cluster.seen.ends == [("broker 1", "crash"), ("broker 1", "exit")]
    cluster.run(40)
    after = registered(cluster, 1)
    assert after is not None
    assert before is not None
    assert after > before
    assert cluster.brokers[1].broker_epoch == after


def test_broker_whose_id_another_session_has_stays_unregistered_and_is_restarted() -> None:
    """KAFKA-14845."""
    cluster = ManualCluster(brokers=1).start()
    other = cluster.zookeeper.state.create_session()
    cluster.zookeeper.expire("broker 1")
    state = cluster.zookeeper.state
    if state.find(znodes.broker_path(1)) is None:
        state.apply(other, Create(znodes.broker_path(1), b"", ephemeral=True), 0)
    cluster.run(15)
    assert cluster.brokers[1].is_running
    assert len(cluster.seen.epochs["broker 1"]) == 1
    state.end_session(other)
    cluster.run(20)
    assert cluster.seen.ends == [("broker 1", "exit")]
    assert cluster.brokers[1].broker_epoch == registered(cluster, 1)


# Pauses ------------------------------------------------------------------------------------------


def test_paused_broker_handles_afterwards_what_arrived() -> None:
    cluster = ManualCluster().start()
    cluster.lead(1, 0)
    cluster.producer()
    cluster.run(2)
    acknowledged = len(cluster.seen.acknowledged_records)
    cluster.brokers[1].pause()
    cluster.run(5)
    assert len(cluster.seen.acknowledged_records) == acknowledged
    cluster.brokers[1].resume()
    cluster.run(2)
    assert len(cluster.seen.acknowledged_records) >= acknowledged + 65
    assert len(cluster.seen.epochs["broker 1"]) == 1


def test_session_expires_in_a_long_pause() -> None:
    cluster = ManualCluster().start()
    cluster.brokers[1].pause()
    cluster.run(25)
    assert registered(cluster, 1) is None
    cluster.brokers[1].resume()
    cluster.run(5)
    assert len(cluster.seen.epochs["broker 1"]) == 2
    assert registered(cluster, 1) == cluster.brokers[1].broker_epoch


def test_paused_follower_is_removed_from_the_isr_and_returns() -> None:
    cluster = ManualCluster().start()
    cluster.lead(1, 0)
    cluster.producer()
    cluster.run(2)
    cluster.brokers[3].pause()
    cluster.run(50)
    assert cluster.partition(1).isr == (1, 2)
    cluster.brokers[3].resume()
    cluster.run(5)
    assert cluster.partition(1).isr == (1, 2, 3)


def test_broker_that_crashes_in_a_pause_does_nothing_any_more() -> None:
    cluster = ManualCluster().start()
    cluster.lead(1, 0)
    cluster.brokers[2].pause()
    cluster.run(1)
    cluster.brokers[2].crash(restart_after_us=30_000_000)
    cluster.brokers[2].resume()
    cluster.run(60)
    assert cluster.seen.ends[0] == ("broker 2", "crash")
    assert cluster.brokers[2].broker_epoch == registered(cluster, 2)


# Controlled shutdown -----------------------------------------------------------------------------


def shutdowns(cluster: ManualCluster) -> list[ControlledShutdownReceived]:
    return [one for one in cluster.requests if isinstance(one, ControlledShutdownReceived)]


def test_controlled_shutdown_closes_the_session() -> None:
    cluster = ManualCluster().start()
    cluster.brokers[1].shut_down()
    cluster.run(0.1)
    (request,) = shutdowns(cluster)
    assert (request.broker, request.broker_epoch) == (1, cluster.seen.epochs["broker 1"][0])
    assert registered(cluster, 1) is None
    assert not listens(cluster, 1)
    assert cluster.seen.ends == [("broker 1", "shutdown")]


def test_paused_broker_shuts_down_when_it_goes_on() -> None:
    cluster = ManualCluster().start()
    cluster.brokers[1].pause()
    cluster.brokers[1].shut_down()
    cluster.run(2)
    assert shutdowns(cluster) == []
    cluster.brokers[1].resume()
    cluster.run(1)
    assert cluster.seen.ends == [("broker 1", "shutdown")]


@pytest.mark.parametrize(
    "response",
    [
        ControlledShutdownResponse(0, codes.STALE_CONTROLLER_EPOCH),
        ControlledShutdownResponse(0, codes.NONE, (T0,)),
    ],
)
def test_refused_shutdown_is_tried_three_times(response: ControlledShutdownResponse) -> None:
    cluster = ManualCluster().start()
    cluster.answer = lambda request: response
    cluster.brokers[1].shut_down()
    cluster.run(4)
    assert len(shutdowns(cluster)) == 1
    cluster.run(8)
    assert len(shutdowns(cluster)) == 3
    assert cluster.seen.ends == [("broker 1", "shutdown")]


def test_shutdown_ends_without_a_controller() -> None:
    """A broker knows the controller from UpdateMetadata only, which it was not sent."""
    cluster = ManualCluster()
    cluster.brokers[1].start()
    cluster.run(5)
    cluster.brokers[1].shut_down()
    cluster.run(11)
    assert shutdowns(cluster) == []
    assert cluster.seen.ends == [("broker 1", "shutdown")]


def test_shutdown_writes_everything_to_the_disk() -> None:
    cluster = ManualCluster().start()
    cluster.lead(1, 0)
    cluster.producer()
    cluster.run(3)
    cluster.brokers[2].shut_down(restart_after_us=5_000_000)
    cluster.run(1)
    log = cluster.brokers[2].disk.logs[T0]
    assert log.flushed == log.end
    assert log.checkpoint == log.high_watermark > 0
    cluster.run(9)
    assert cluster.brokers[2].broker_epoch == registered(cluster, 2)


def test_broker_whose_shutdown_was_granted_serves_until_it_closes() -> None:
    cluster = ManualCluster().start()
    cluster.lead(1, 0)
    cluster.producer()
    cluster.run(3)
    cluster.brokers[2].shut_down(closes_after_us=4_000_000)
    cluster.run(3)
    assert cluster.seen.ends == []
    assert cluster.zookeeper.state.find("/brokers/ids/2") is not None
    assert len(cluster.records(2)) == len(cluster.records(1))
    cluster.run(2)
    assert cluster.seen.ends == [("broker 2", "shutdown")]
    assert cluster.zookeeper.state.find("/brokers/ids/2") is None


def test_shutdown_lasts_as_long_as_given_from_its_beginning() -> None:
    cluster = ManualCluster().start()
    cluster.run(3)
    cluster.brokers[2].shut_down(closes_after_us=1_000_000, lasts_us=4_000_000)
    cluster.run(3)
    assert cluster.seen.ends == []
    cluster.run(2)
    assert cluster.seen.ends == [("broker 2", "shutdown")]


def test_shutting_down_follower_starts_no_fetches() -> None:
    cluster = ManualCluster().start()
    cluster.lead(1, 0)
    cluster.producer(acks=1)
    cluster.run(2)
    cluster.answer = lambda request: None
    cluster.brokers[3].shut_down()
    cluster.lead(2, 1)
    end = len(cluster.records(3))
    cluster.run(3)
    assert len(cluster.records(3)) == end


# Log directories ---------------------------------------------------------------------------------


def test_failed_log_directory_is_reported_by_a_sequential_znode() -> None:
    cluster = ManualCluster().start()
    cluster.lead(1, 0)
    cluster.brokers[1].fail_log_directory([T0])
    cluster.run(1)
    path = f"{znodes.LOG_DIR_EVENTS}/log_dir_event_0000000000"
    node = cluster.zookeeper.state.find(path)
    assert node is not None
    assert znodes.read_log_dir_event(path, node.data) == 1
    assert cluster.replicas(1).find(T0) == codes.KAFKA_STORAGE_ERROR


def test_failed_log_directory_refuses_producers_that_wait() -> None:
    cluster = ManualCluster().start()
    cluster.lead(1, 0)
    cluster.producer()
    cluster.run(2)
    cluster.brokers[1].fail_log_directory()
    cluster.lead(2, 1, isr=(2, 3), to=(2, 3))
    cluster.update_metadata()
    cluster.run(2)
    assert cluster.seen.acknowledged_records[-1][1] == len(cluster.records(2)) - 1


@pytest.mark.parametrize("survives", [False, True])
def test_broken_log_directory_stays_failed_over_a_restart_until_it_is_repaired(
    survives: bool,
) -> None:
    cluster = ManualCluster().start()
    cluster.lead(1, 0)
    cluster.producer()
    cluster.run(2)
    broker = cluster.brokers[3]
    broker.fail_log_directory([T0], survives_restart=survives)
    broker.shut_down(restart_after_us=1_000_000)
    cluster.run(5)
    assert (T0 in broker.disk.failed) is survives
    cluster.lead(1, 1)
    cluster.run(1)
    found = cluster.replicas(3).find(T0)
    assert (found == codes.KAFKA_STORAGE_ERROR) is survives
    broker.repair_log_directories()
    broker.shut_down(restart_after_us=1_000_000)
    cluster.run(5)
    assert T0 in broker.disk.logs


def test_repaired_log_directory_keeps_its_records() -> None:
    cluster = ManualCluster().start()
    cluster.lead(1, 0)
    cluster.producer()
    cluster.run(2)
    records = list(cluster.records(3))
    cluster.brokers[3].fail_log_directory()
    assert T0 not in cluster.brokers[3].disk.logs
    cluster.brokers[3].shut_down(restart_after_us=1_000_000)
    cluster.run(5)
    assert cluster.records(3)[: len(records)] == records
