"""Registrations that are stuck: what is probed, when, and what is reported (race R1)."""

import pytest

from controller.core.commands import ProbeBroker, StartTimer
from controller.core.events import ANSWERS, REFUSES, SILENT, BrokerProbed, ChannelFault
from controller.core.procedures.brokers.registration_checks import TIMER
from tests.controller.core.cluster import Cluster, Seen
from tests.controller.core.endpoint import controlled_shutdown

CHECK_MS = 30_000
NOT_REGISTERED = "broker_not_registered"
LEFT_OVER = "registration_left_over"
ALIVE = [(NOT_REGISTERED, "/brokers/ids/2")]
LEFT = [(LEFT_OVER, "/brokers/ids/2")]


def started(**settings: int) -> Cluster:
    """A controller with brokers 1 to 3."""
    return Cluster(1, 2, 3, **({"registration_check_ms": CHECK_MS} | settings)).start()


def probed(seen: Seen) -> list[int]:
    return [one.broker for one in seen.commands if isinstance(one, ProbeBroker)]


def stuck(seen: Seen) -> list[tuple[str, str]]:
    return [one for one in seen.notices() if one[0] in (NOT_REGISTERED, LEFT_OVER)]


def wait(cluster: Cluster, ms: int = CHECK_MS, finds: str = REFUSES) -> Seen:
    """The timer fires after `ms`; probes find this. Returns what the controller did."""
    cluster.probed = lambda broker: finds
    cluster.now_ms += ms
    seen = cluster.seen()
    cluster.fire(TIMER)
    return seen


def unreachable(cluster: Cluster, kind: str = "unreachable") -> None:
    """The channel to broker 2 does not work, or works again."""
    cluster.happen(ChannelFault(2, cluster.broker_epoch(2), kind, "no connection"), "broker:2")


def without_listener(data: bytes) -> bytes:
    """The registration of a broker that has another listener than that for the controller."""
    other = data.replace(b'"PLAINTEXT://', b'"OTHER://')
    return other.replace(b'{"PLAINTEXT":', b'{"OTHER":')


# A broker that is alive and not registered --------------------------------------------------------


def test_broker_that_answers_without_a_registration_is_reported_once_with_the_znode() -> None:
    cluster = started()
    owner = cluster.broker_sessions[2]
    cluster.stop_broker(2)
    assert stuck(wait(cluster, finds=ANSWERS)) == [], "one probe may come too early"
    second = wait(cluster, finds=ANSWERS)
    assert stuck(second) == ALIVE
    (text,) = second.texts_of(NOT_REGISTERED)
    assert "broker 2 answers on host2:9092, but /brokers/ids/2 does not exist" in text
    assert f"the znode, owned by session 0x{owner:x}, was deleted 60 s ago" in text
    for _ in range(3):
        assert stuck(wait(cluster, 100 * CHECK_MS, ANSWERS)) == []


def test_stopped_broker_is_probed_with_growing_pauses_and_not_reported() -> None:
    cluster = started()
    cluster.stop_broker(2)
    pauses = []
    for _ in range(12):
        seen = wait(cluster, 200 * CHECK_MS)
        assert (probed(seen), stuck(seen)) == ([2], [])
        pauses += [one.delay_ms // CHECK_MS for one in seen.commands if isinstance(one, StartTimer)]
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 128, 128, 128, 128]


def test_probe_before_the_time_is_over_is_not_sent() -> None:
    cluster = started()
    cluster.stop_broker(2)
    seen = wait(cluster, CHECK_MS - 1_000)
    assert probed(seen) == []
    assert probed(wait(cluster, 1_000)) == [2]


@pytest.mark.parametrize("between", [REFUSES, SILENT])
def test_only_answers_in_a_row_count(between: str) -> None:
    cluster = started()
    cluster.stop_broker(2)
    for finds in (ANSWERS, between, ANSWERS):
        assert stuck(wait(cluster, 200 * CHECK_MS, finds)) == []
    assert stuck(wait(cluster, 200 * CHECK_MS, ANSWERS)) == ALIVE


