"""The life of a broker: registration, sessions, pauses, shutdown, failed log directories."""

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.api_requests.controlled_shutdown import (
    ControlledShutdownReceived,
    ControlledShutdownResponse,
)
from controller.core.operations import Create
from tests.replay.world.broker.hand import T0, Hand


def registered(hand: Hand, broker: int) -> int | None:
    """The broker epoch in ZooKeeper."""
    found = hand.zookeeper.state.find(znodes.broker_path(broker))
    return found.czxid if found else None


def listens(hand: Hand, broker: int) -> bool:
    return f"broker {broker}" in hand.network.listeners()


def test_broker_registers_before_its_port_accepts() -> None:
    hand = Hand(brokers=1)
    hand.brokers[1].start()
    while registered(hand, 1) is None:
        hand.run(0.01)
    assert not listens(hand, 1)
    hand.run(0.7)
    assert listens(hand, 1)
    # Its data are written again then; the broker epoch stays.
    node = hand.zookeeper.state.find(znodes.broker_path(1))
    assert node is not None
    assert node.version == 2
    assert hand.seen.epochs["broker 1"] == [node.czxid]


def test_registration_can_be_read_by_the_controller() -> None:
    hand = Hand(brokers=1).start()
    node = hand.zookeeper.state.find(znodes.broker_path(1))
    assert node is not None
    read = znodes.read_broker(1, node.data, node.czxid)
    assert read.endpoint("PLAINTEXT") is not None
    assert znodes.registration_version(node.data) == 5


def test_expired_session_is_followed_by_a_new_registration() -> None:
    hand = Hand().start()
    hand.lead(1, 0)
    before = registered(hand, 2)
    hand.zookeeper.expire("broker 2")
    hand.run(5)
    epochs = hand.seen.epochs["broker 2"]
    assert epochs == [before, registered(hand, 2)]
    assert hand.brokers[2].broker_epoch == epochs[1] > epochs[0]
    # It is the same process: it still has its leader epoch.
    assert hand.partition(2).leader_epoch == 0


def test_lost_reply_of_the_registration_finds_the_znode_of_its_session() -> None:
    hand = Hand(brokers=1)
    hand.zookeeper.lose_reply("broker 1")
    hand.brokers[1].start()
    hand.run(10)
    assert hand.seen.epochs["broker 1"] == [registered(hand, 1)]


def test_znode_of_the_previous_session_is_replaced() -> None:
    """KAFKA-7165: the ephemeral znode outlives its session."""
    hand = Hand(brokers=1).start()
    hand.zookeeper.delay_ephemerals("broker 1", 60_000)
    before = registered(hand, 1)
    hand.zookeeper.expire("broker 1")
    hand.run(5)
    after = registered(hand, 1)
    assert before is not None
    assert after is not None
    assert after > before
    hand.run(100)
    assert registered(hand, 1) == after


def test_broker_that_restarts_before_its_session_expires_exits_until_then() -> None:
    hand = Hand(brokers=1).start()
    before = registered(hand, 1)
    hand.brokers[1].crash()
    hand.brokers[1].start()
    hand.run(2)
    assert hand.seen.ends == [("broker 1", "crash"), ("broker 1", "exit")]
    hand.run(40)
    after = registered(hand, 1)
    assert after is not None
    assert before is not None
    assert after > before
    assert hand.brokers[1].broker_epoch == after


def test_broker_whose_id_another_session_has_stays_unregistered_and_is_restarted() -> None:
    """KAFKA-14845."""
    hand = Hand(brokers=1).start()
    other = hand.zookeeper.state.create_session()
    hand.zookeeper.expire("broker 1")
    state = hand.zookeeper.state
    if state.find(znodes.broker_path(1)) is None:
        state.apply(other, Create(znodes.broker_path(1), b"", ephemeral=True), 0)
    hand.run(15)
    assert hand.brokers[1].is_running
    assert len(hand.seen.epochs["broker 1"]) == 1
    state.end_session(other)
    hand.run(20)
    assert hand.seen.ends == [("broker 1", "exit")]
    assert hand.brokers[1].broker_epoch == registered(hand, 1)


