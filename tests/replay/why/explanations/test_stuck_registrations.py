"""Answers about brokers whose registration is stuck (ZOOKEEPER-1740)."""

from pathlib import Path

import pytest

from controller.core.api_requests.controlled_shutdown import ControlledShutdownReceived
from controller.core.events import ANSWERS, REFUSES, SILENT, ChannelFault
from controller.core.procedures.brokers.registration_checks import TIMER
from replay.inspect.at import cluster_at
from replay.logs.open_log import open_log
from replay.why.headline import headline_of
from tests.controller.core.cluster import Cluster
from tests.replay.recorded_log import write_log
from tests.replay.why.asked import first, plain, why

CHECK_MS = 1_000


def started() -> Cluster:
    cluster = Cluster(1, 2, 3, registration_check_ms=CHECK_MS).start()
    cluster.create_topic("t", {0: [1, 2]})
    return cluster


def probe_twice(cluster: Cluster, finds: str) -> None:
    cluster.probed = lambda broker: finds
    for _ in range(2):
        cluster.now_ms += CHECK_MS
        cluster.fire(TIMER)


def alive() -> Cluster:
    """Broker 2 has lost its registration and answers."""
    cluster = started()
    cluster.stop_broker(2)
    probe_twice(cluster, ANSWERS)
    return cluster


def left() -> Cluster:
    """The registration of broker 2 is left."""
    cluster = started()
    epoch = cluster.broker_epoch(2)
    cluster.happen(ChannelFault(2, epoch, "unreachable", "no connection"), f"broker:2:{epoch}")
    probe_twice(cluster, REFUSES)
    return cluster


def health_of(cluster: Cluster, folder: Path) -> str:
    """The headline of `refold health` and `refold inspect`."""
    log = write_log(folder / "log", cluster)
    with open_log(log) as opened:
        return headline_of(opened, cluster_at(opened, opened.reader.last_seq))


def test_broker_that_is_alive_and_not_registered_is_named_with_its_znode(tmp_path: Path) -> None:
    cluster = started()
    session = f"0x{cluster.broker_sessions[2]:x}"
    cluster.stop_broker(2)
    probe_twice(cluster, ANSWERS)
    stuck = (
        "Broker 2 answers on host2:9092, but does not register again: /brokers/ids/2, which "
        f"session {session} owned, does not exist any more (ZOOKEEPER-1740)."
    )
    found = why(cluster, tmp_path, broker=2)
    assert plain(found.answer).startswith(f"{stuck} Broker 2 has not been registered since event N")
    codes = [getattr(one, "text", "") for one in found.chain]
    assert any("restart it" in one for one in codes), codes
    assert health_of(cluster, tmp_path) == stuck
    assert first(cluster, tmp_path, topic="t", partition=0).startswith(stuck)


def test_registration_that_is_left_is_named_with_its_owner(tmp_path: Path) -> None:
    cluster = left()
    stuck = (
        "/brokers/ids/2 is left: no process listens on host2:9092, and its owner, session "
        f"0x{cluster.broker_sessions[2]:x}, is over or ends late (ZOOKEEPER-1740)."
    )
    assert first(cluster, tmp_path, broker=2).startswith(f"{stuck} Broker 2 is registered")
    assert health_of(cluster, tmp_path) == stuck


def test_stuck_registration_is_the_root_cause_of_its_replicas(tmp_path: Path) -> None:
    [group] = why(alive(), tmp_path, is_unhealthy=True).unhealthy
    assert group.cause.startswith("Broker 2 answers on host2:9092, but does not register again")
    assert group.affected == ["t-0"]


@pytest.mark.parametrize("broker", [1, 3])
def test_answers_about_other_brokers_do_not_name_it(tmp_path: Path, broker: int) -> None:
    assert "answers on" not in first(alive(), tmp_path, broker=broker)


def test_broker_that_registers_is_not_stuck_any_more(tmp_path: Path) -> None:
    cluster = alive()
    cluster.start_broker(2)
    assert health_of(cluster, tmp_path) == ""
    registered = "Broker 2 has been registered since event N"
    assert first(cluster, tmp_path, broker=2).startswith(registered)


# Brokers that are lost ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("finds", "text"),
    [
        (REFUSES, "no process has listened on its address since event N."),
        (SILENT, "its address has not answered since event N, so it hangs or cannot be reached."),
    ],
)
def test_address_of_a_lost_broker_is_named_with_what_it_shows(
    tmp_path: Path, finds: str, text: str
) -> None:
    cluster = started()
    cluster.stop_broker(2)
    probe_twice(cluster, finds)
    found = why(cluster, tmp_path, broker=2)
    gone = "Broker 2 has not been registered since event N: the registration of broker 2 is gone; "
    assert plain(found.answer).startswith(gone + text)
    probes = [one for one in found.chain if "the address of broker 2" in one.text]
    assert len(probes) == 1, "the second probe found the same"
    [group] = why(cluster, tmp_path, is_unhealthy=True).unhealthy
    assert plain(group.cause) + "." == (
        f"broker 2 is not registered: the registration of broker 2 is gone (event N); {text}"
    )


def test_address_of_a_broker_that_came_back_and_was_lost_again_is_not_named(tmp_path: Path) -> None:
    cluster = started()
    cluster.stop_broker(2)
    probe_twice(cluster, REFUSES)
    cluster.start_broker(2)
    cluster.stop_broker(2)
    assert "address" not in first(cluster, tmp_path, broker=2)


def test_lost_broker_that_asks_for_a_controlled_shutdown_is_lost_since_its_registration_is_gone(
    tmp_path: Path,
) -> None:
    cluster = started()
    cluster.stop_broker(2)
    cluster.happen(ControlledShutdownReceived(0, 3, 2, 70), "client")
    assert "the registration of broker 2 is gone" in first(cluster, tmp_path, broker=2)
