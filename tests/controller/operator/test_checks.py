from pathlib import Path

import pytest
from msgspec import structs

from controller.core.values import Broker, Endpoint
from controller.operator.checks import check_all
from controller.operator.facts import (
    BrokerFacts,
    ClusterFacts,
    DiskFacts,
    Facts,
    ServerFacts,
    ZooKeeperFacts,
)
from controller.operator.findings import Finding
from tests.controller.operator.settings import settings

OFFERED = (("LeaderAndIsr", 7, 7), ("UpdateMetadata", 8, 8), ("StopReplica", 4, 4))


def broker(broker_id: int, rack: str | None = None, listener: str = "PLAINTEXT") -> Broker:
    endpoint = Endpoint(listener, "PLAINTEXT", f"h{broker_id}", 9092)
    return Broker(broker_id, 5, (endpoint,), rack)


def cluster(*brokers: Broker, unreadable: tuple[str, ...] = ()) -> ZooKeeperFacts:
    return ZooKeeperFacts(
        cluster=ClusterFacts(
            chroot_exists=True,
            is_kafka=True,
            cluster_id="c1",
            brokers=brokers,
            unreadable=unreadable,
        )
    )


ANSWERS = BrokerFacts(broker=1, versions=OFFERED)
GOOD = Facts(
    zookeeper=cluster(broker(1), broker(2)),
    servers=(ServerFacts(server="zk1:2181", version="3.9.5"),),
    brokers=(ANSWERS, BrokerFacts(broker=2, versions=OFFERED)),
    disk=DiskFacts(folder=Path("/logs"), free_bytes=1 << 40, sync_ms=2.0),
    clock_ahead_ms=12,
)


def trouble(facts: Facts, given: dict[str, str] | None = None) -> list[Finding]:
    return [one for one in check_all(settings(given), facts) if one.level != "ok"]


def changed(**facts: object) -> Facts:
    return structs.replace(GOOD, **facts)


def disk(**facts: object) -> Facts:
    return changed(disk=structs.replace(GOOD.disk, **facts))


def test_all_is_well() -> None:
    assert trouble(GOOD) == []


@pytest.mark.parametrize(
    ("facts", "level", "told"),
    [
        (changed(servers=(ServerFacts(server="zk1:2181", fault="refused"),)), "warning", "refused"),
        (changed(servers=(ServerFacts(server="zk1:2181"),)), "warning", "version is unknown"),
        (
            changed(servers=(ServerFacts(server="zk1:2181", version="3.5.9"),)),
            "warning",
            "without multiRead and persistent watches",
        ),
        (changed(brokers=(BrokerFacts(broker=1, fault="no answer"),)), "error", "broker 1: no"),
        (changed(listening_fault="cannot listen on SSL://h:1"), "error", "cannot listen on SSL"),
        (changed(zookeeper=cluster(), brokers=()), "warning", "no broker is registered"),
        (
            changed(zookeeper=cluster(broker(1), unreadable=("/brokers/ids/3: bad",))),
            "error",
            "/brokers/ids/3: bad",
        ),
        (
            changed(brokers=(BrokerFacts(broker=2, versions=(("LeaderAndIsr", 7, 5),)),)),
            "error",
            "broker 2 offers LeaderAndIsr up to 5, 3.9-IV0 needs 7",
        ),
        (
            changed(brokers=(structs.replace(ANSWERS, policies={"create.topic.policy.x": "a.B"}),)),
            "error",
            "broker 1 has create.topic.policy.x=a.B",
        ),
        (
            changed(brokers=(structs.replace(ANSWERS, policies_fault="no answer"),)),
            "warning",
            "broker 1 did not tell its policies: no answer",
        ),
        (changed(clock_ahead_ms=-6000), "warning", "6.0 s behind"),
        (changed(clock_ahead_ms=6000), "warning", "6.0 s ahead of"),
        (changed(clock_ahead_ms=None), "warning", "could not be read"),
        (disk(fault="/: Permission denied"), "error", "/logs cannot be written"),
        (disk(free_bytes=1000), "error", "0.0 GiB free"),
        (disk(free_bytes=1 << 29), "warning", "0.5 GiB free"),
        (disk(sync_ms=150.0), "warning", "fsync takes up to 150.0 ms"),
        (disk(sync_ms=7000.0), "error", "fsync takes up to 7000.0 ms"),
    ],
)
def test_each_trouble_is_told(facts: Facts, level: str, told: str) -> None:
    (found,) = trouble(facts)
    assert found.level == level
    assert told in found.text
    assert found.advice


def racks(*named: str | None) -> Facts:
    return changed(zookeeper=cluster(*(broker(n, rack) for n, rack in enumerate(named, 1))))


@pytest.mark.parametrize(
    ("facts", "own", "told"),
    [
        (racks("a", "b"), {}, "the daemon has none"),
        (racks("a", "b"), {"broker.rack": "c"}, "the daemon has the rack c"),
        (racks("a", None), {"broker.rack": "a"}, "brokers without a rack: 2"),
        (racks(None), {"broker.rack": "a"}, "no broker has any"),
    ],
)
def test_racks(facts: Facts, own: dict[str, str], told: str) -> None:
    (found,) = trouble(facts, own)
    assert (found.check, found.level) == ("racks", "warning")
    assert told in found.text


def test_racks_that_fit() -> None:
    assert trouble(racks("a", "b"), {"broker.rack": "b"}) == []


def test_listener_names_that_the_daemon_lacks() -> None:
    brokers = (broker(1), broker(2, listener="CLIENTS"))
    (found,) = trouble(changed(zookeeper=cluster(*brokers)))
    assert "the daemon lacks CLIENTS" in found.text


def test_a_brokers_own_address_is_told() -> None:
    (found,) = trouble(GOOD, {"listeners": "PLAINTEXT://h2:9092"})
    assert "h2:9092 is where broker 2 listens" in found.text


def test_without_zookeeper_the_rest_is_still_looked_at() -> None:
    facts = changed(zookeeper=ZooKeeperFacts(fault="refused"), brokers=(), clock_ahead_ms=None)
    assert [one.check for one in check_all(settings(), facts)] == [
        *("ZooKeeper", "ZooKeeper", "disk", "disk")
    ]
