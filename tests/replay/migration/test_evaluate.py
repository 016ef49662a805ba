"""The rules of `refold check --migration` (docs/migration.md)."""

from typing import Any

import pytest
from msgspec import structs

from replay.cluster_view.from_znodes import cluster_of
from replay.migration.evaluate import findings_of
from replay.migration.findings import MigratingCluster
from tests.replay.migration.subjects import (
    COPIED,
    KRAFT,
    STATE,
    WELL,
    Content,
    broker,
    found,
    problem,
    registration,
    view_of,
)

ENABLED = {"zookeeper.metadata.migration.enable": "true"}


def test_cluster_that_can_migrate_has_no_problem() -> None:
    view = view_of(WELL)
    findings = findings_of(MigratingCluster(cluster_of(view, 0, ""), view, [broker(1), broker(2)]))
    assert [(one.check, one.level, one.text) for one in findings] == [
        ("controller", "ok", "broker 1 is controller"),
        ("migration", "ok", "/migration does not exist"),
        ("epoch", "ok", "/controller_epoch is 5"),
        ("partition epochs", "ok", "no partition has an epoch above /controller_epoch"),
        ("reassignments", "ok", "no reassignment"),
        ("deletions", "ok", "no deletion"),
        ("offline partitions", "ok", "no partition is offline"),
        ("brokers", "ok", "all 2 brokers with replicas are registered"),
        ("settings", "ok", "no broker has zookeeper.metadata.migration.enable"),
        ("release", "ok", "all brokers run Kafka 3.9"),
        ("protocol", "ok", "all brokers have inter.broker.protocol.version 3.9-IV0"),
    ]


def test_log_of_a_daemon_has_no_findings_about_znodes_that_it_lacks() -> None:
    cluster = cluster_of(view_of(WELL), 0, "")
    findings = findings_of(MigratingCluster(cluster, None))
    assert [(one.check, one.level) for one in findings] == [
        ("epoch", "ok"),
        ("partition epochs", "ok"),
        ("reassignments", "ok"),
        ("deletions", "ok"),
        ("offline partitions", "ok"),
        ("brokers", "ok"),
        ("settings", "warning"),
        ("znodes", "warning"),
    ]
    unknown = structs.replace(cluster, controller=structs.replace(cluster.controller, epoch=0))
    checks = {one.check for one in findings_of(MigratingCluster(unknown, None))}
    assert not checks & {"epoch", "partition epochs"}


# The role and its epoch -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "level", "says"),
    [
        (KRAFT, "error", "KRaft controller 3000 has the role, with KRaft epoch 4"),
        ({"version": 1, "brokerid": 1, "persistent": True}, "error", "is persistent and not of"),
        ("{", "error", "cannot be read"),
        (None, "warning", "there is no controller"),
        ({"version": 1, "brokerid": 1000}, "warning", "1000, which is no registered broker"),
    ],
    ids=["KRaft", "persistent", "unreadable", "absent", "refold"],
)
def test_controller_that_is_no_broker_is_found(content: Content, level: str, says: str) -> None:
    migrating = [broker(1, ENABLED), broker(2, ENABLED)] if content is KRAFT else None
    one = problem({"/controller": content}, migrating)
    assert (one.check, one.level, one.where) == ("controller", level, ("/controller",))
    assert says in one.text
    assert one.advice


@pytest.mark.parametrize(
    "content",
    ["", "null", "{}", '{"version":0,"kraft_controller_id":3000', {**COPIED, "version": 1}],
    ids=["empty", "null", "no fields", "cut", "later version"],
)
def test_malformed_migration_znode_is_found(content: Content) -> None:
    """KAFKA-19480: zookeeper-security-migration creates the znode without content."""
    one = problem({"/migration": content})
    assert (one.check, one.level, one.where) == ("migration", "error", ("/migration",))
    assert ("/migration is empty: " in one.text) == (content in ("", "null"))
    assert one.text.endswith(": a KRaft controller hangs on it (KAFKA-19480)")
    assert "delete /migration" in one.advice


def test_migration_znode_that_a_rollback_left_is_found() -> None:
    """strimzi #11262: the next migration would not copy the metadata."""
    one = problem({"/migration": COPIED})
    assert (one.check, one.level, one.where) == ("migration", "error", ("/migration",))
    assert "(KRaft controller 3000 with epoch 4, metadata up to offset 120 of epoch 4)" in one.text
    assert "does not copy the metadata" in one.text