def test_broker_that_registers_again_is_not_probed_any_more() -> None:
    cluster = started()
    cluster.stop_broker(2)
    wait(cluster, finds=ANSWERS)
    cluster.start_broker(2)
    seen = wait(cluster, finds=ANSWERS)
    assert (probed(seen), stuck(seen)) == ([], [])


def test_broker_that_is_stuck_again_is_reported_again() -> None:
    cluster = started()
    for _ in range(2):
        cluster.stop_broker(2)
        wait(cluster, finds=ANSWERS)
        assert stuck(wait(cluster, finds=ANSWERS)) == ALIVE
        cluster.start_broker(2)


def test_broker_that_has_shut_down_is_not_expected_to_register() -> None:
    cluster = started()
    controlled_shutdown(cluster, 2)
    cluster.stop_broker(2)
    assert probed(wait(cluster, finds=ANSWERS)) == []


def test_address_that_another_broker_has_is_not_probed() -> None:
    """The id of the broker was changed."""
    cluster = started()
    cluster.stop_broker(2)
    data = cluster.data("/brokers/ids/3")
    assert data is not None
    cluster.put("/brokers/ids/3", data.replace(b"host3", b"host2"))
    assert probed(wait(cluster, finds=ANSWERS)) == []


# A registration that is left ----------------------------------------------------------------------


def test_registration_without_a_process_is_reported_once_with_the_znode_and_its_owner() -> None:
    cluster = started()
    unreachable(cluster)
    assert stuck(wait(cluster)) == []
    second = wait(cluster)
    assert stuck(second) == LEFT
    (text,) = second.texts_of(LEFT_OVER)
    owner = f"session 0x{cluster.broker_sessions[2]:x}"
    assert f"/brokers/ids/2 exists, owned by {owner}, which is over, or ends late" in text
    assert "no process has listened on host2:9092 for 60 s" in text
    assert stuck(wait(cluster, 100 * CHECK_MS)) == []


@pytest.mark.parametrize("finds", [ANSWERS, SILENT])
def test_broker_that_is_slow_or_cut_off_keeps_its_registration(finds: str) -> None:
    cluster = started()
    unreachable(cluster)
    for _ in range(4):
        assert stuck(wait(cluster, 200 * CHECK_MS, finds)) == []


@pytest.mark.parametrize("kind", ["recovered", "closed", "version"])
def test_channel_that_works_again_ends_the_suspicion(kind: str) -> None:
    cluster = started()
    unreachable(cluster)
    wait(cluster)
    unreachable(cluster, kind)
    assert probed(wait(cluster)) == []


def test_channel_that_works_again_is_reported() -> None:
    cluster = started()
    seen = cluster.seen()
    cluster.happen(ChannelFault(2, cluster.broker_epoch(2), "recovered", ""), "broker:2")
    assert seen.texts_of("channel_recovered") == ["broker 2 answers again"]


def test_fault_of_an_earlier_channel_is_no_suspicion() -> None:
    cluster = started()
    old = cluster.broker_epoch(2)
    cluster.bounce(2)
    cluster.happen(ChannelFault(2, old, "unreachable", "no connection"), "broker:2")
    assert probed(wait(cluster)) == []


def test_broker_that_has_restarted_is_not_probed_any_more() -> None:
    cluster = started()
    unreachable(cluster)
    cluster.bounce(2)
    assert probed(wait(cluster)) == []


def test_late_result_for_an_earlier_registration_does_not_count() -> None:
    cluster = started()
    old = cluster.broker_epoch(2)
    cluster.bounce(2)
    unreachable(cluster)
    seen = cluster.seen()
    for _ in range(2):
        cluster.happen(BrokerProbed(2, old, REFUSES, ""), f"probe:2:{old}")
    assert stuck(seen) == []


