import socket
from pathlib import Path

import pytest
from msgspec import structs

from controller.core.values import Broker, Endpoint
from controller.operator.checks import check_all
from controller.operator.probes import probe_listeners
from controller.operator.start_checks import (
    CheckResult,
    check_authorizer,
    check_broker_settings,
    with_brokers_min_insync_replicas,
)
from controller.operator.status import (
    BrokerStatus,
    ClusterStatus,
    DiskStatus,
    ServerStatus,
    SystemStatus,
    ZooKeeperStatus,
)
from tests.controller.operator.settings import settings

OFFERED = (("LeaderAndIsr", 7, 7), ("UpdateMetadata", 8, 8), ("StopReplica", 4, 4))


def broker(broker_id: int, rack: str | None = None, listener: str = "PLAINTEXT") -> Broker:
    endpoint = Endpoint(listener, "PLAINTEXT", f"h{broker_id}", 9092)
    return Broker(broker_id, 5, (endpoint,), rack)


def cluster(*brokers: Broker, unreadable: tuple[str, ...] = ()) -> ZooKeeperStatus:
    return ZooKeeperStatus(
        cluster=ClusterStatus(
            chroot_exists=True,
            is_kafka=True,
            cluster_id="c1",
            brokers=brokers,
            unreadable=unreadable,
        )
    )


ANSWERS = BrokerStatus(broker=1, versions=OFFERED)
MIN_INSYNC, UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"
REBALANCE = "auto.leader.rebalance.enable"


def deciding(broker_id: int, key: str, value: str) -> BrokerStatus:
    return BrokerStatus(broker=broker_id, versions=OFFERED, deciding={key: value})


GOOD = SystemStatus(
    zookeeper=cluster(broker(1), broker(2)),
    servers=(ServerStatus(server="zk1:2181", version="3.9.5"),),
    brokers=(ANSWERS, BrokerStatus(broker=2, versions=OFFERED)),
    disk=DiskStatus(folder=Path("/logs"), free_bytes=1 << 40, sync_ms=2.0),
    clock_ahead_ms=12,
)


def problems(status: SystemStatus, given: dict[str, str] | None = None) -> list[CheckResult]:
    return [one for one in check_all(settings(given), status) if one.level != "ok"]


def changed(**status: object) -> SystemStatus:
    return structs.replace(GOOD, **status)


def disk(**status: object) -> SystemStatus:
    return changed(disk=structs.replace(GOOD.disk, **status))


def test_healthy_cluster_passes() -> None:
    assert problems(GOOD) == []


@pytest.mark.parametrize(
    ("status", "level", "expected"),
    [
        (
            changed(servers=(ServerStatus(server="zk1:2181", fault="refused"),)),
            "warning",
            "refused",
        ),
        (changed(servers=(ServerStatus(server="zk1:2181"),)), "warning", "version unknown"),
        (
            changed(servers=(ServerStatus(server="zk1:2181", version="3.5.9"),)),
            "warning",
            "without multiRead and persistent watches",
        ),
        (changed(brokers=(BrokerStatus(broker=1, fault="no answer"),)), "error", "broker 1: no"),
        (changed(listening_fault="cannot listen on SSL://h:1"), "error", "cannot listen on SSL"),
        (changed(zookeeper=cluster(), brokers=()), "warning", "no broker is registered"),
        (
            changed(zookeeper=cluster(broker(1), unreadable=("/brokers/ids/3: bad",))),
            "error",
            "/brokers/ids/3: bad",
        ),
        (
            changed(brokers=(BrokerStatus(broker=2, versions=(("LeaderAndIsr", 7, 5),)),)),
            "error",
            "broker 2 supports LeaderAndIsr up to 5, 3.9-IV0 requires 7",
        ),
        (
            changed(brokers=(structs.replace(ANSWERS, policies={"create.topic.policy.x": "a.B"}),)),
            "error",
            "broker 1 has create.topic.policy.x=a.B",
        ),
        (
            changed(brokers=(structs.replace(ANSWERS, settings_fault="no answer"),)),
            "warning",
            "the policies of broker 1 are unknown: no answer",
        ),
        (
            changed(brokers=(structs.replace(ANSWERS, authorizer="kafka.A"),)),
            "warning",
            "broker 1 has authorizer.class.name=kafka.A, and the daemon allows everything",
        ),
        (
            changed(brokers=(deciding(1, REBALANCE, "false"), deciding(3, REBALANCE, "false"))),
            "warning",
            "auto.leader.rebalance.enable is false on brokers 1, 3 and true for the daemon, which",
        ),
        (
            changed(brokers=(deciding(1, UNCLEAN, "true"),)),
            "warning",
            "unclean.leader.election.enable is true on broker 1 and false for the daemon",
        ),
        (changed(clock_ahead_ms=-6000), "warning", "6.0 s behind"),
        (changed(clock_ahead_ms=6000), "warning", "6.0 s ahead of"),
        (changed(clock_ahead_ms=None), "warning", "cannot read ZooKeeper's clock"),
        (disk(fault="/: Permission denied"), "error", "cannot use the log directory /logs"),
        (disk(free_bytes=1000), "error", "0.0 GiB free"),
        (disk(free_bytes=1 << 29), "warning", "0.5 GiB free"),
        (disk(sync_ms=150.0), "warning", "fsync takes up to 150.0 ms"),
        (disk(sync_ms=7000.0), "error", "fsync takes up to 7000.0 ms"),
    ],
)
def test_each_problem_is_reported(status: SystemStatus, level: str, expected: str) -> None:
    (found,) = problems(status)
    assert found.level == level
    assert expected in found.text
    assert found.advice


