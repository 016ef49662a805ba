from pathlib import Path

import pytest
from msgspec import structs

from controller.core.values import Broker, Endpoint
from controller.operator.checks import check_all
from controller.operator.start_checks import CheckResult
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
            changed(brokers=(structs.replace(ANSWERS, policies_fault="no answer"),)),
            "warning",
            "the policies of broker 1 are unknown: no answer",
        ),
        (changed(clock_ahead_ms=-6000), "warning", "6.0 s behind"),
        (changed(clock_ahead_ms=6000), "warning", "6.0 s ahead of"),
        (changed(clock_ahead_ms=None), "warning", "cannot read ZooKeeper's clock"),
        (disk(fault="/: Permission denied"), "error", "cannot write to the log directory /logs"),
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