@pytest.mark.parametrize("offset", [-1, 0])
def test_migration_that_copied_nothing_is_only_a_warning(offset: int) -> None:
    one = problem({"/migration": {**COPIED, "kraft_metadata_offset": offset}})
    assert (one.check, one.level) == ("migration", "warning")
    assert "has not copied the metadata" in one.text


@pytest.mark.parametrize(("offset", "says"), [(120, "was copied"), (-1, "was not copied yet")])
def test_migration_that_is_under_way_is_a_warning(offset: int, says: str) -> None:
    migration = {**COPIED, "kraft_metadata_offset": offset}
    znodes: dict[str, Content] = {"/controller": KRAFT, "/migration": migration}
    [one] = found(znodes, [broker(1, ENABLED), broker(2, ENABLED)], "warning")
    assert (one.check, one.where) == ("migration", ("/migration",))
    assert says in one.text


@pytest.mark.parametrize("content", [None, "five", ""])
def test_epoch_that_cannot_be_read_is_found(content: Content) -> None:
    one = problem({"/controller_epoch": content})
    assert (one.check, one.level, one.where) == ("epoch", "error", ("/controller_epoch",))


def test_kraft_epoch_above_the_controller_epoch_is_found() -> None:
    """KAFKA-20488: the KRaft controller writes its epoch into the states of partitions."""
    znodes = {"/controller": {**KRAFT, "kraftControllerEpoch": 6}}
    [one] = [one for one in found(znodes) if one.check == "epoch"]
    assert (one.level, one.where) == ("error", ("/controller_epoch",))
    assert "set /controller_epoch 6" in one.advice
    same = {"/controller": {**KRAFT, "kraftControllerEpoch": 5}}
    assert "epoch" not in {one.check for one in found(same)}


def test_partitions_with_a_later_epoch_are_named() -> None:
    """KAFKA-20488: no controller in ZooKeeper mode elects a leader for them."""
    later = {"/brokers/topics/t/partitions/1/state": {**STATE, "controller_epoch": 9}}
    one = problem(later)
    assert (one.check, one.level, one.where) == ("partition epochs", "error", ("t-1",))
    assert "set /controller_epoch 9" in one.advice
    assert found({**later, "/controller_epoch": "9"}) == []


# Work that must be over -------------------------------------------------------------------------

MOVING = {
    "version": 3,
    "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ",
    "partitions": {"0": [1, 2], "1": [1, 2]},
    "adding_replicas": {"0": [2]},
    "removing_replicas": {},
}


@pytest.mark.parametrize(
    ("znodes", "where"),
    [
        ({"/brokers/topics/t": MOVING}, "t-0"),
        ({"/admin/reassign_partitions": {"version": 1}}, "/admin/reassign_partitions"),
        ({"/admin/reassign_partitions_extra": {}}, "/admin/reassign_partitions_extra"),
        ({"/admin/reassign_cancel": {}}, "/admin/reassign_cancel"),
        (
            {
                "/admin/reassignment_requests": "",
                "/admin/reassignment_requests/request_0000000001": {},
            },
            "/admin/reassignment_requests/request_0000000001",
        ),
    ],
)
def test_reassignment_in_progress_is_an_error(znodes: dict[str, Content], where: str) -> None:
    one = problem(znodes)
    assert (one.check, one.level, one.where) == ("reassignments", "error", (where,))


def test_topic_that_is_being_deleted_is_found() -> None:
    one = problem({"/admin/delete_topics": "", "/admin/delete_topics/t": ""})
    assert (one.check, one.level, one.where) == ("deletions", "error", ("/admin/delete_topics/t",))
    assert one.text.endswith("would drop the requests and keep the topics")


def test_replica_whose_deletion_is_not_confirmed_is_a_warning() -> None:
    path = "/admin/replica_deletions"
    record = {"version": 1, "broker": 3, "partitions": {"t": [0]}}
    one = problem({path: "", f"{path}/requested_0000000000": record})
    assert (one.check, one.level, one.where) == ("deletions", "warning", ("t-0 on broker 3",))


def test_deletions_are_not_reported_as_none() -> None:
    view = view_of({**WELL, "/admin/delete_topics": "", "/admin/delete_topics/t": ""})
    findings = findings_of(MigratingCluster(cluster_of(view, 0, ""), view, []))
    assert [one.level for one in findings if one.check == "deletions"] == ["error"]