def test_left_registration_that_is_deleted_at_last_is_a_lost_broker() -> None:
    cluster = started()
    unreachable(cluster)
    wait(cluster)
    assert stuck(wait(cluster)) == LEFT
    cluster.stop_broker(2)
    wait(cluster, finds=ANSWERS)
    assert stuck(wait(cluster, finds=ANSWERS)) == ALIVE


def test_registration_that_no_session_owns_is_reported_as_such() -> None:
    """A tool or a restored backup wrote it: ZooKeeper never deletes it."""
    cluster = started()
    data = cluster.data("/brokers/ids/2")
    assert data is not None
    cluster.stop_broker(2)
    cluster.put("/brokers/ids/2", data)
    unreachable(cluster)
    wait(cluster)
    (text,) = wait(cluster).texts_of(LEFT_OVER)
    assert "owned by no session" in text


def test_broker_whose_registration_no_session_owned_is_reported_without_an_owner() -> None:
    cluster = started()
    data = cluster.data("/brokers/ids/2")
    assert data is not None
    cluster.stop_broker(2)
    cluster.put("/brokers/ids/2", data)
    cluster.remove("/brokers/ids/2")
    wait(cluster, finds=ANSWERS)
    (text,) = wait(cluster, finds=ANSWERS).texts_of(NOT_REGISTERED)
    assert "the znode was deleted 60 s ago" in text


# Limits -------------------------------------------------------------------------------------------


def test_without_the_setting_nothing_is_probed() -> None:
    """As in the logs from before it existed."""
    cluster = started(registration_check_ms=0)
    seen = cluster.seen()
    unreachable(cluster)
    cluster.stop_broker(2)
    assert not [one for one in seen.commands if isinstance(one, StartTimer)]
    assert probed(wait(cluster, finds=ANSWERS)) == []


def test_controller_that_has_lost_the_role_probes_nothing() -> None:
    cluster = started()
    cluster.stop_broker(2)
    cluster.seize_role(3)
    cluster.run()
    assert not cluster.is_active
    assert probed(wait(cluster, finds=ANSWERS)) == []


def test_broker_without_the_listener_is_not_probed() -> None:
    cluster = started()
    data = cluster.data("/brokers/ids/2")
    assert data is not None
    cluster.stop_broker(2)
    cluster.put("/brokers/ids/2", without_listener(data))
    assert 2 in cluster.fold.controller.context.brokers
    seen = cluster.seen()
    cluster.remove("/brokers/ids/2")
    assert not [one for one in seen.commands if isinstance(one, StartTimer)]


def test_lost_broker_without_the_listener_is_not_probed() -> None:
    cluster = started()
    data = cluster.data("/brokers/ids/2")
    assert data is not None
    cluster.put("/brokers/ids/2", without_listener(data))
    cluster.expire()
    assert 2 in cluster.fold.controller.context.brokers
    seen = cluster.seen()
    cluster.stop_broker(2)
    assert not [one for one in seen.commands if isinstance(one, StartTimer)]
    assert [one for one in seen.channels() if one.startswith("close")] == []


def test_timer_is_that_of_the_suspect_that_is_due_first() -> None:
    cluster = started()
    cluster.stop_broker(2)
    cluster.now_ms += CHECK_MS // 2
    seen = cluster.seen()
    cluster.stop_broker(3)
    *_, timer = [one for one in seen.commands if isinstance(one, StartTimer) and one.timer == TIMER]
    assert timer.delay_ms <= CHECK_MS // 2


def test_repeated_fault_does_not_postpone_the_probe() -> None:
    cluster = started()
    unreachable(cluster)
    cluster.now_ms += CHECK_MS - 1_000
    seen = cluster.seen()
    unreachable(cluster)
    assert not [one for one in seen.commands if isinstance(one, StartTimer)]
    assert probed(wait(cluster, 1_000)) == [2]


def test_result_of_a_probe_after_the_broker_has_registered_is_ignored() -> None:
    cluster = started()
    epoch = cluster.broker_epoch(2)
    seen = cluster.seen()
    cluster.happen(BrokerProbed(2, epoch, ANSWERS, ""), f"probe:2:{epoch}")
    assert seen.commands == []