@pytest.mark.parametrize(
    ("value", "own"), [("2", "2"), ("2", " 2 "), ("1", None)], ids=["same", "spaces", "default"]
)
def test_broker_with_the_daemons_min_insync_replicas_passes(
    tmp_path: Path, value: str, own: str | None
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"{MIN_INSYNC}={own}\n" if own else "")
    [result] = check_broker_settings(settings(config=file), [deciding(1, MIN_INSYNC, value)])
    assert result.level == "ok"


def test_address_in_use_and_its_advice_are_in_separate_columns() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        fault = probe_listeners([Endpoint("SSL", "SSL", "127.0.0.1", port)])
    (found,) = problems(changed(listening_fault=fault))
    assert found.text.startswith(f"cannot listen on SSL://127.0.0.1:{port}: ")
    assert found.advice == "check `listeners`, and whether another process uses the port"
    assert found.advice not in found.text


def test_daemon_takes_the_largest_min_insync_replicas_of_the_brokers() -> None:
    brokers = (deciding(1, MIN_INSYNC, "2"), deciding(2, MIN_INSYNC, "3"))
    used = with_brokers_min_insync_replicas(settings(), brokers)
    assert used.configuration().broker_settings[MIN_INSYNC] == "3"
    assert [one.value for one in used.config_entries if one.name == MIN_INSYNC] == ["3"]
    taken, differing = check_broker_settings(settings(), brokers)
    assert (taken.level, differing.level) == ("ok", "warning")
    assert "min.insync.replicas=3 is taken from the brokers" in taken.text
    assert "min.insync.replicas is 2 on broker 1 and 3 for the daemon" in differing.text
    assert differing.advice == "give all brokers the same value"


def test_daemon_keeps_its_own_min_insync_replicas(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"{MIN_INSYNC}=1\n")
    brokers = (deciding(1, MIN_INSYNC, "2"), deciding(2, MIN_INSYNC, "3"))
    own = settings(config=file)
    assert with_brokers_min_insync_replicas(own, brokers) == own
    first, second = check_broker_settings(own, brokers)
    assert "min.insync.replicas is 2 on broker 1 and 1 for the daemon" in first.text
    assert "min.insync.replicas is 3 on broker 2 and 1 for the daemon" in second.text
    assert "min.insync.replicas=3 in the file of --config, or as the cluster's" in second.advice


@pytest.mark.parametrize("brokers", [(), (deciding(1, MIN_INSYNC, "1"),)], ids=["none", "default"])
def test_daemon_without_a_larger_value_keeps_the_default(
    brokers: tuple[BrokerStatus, ...],
) -> None:
    assert with_brokers_min_insync_replicas(settings(), brokers) == settings()


def test_static_setting_that_differs_is_to_be_set_in_the_file_only() -> None:
    [found] = problems(changed(brokers=(deciding(1, "delete.topic.enable", "false"),)))
    assert found.advice == "set delete.topic.enable=false in the file of --config"


def racks(*named: str | None) -> SystemStatus:
    return changed(zookeeper=cluster(*(broker(n, rack) for n, rack in enumerate(named, 1))))


@pytest.mark.parametrize(
    ("status", "own", "expected"),
    [
        (racks("a", "b"), {}, "the daemon has none"),
        (racks("a", "b"), {"broker.rack": "c"}, "the daemon has the rack c"),
        (racks("a", None), {"broker.rack": "a"}, "brokers without a rack: 2"),
        (racks(None), {"broker.rack": "a"}, "no broker has a rack"),
    ],
)
def test_unmatched_racks_are_reported(
    status: SystemStatus, own: dict[str, str], expected: str
) -> None:
    (found,) = problems(status, own)
    assert (found.check, found.level) == ("racks", "warning")
    assert expected in found.text


def test_matched_racks_pass() -> None:
    assert problems(racks("a", "b"), {"broker.rack": "b"}) == []


def test_missing_listener_names_are_reported() -> None:
    brokers = (broker(1), broker(2, listener="CLIENTS"))
    (found,) = problems(changed(zookeeper=cluster(*brokers)))
    assert "the daemon lacks CLIENTS" in found.text


def test_address_of_a_broker_is_reported() -> None:
    (found,) = problems(GOOD, {"listeners": "PLAINTEXT://h2:9092"})
    assert "broker 2 listens on h2:9092" in found.text


def test_without_zookeeper_the_other_checks_run() -> None:
    status = changed(zookeeper=ZooKeeperStatus(fault="refused"), brokers=(), clock_ahead_ms=None)
    assert [one.check for one in check_all(settings(), status)] == [
        *("ZooKeeper", "ZooKeeper", "disk", "disk")
    ]


def test_daemon_with_an_authorizer_is_as_strict_as_the_brokers(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("authorizer.class.name=kafka.security.authorizer.AclAuthorizer\n")
    brokers = [structs.replace(ANSWERS, authorizer="kafka.security.authorizer.AclAuthorizer")]
    (result,) = check_authorizer(settings(config=file), brokers)
    assert result.level == "ok"
    assert list(check_authorizer(settings(), [ANSWERS])) == []