def test_partition_that_never_had_a_state_is_only_offline() -> None:
    one = problem({"/brokers/topics/t/partitions/0/state": None})
    assert (one.check, one.where) == ("offline partitions", ("t-0",))


def test_partition_without_replicas_needs_no_broker() -> None:
    topic: dict[str, Content] = {
        "/brokers/topics/t": {"version": 1, "partitions": {"0": []}},
        "/brokers/topics/t/partitions/0/state": None,
    }
    [one] = [one for one in found(topic) if one.check == "offline partitions"]
    assert one.text.startswith("partitions have no replicas")
    assert one.advice.startswith("write their replicas")


@pytest.mark.parametrize("state", [{"leader": -1}, {"leader": 3}, {"isr": []}])
def test_offline_partition_is_found(state: dict[str, Any]) -> None:
    one = problem({"/brokers/topics/t/partitions/0/state": {**STATE, **state}})
    assert (one.check, one.level, one.where) == ("offline partitions", "error", ("t-0",))


def test_brokers_with_replicas_that_are_not_registered_are_named() -> None:
    one = problem({"/brokers/ids/2": None}, [broker(1)])
    assert (one.check, one.level, one.where) == ("brokers", "error", ("broker 2",))


def test_brokers_in_kraft_mode_are_not_taken_for_dead() -> None:
    znodes: dict[str, Content] = {
        "/controller": KRAFT,
        "/migration": COPIED,
        "/brokers/ids/1": None,
    }
    findings = {one.check: one for one in found(znodes, [broker(2, ENABLED)])}
    assert (findings["brokers"].level, findings["brokers"].where) == ("warning", ("broker 1",))
    assert "offline partitions" not in findings
    without_leader: dict[str, Content] = {
        "/brokers/topics/t/partitions/0/state": {**STATE, "leader": -1}
    }
    [offline] = [
        one for one in found({**znodes, **without_leader}) if one.check == "offline partitions"
    ]
    assert offline.where == ("t-0",)


def test_cluster_without_brokers_is_an_error() -> None:
    without_brokers = {"/brokers/ids/1": None, "/brokers/ids/2": None, "/brokers/topics/t": None}
    [one] = found(without_brokers, [], "error")
    assert (one.check, one.text) == ("brokers", "no broker is registered")


@pytest.mark.parametrize(
    "path", ["/brokers/ids/3", "/brokers/topics/u", "/brokers/topics/t/partitions/0/state"]
)
def test_znodes_that_cannot_be_read_are_named(path: str) -> None:
    [one] = [one for one in found({path: "{"}) if one.check == "znodes"]
    assert (one.level, one.where) == ("error", (path,))


# Brokers ----------------------------------------------------------------------------------------


def test_broker_whose_settings_are_unknown_is_named() -> None:
    one = problem(brokers=[broker(1), broker(2, fault="h2:9092 (PLAINTEXT): refused")])
    assert (one.check, one.level, one.where) == ("settings", "warning", ("broker 2",))
    assert "refused" in one.text


def test_without_running_brokers_their_settings_are_unknown() -> None:
    view = view_of(WELL)
    findings = findings_of(MigratingCluster(cluster_of(view, 0, ""), view, None))
    [one] = [one for one in findings if one.level != "ok"]
    assert (one.check, one.level) == ("settings", "warning")
    assert "only in running brokers" in one.text


@pytest.mark.parametrize(
    ("znodes", "settings", "level", "where", "says"),
    [
        ({}, [ENABLED, {}], "warning", ["broker 2"], "only a part of the brokers"),
        ({}, [ENABLED, ENABLED], "warning", ["broker 1", "broker 2"], "no KRaft controller has"),
        ({"/controller": KRAFT}, [{}, {}], "error", ["broker 1", "broker 2"], "and no broker has"),
    ],
)
def test_mode_of_the_brokers_is_compared_with_the_role(
    znodes: dict[str, Content],
    settings: list[dict[str, str]],
    level: str,
    where: list[str],
    says: str,
) -> None:
    brokers = [broker(number, one) for number, one in enumerate(settings, 1)]
    [one] = [one for one in found(znodes, brokers) if one.check == "settings"]
    assert (one.level, list(one.where)) == (level, where)
    assert says in one.text