# Pauses ------------------------------------------------------------------------------------------


def test_paused_broker_handles_afterwards_what_arrived() -> None:
    hand = Hand().start()
    hand.lead(1, 0)
    hand.producer()
    hand.run(2)
    acknowledged = len(hand.seen.acknowledged_records)
    hand.brokers[1].pause()
    hand.run(5)
    assert len(hand.seen.acknowledged_records) == acknowledged
    hand.brokers[1].resume()
    hand.run(2)
    assert len(hand.seen.acknowledged_records) >= acknowledged + 65
    assert len(hand.seen.epochs["broker 1"]) == 1


def test_session_expires_in_a_long_pause() -> None:
    hand = Hand().start()
    hand.brokers[1].pause()
    hand.run(25)
    assert registered(hand, 1) is None
    hand.brokers[1].resume()
    hand.run(5)
    assert len(hand.seen.epochs["broker 1"]) == 2
    assert registered(hand, 1) == hand.brokers[1].broker_epoch


def test_paused_follower_is_removed_from_the_isr_and_returns() -> None:
    hand = Hand().start()
    hand.lead(1, 0)
    hand.producer()
    hand.run(2)
    hand.brokers[3].pause()
    hand.run(50)
    assert hand.partition(1).isr == (1, 2)
    hand.brokers[3].resume()
    hand.run(5)
    assert hand.partition(1).isr == (1, 2, 3)


def test_broker_that_crashes_in_a_pause_does_nothing_any_more() -> None:
    hand = Hand().start()
    hand.lead(1, 0)
    hand.brokers[2].pause()
    hand.run(1)
    hand.brokers[2].crash(restart_after_us=30_000_000)
    hand.brokers[2].resume()
    hand.run(60)
    assert hand.seen.ends[0] == ("broker 2", "crash")
    assert hand.brokers[2].broker_epoch == registered(hand, 2)


# Controlled shutdown -----------------------------------------------------------------------------


def shutdowns(hand: Hand) -> list[ControlledShutdownReceived]:
    return [one for one in hand.requests if isinstance(one, ControlledShutdownReceived)]


def test_controlled_shutdown_closes_the_session() -> None:
    hand = Hand().start()
    hand.brokers[1].shut_down()
    hand.run(0.1)
    (request,) = shutdowns(hand)
    assert (request.broker, request.broker_epoch) == (1, hand.seen.epochs["broker 1"][0])
    assert registered(hand, 1) is None
    assert not listens(hand, 1)
    assert hand.seen.ends == [("broker 1", "shutdown")]


def test_paused_broker_shuts_down_when_it_goes_on() -> None:
    hand = Hand().start()
    hand.brokers[1].pause()
    hand.brokers[1].shut_down()
    hand.run(2)
    assert shutdowns(hand) == []
    hand.brokers[1].resume()
    hand.run(1)
    assert hand.seen.ends == [("broker 1", "shutdown")]


@pytest.mark.parametrize(
    "response",
    [
        ControlledShutdownResponse(0, codes.STALE_CONTROLLER_EPOCH),
        ControlledShutdownResponse(0, codes.NONE, (T0,)),
    ],
)
def test_refused_shutdown_is_tried_three_times(response: ControlledShutdownResponse) -> None:
    hand = Hand().start()
    hand.answer = lambda request: response
    hand.brokers[1].shut_down()
    hand.run(4)
    assert len(shutdowns(hand)) == 1
    hand.run(8)
    assert len(shutdowns(hand)) == 3
    assert hand.seen.ends == [("broker 1", "shutdown")]


def test_shutdown_ends_without_a_controller() -> None:
    """A broker knows the controller from UpdateMetadata only, which it was not sent."""
    hand = Hand()
    hand.brokers[1].start()
    hand.run(5)
    hand.brokers[1].shut_down()
    hand.run(11)
    assert shutdowns(hand) == []
    assert hand.seen.ends == [("broker 1", "shutdown")]