@pytest.mark.parametrize("key", ["controller.quorum.voters", "controller.quorum.bootstrap.servers"])
def test_brokers_with_different_quorums_are_found(key: str) -> None:
    values = ("3000@h:9093", "3001@h:9093")
    brokers = [broker(number, {key: one}) for number, one in enumerate(values, 1)]
    one = problem(brokers=brokers)
    assert (one.check, one.level) == ("settings", "error")
    assert f"different {key}: 3000@h:9093 and 3001@h:9093" in one.text


def test_kraft_controller_with_the_id_of_a_broker_is_found() -> None:
    voters = {"controller.quorum.voters": "2@h:9093,3000@h:9093"}
    one = problem(brokers=[broker(1, voters), broker(2, voters)])
    assert (one.check, one.level, one.where) == ("settings", "error", ("broker 2",))


@pytest.mark.parametrize(
    ("settings", "level", "says"),
    [
        ({"reserved.broker.max.id": "1"}, "error", "above reserved.broker.max.id"),
        (
            {"log.dirs": "/a,/b", "inter.broker.protocol.version": "3.6-IV2"},
            "error",
            "several log directories",
        ),
        ({"control.plane.listener.name": "CONTROL"}, "warning", "control.plane.listener.name"),
    ],
)
def test_setting_that_keeps_a_broker_from_the_migration_is_found(
    settings: dict[str, str], level: str, says: str
) -> None:
    protocol = {"inter.broker.protocol.version": settings.get("inter.broker.protocol.version", "")}
    brokers = [broker(1, {k: v for k, v in protocol.items() if v}), broker(2, settings)]
    [one] = [one for one in found(brokers=brokers) if says in one.text]
    assert (one.check, one.level, one.where) == ("settings", level, ("broker 2",))


def test_settings_that_do_not_hinder_the_migration_are_not_reported() -> None:
    allowed = {"reserved.broker.max.id": "1", "broker.id.generation.enable": "false"}
    assert found(brokers=[broker(1), broker(2, {**allowed, "log.dirs": "/a,/b"})]) == []


@pytest.mark.parametrize(
    ("releases", "level", "where", "says"),
    [
        (((3, 3), (3, 9)), "error", ["broker 1"], "run Kafka 3.3, which cannot migrate"),
        (((3, 8), (3, 9)), "error", ["broker 1"], "run Kafka 3.8, others 3.9"),
        (((3, 8), (3, 8)), "warning", ["broker 1", "broker 2"], "all brokers run Kafka 3.8"),
    ],
)
def test_releases_of_the_brokers_are_compared(
    releases: tuple[tuple[int, ...], ...], level: str, where: list[str], says: str
) -> None:
    ibp = {"inter.broker.protocol.version": "3.8"}
    brokers = [broker(number, ibp, release=one) for number, one in enumerate(releases, 1)]
    [one] = [one for one in found(brokers=brokers) if one.check == "release"]
    assert (one.level, list(one.where)) == (level, where)
    assert says in one.text


@pytest.mark.parametrize(
    ("versions", "level", "where", "says"),
    [
        (("3.9", "3.8"), "error", ["broker 1", "broker 2"], "different inter.broker.protocol"),
        (("3.6-IV0", "3.6-IV0"), "error", ["broker 1", "broker 2"], "begins from 3.6-IV1 on"),
        (("3.8", "3.8"), "warning", ["broker 1", "broker 2"], "is 3.8-IV0, and brokers run 3.9"),
    ],
)
def test_protocol_versions_are_compared_with_the_releases(
    versions: tuple[str, ...], level: str, where: list[str], says: str
) -> None:
    brokers = [
        broker(number, {"inter.broker.protocol.version": one})
        for number, one in enumerate(versions, 1)
    ]
    one, *_ = [one for one in found(brokers=brokers) if one.check == "protocol"]
    assert (one.level, list(one.where)) == (level, where)
    assert says in one.text


def test_different_protocol_versions_are_not_also_called_right() -> None:
    view = view_of(WELL)
    brokers = [broker(1), broker(2, {"inter.broker.protocol.version": "3.8"})]
    findings = findings_of(MigratingCluster(cluster_of(view, 0, ""), view, brokers))
    levels = [one.level for one in findings if one.check == "protocol"]
    assert levels == ["error", "warning"]


def test_broker_with_an_id_beyond_the_others_is_no_problem() -> None:
    assert found({"/brokers/ids/3": registration(3)}, [broker(1), broker(2), broker(3)]) == []