def test_shutdown_writes_everything_to_the_disk() -> None:
    hand = Hand().start()
    hand.lead(1, 0)
    hand.producer()
    hand.run(3)
    hand.brokers[2].shut_down(restart_after_us=5_000_000)
    hand.run(1)
    log = hand.brokers[2].disk.logs[T0]
    assert log.flushed == log.end
    assert log.checkpoint == log.high_watermark > 0
    hand.run(9)
    assert hand.brokers[2].broker_epoch == registered(hand, 2)


def test_broker_whose_shutdown_was_granted_serves_until_it_closes() -> None:
    hand = Hand().start()
    hand.lead(1, 0)
    hand.producer()
    hand.run(3)
    hand.brokers[2].shut_down(closes_after_us=4_000_000)
    hand.run(3)
    assert hand.seen.ends == []
    assert hand.zookeeper.state.find("/brokers/ids/2") is not None
    assert len(hand.records(2)) == len(hand.records(1))
    hand.run(2)
    assert hand.seen.ends == [("broker 2", "shutdown")]
    assert hand.zookeeper.state.find("/brokers/ids/2") is None


def test_shutting_down_follower_starts_no_fetches() -> None:
    hand = Hand().start()
    hand.lead(1, 0)
    hand.producer(acks=1)
    hand.run(2)
    hand.answer = lambda request: None
    hand.brokers[3].shut_down()
    hand.lead(2, 1)
    end = len(hand.records(3))
    hand.run(3)
    assert len(hand.records(3)) == end


# Log directories ---------------------------------------------------------------------------------


def test_failed_log_directory_is_reported_by_a_sequential_znode() -> None:
    hand = Hand().start()
    hand.lead(1, 0)
    hand.brokers[1].fail_log_directory([T0])
    hand.run(1)
    path = f"{znodes.LOG_DIR_EVENTS}/log_dir_event_0000000000"
    node = hand.zookeeper.state.find(path)
    assert node is not None
    assert znodes.read_log_dir_event(path, node.data) == 1
    assert hand.replicas(1).find(T0) == codes.KAFKA_STORAGE_ERROR


def test_failed_log_directory_refuses_producers_that_wait() -> None:
    hand = Hand().start()
    hand.lead(1, 0)
    hand.producer()
    hand.run(2)
    hand.brokers[1].fail_log_directory()
    hand.lead(2, 1, isr=(2, 3), to=(2, 3))
    hand.update_metadata()
    hand.run(2)
    assert hand.seen.acknowledged_records[-1][1] == len(hand.records(2)) - 1


@pytest.mark.parametrize("survives", [False, True])
def test_broken_log_directory_stays_failed_over_a_restart_until_it_is_repaired(
    survives: bool,
) -> None:
    hand = Hand().start()
    hand.lead(1, 0)
    hand.producer()
    hand.run(2)
    broker = hand.brokers[3]
    broker.fail_log_directory([T0], survives_restart=survives)
    broker.shut_down(restart_after_us=1_000_000)
    hand.run(5)
    assert (T0 in broker.disk.failed) is survives
    hand.lead(1, 1)
    hand.run(1)
    found = hand.replicas(3).find(T0)
    assert (found == codes.KAFKA_STORAGE_ERROR) is survives
    broker.repair_log_directories()
    broker.shut_down(restart_after_us=1_000_000)
    hand.run(5)
    assert T0 in broker.disk.logs


def test_repaired_log_directory_keeps_its_records() -> None:
    hand = Hand().start()
    hand.lead(1, 0)
    hand.producer()
    hand.run(2)
    records = list(hand.records(3))
    hand.brokers[3].fail_log_directory()
    assert T0 not in hand.brokers[3].disk.logs
    hand.brokers[3].shut_down(restart_after_us=1_000_000)
    hand.run(5)
    assert hand.records(3)[: len(records)] == records
