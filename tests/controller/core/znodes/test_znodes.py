"""The content of znodes: KB 1.2 and SU-43, and guarded writes: SU-33, SU-34, SU-38."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from controller.core import znodes
from controller.core.commands import Reason
from controller.core.errors import ControllerMovedError, ZnodeError
from controller.core.operations import BAD_VERSION, NO_NODE, NODE_EXISTS, OK, Create, SetData
from controller.core.procedures.elections.leadership import write_states
from controller.core.values import ANY_VERSION, RECOVERING, Assignment, Endpoint, LeaderAndIsr
from controller.core.znodes import Features, TopicContent
from controller.core.znodes.notifications import is_numbered_notification
from controller.core.zookeeper_io import write
from tests.controller.core.cluster import Cluster
from tests.controller.core.driving import EPOCH, ControllerHarness, state_of
from tests.controller.core.procedures.elections.electing import election_json
from tests.controller.core.procedures.reassignment.reassigning import request_json
from tests.controller.core.procedures.topics.deleting import deletes_znode

WHY = Reason("test")


# Guarded writes -------------------------------------------------------------------------------


def test_SU_33_states_are_written_at_their_version() -> None:
    driven = ControllerHarness(5)
    right, stale, missing = (driven.partition(number=number) for number in range(3))
    for partition in (right, stale):
        driven.lead(partition, 5, (5,))
    driven.lead(stale, 5, (5,), epoch=1)
    new = LeaderAndIsr(5, 9, (5,), 0, EPOCH)

    states = [(right, new), (stale, new), (missing, new)]
    results = driven.run(write_states(driven.controller, states, WHY))

    assert [(partition, error) for partition, _, error in results] == [
        (right, OK),
        (stale, BAD_VERSION),
        (missing, NO_NODE),
    ]
    written = LeaderAndIsr(5, 9, (5,), 1, EPOCH)
    assert results[0][1] == state_of(driven, right) == written
    assert state_of(driven, stale).leader_epoch == 1


def test_SU_33_wrong_fence_writes_nothing() -> None:
    driven = ControllerHarness(5)
    partition = driven.partition()
    before = driven.lead(partition, 5, (5,))
    driven.put(znodes.CONTROLLER_EPOCH, b"51")
    new = LeaderAndIsr(5, 9, (5,), 0, EPOCH)
    with pytest.raises(ControllerMovedError):
        driven.run(write_states(driven.controller, [(partition, new)], WHY))
    assert state_of(driven, partition) == before


def test_SU_34_states_are_created_once() -> None:
    driven = ControllerHarness(5)
    driven.put("/t", b"")
    creates = [Create("/t/state", b"first")]
    assert driven.run(write(driven.controller, list(creates), WHY)).errors == [OK]
    again = [Create("/t/state", b"second")]
    assert driven.run(write(driven.controller, list(again), WHY)).errors == [NODE_EXISTS]
    assert driven.data("/t/state") == b"first"
    missing = [SetData("/t/missing", b"", ANY_VERSION)]
    assert driven.run(write(driven.controller, list(missing), WHY)).errors == [NO_NODE]


def test_SU_34_wrong_fence_creates_nothing() -> None:
    driven = ControllerHarness(5)
    driven.put(znodes.CONTROLLER_EPOCH, b"51")
    with pytest.raises(ControllerMovedError):
        driven.run(write(driven.controller, [Create("/state", b"")], WHY))
    assert driven.data("/state") is None


PROCESSED = {
    "ISR change": (
        f"{znodes.ISR_CHANGES}/isr_change_0000000001",
        b'{"version":1,"partitions":[{"topic":"t","partition":9}]}',
    ),
    "log directory": (
        f"{znodes.LOG_DIR_EVENTS}/log_dir_event_0000000001",
        b'{"version":1,"broker":1,"event":1}',
    ),
    "topic to delete": (znodes.delete_topic_path("missing"), b""),
    "preferred election": (znodes.PREFERRED_ELECTION, election_json(("t", 9))),
    "reassignment": (znodes.REASSIGN_PARTITIONS, request_json({("t", 9): [1]})),
}
"""Znodes that the controller deletes after processing them."""

of_each_kind = pytest.mark.parametrize(
    ("path", "data"), list(PROCESSED.values()), ids=list(PROCESSED)
)


@of_each_kind
def test_SU_38_processed_znode_is_deleted(path: str, data: bytes) -> None:
    cluster = Cluster(1, 2).start()
    cluster.put(path, data)
    assert cluster.data(path) is None


@of_each_kind
def test_SU_38_replaced_controller_deletes_nothing(path: str, data: bytes) -> None:
    cluster = Cluster(1, 2).start()
    cluster.once(deletes_znode(path), lambda: cluster.seize_role(2))
    cluster.put(path, data)
    assert not cluster.is_active
    assert cluster.data(path) == data


@of_each_kind
def test_SU_38_znode_deleted_by_another_client_is_no_error(path: str, data: bytes) -> None:
    cluster = Cluster(1, 2).start()
    cluster.once(deletes_znode(path), lambda: cluster.remove_quietly(path))
    seen = cluster.seen()
    cluster.put(path, data)
    assert cluster.is_active
    assert [one for one in seen.notices() if one[0] in ("procedure_failed", "request_stays")] == []


# SU-43: partition states ----------------------------------------------------------------------


def test_SU_43_state_without_recovery_has_version_1() -> None:
    state = LeaderAndIsr(4, 9, (4, 5), 3, 2)
    data = znodes.write_state(state)
    assert json.loads(data) == {
        "version": 1,
        "leader": 4,
        "leader_epoch": 9,
        "controller_epoch": 2,
        "isr": [4, 5],
    }
    assert znodes.read_state("/state", data, 3) == state


def test_SU_43_state_with_recovery_names_the_recovery_state() -> None:
    state = LeaderAndIsr(4, 9, (4,), 3, 2, RECOVERING)
    data = znodes.write_state(state)
    assert json.loads(data)["leader_recovery_state"] == 1
    assert znodes.read_state("/state", data, 3) == state


# SU-43: features ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "features",
    [
        Features(True, {"f": 2}, 2),
        Features(True, {"f": 2, "g": 1}, 1),
        Features(False, {}, 2),
        Features(False, {}, 1),
    ],
)
def test_SU_43_features_round_trip(features: Features) -> None:
    assert znodes.read_features(znodes.write_features(features)) == features


def test_SU_43_features_as_kafka_writes_them() -> None:
    assert json.loads(znodes.write_features(Features(True, {"f": 2}, 2))) == {
        "version": 2,
        "status": 1,
        "features": {"f": {"max_version_level": 2}},
    }
    assert json.loads(znodes.write_features(Features(True, {"f": 2}, 1)))["features"] == {
        "f": {"min_version_level": 1, "max_version_level": 2}
    }


@pytest.mark.parametrize(
    "content",
    [
        {"version": 0, "status": 1, "features": {}},
        {"version": 3, "status": 1, "features": {}},
        {"version": 2, "features": {}},
        {"version": 2, "status": 2, "features": {}},
        {"version": 2, "status": 1},
        {"version": 2, "status": 1, "features": {"f": {}}},
        {"version": 2, "status": 1, "features": {"f": {"max_version_level": 0}}},
        {"version": 1, "status": 1, "features": {"f": {"max_version_level": 2}}},
        {
            "version": 1,
            "status": 1,
            "features": {"f": {"min_version_level": 0, "max_version_level": 2}},
        },
        {
            "version": 1,
            "status": 1,
            "features": {"f": {"min_version_level": 3, "max_version_level": 2}},
        },
    ],
)
def test_SU_43_invalid_features_are_rejected(content: dict[str, Any]) -> None:
    with pytest.raises(ZnodeError, match="/feature"):
        znodes.read_features(json.dumps(content).encode())


MIGRATION = {
    "version": 0,
    "kraft_controller_id": 3000,
    "kraft_controller_epoch": 4,
    "kraft_metadata_offset": 2**40,
    "kraft_metadata_epoch": 4,
}


def test_migration_is_copied_from_the_first_offset_on() -> None:
    assert znodes.read_migration(json.dumps(MIGRATION).encode()).is_copied
    for offset, is_copied in ((-1, False), (0, False), (1, True)):
        content = {**MIGRATION, "kraft_metadata_offset": offset}
        assert znodes.read_migration(json.dumps(content).encode()).is_copied == is_copied


@pytest.mark.parametrize("key", MIGRATION)
def test_migration_that_lacks_a_field_is_rejected(key: str) -> None:
    content = {name: value for name, value in MIGRATION.items() if name != key}
    with pytest.raises(ZnodeError, match="/migration"):
        znodes.read_migration(json.dumps(content).encode())


def test_migration_of_an_unknown_version_is_rejected() -> None:
    with pytest.raises(ZnodeError, match="/migration: version 1"):
        znodes.read_migration(json.dumps({**MIGRATION, "version": 1}).encode())


# Topics, brokers, the controller --------------------------------------------------------------


def test_topic_is_written_as_version_3() -> None:
    content = TopicContent(
        {0: Assignment((4, 5, 1), (4, 5), (1,)), 1: Assignment((1, 2))}, bytes(range(16))
    )
    data = znodes.write_topic(content)
    assert json.loads(data) == {
        "version": 3,
        "partitions": {"0": [4, 5, 1], "1": [1, 2]},
        "adding_replicas": {"0": [4, 5]},
        "removing_replicas": {"0": [1]},
        "topic_id": "AAECAwQFBgcICQoLDA0ODw",
    }
    assert znodes.read_topic("t", data) == content


def test_topic_without_an_id_is_written_without_one() -> None:
    data = znodes.write_topic(TopicContent({0: Assignment((1,))}))
    assert "topic_id" not in json.loads(data)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_topic_of_any_version_is_read_with_partitions_ordered_by_number(version: int) -> None:
    data = b'{"version":%d,"partitions":{"10":[1],"9":[2]}}' % version
    assert list(znodes.read_topic("t", data).assignments) == [9, 10]


def test_broker_of_version_5_is_read() -> None:
    data = b"""{"version":5,"host":null,"port":-1,"jmx_port":-1,"timestamp":"1","rack":"r1",
        "endpoints":["CLIENT://h1:9092","REPLICATION://[::1]:9093"],"features":{},
        "listener_security_protocol_map":{"CLIENT":"SASL_SSL","REPLICATION":"PLAINTEXT"}}"""
    broker = znodes.read_broker(1, data, 77)
    assert (broker.id, broker.epoch, broker.rack) == (1, 77, "r1")
    assert broker.endpoint("CLIENT") == Endpoint("CLIENT", "SASL_SSL", "h1", 9092)
    assert broker.endpoint("REPLICATION") == Endpoint("REPLICATION", "PLAINTEXT", "::1", 9093)


@pytest.mark.parametrize(
    "data",
    [
        b'{"version":1,"host":"h1","port":9092,"jmx_port":-1,"timestamp":"1"}',
        b'{"version":3,"host":"h1","port":9092,"endpoints":["PLAINTEXT://h1:9092"]}',
    ],
)
def test_broker_of_old_versions_is_read(data: bytes) -> None:
    endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "h1", 9092)
    assert znodes.read_broker(1, data, 77).endpoints == (endpoint,)


def registration(version: int, *endpoints: str, **fields: Any) -> bytes:
    protocols = {"CLIENT": "SSL", "BAD": "TELNET"}
    content = {"version": version, "listener_security_protocol_map": protocols, **fields}
    return json.dumps({**content, "endpoints": endpoints} if endpoints else content).encode()


def test_registration_of_version_1_has_its_host_and_port_and_later_ones_their_endpoints() -> None:
    fields = {"host": "h1", "port": 0}
    for version, endpoint in (
        (1, Endpoint("PLAINTEXT", "PLAINTEXT", "h1", 0)),
        (2, Endpoint("CLIENT", "SSL", "h2", 65535)),
    ):
        data = registration(version, "CLIENT://h2:65535", **fields)
        assert znodes.read_broker(1, data, 77).endpoints == (endpoint,)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (registration(0, host="h1", port=9092), "version 0"),
        (registration(4, host="h1"), "neither endpoints nor a host and port"),
        (registration(4, port=9092), "neither endpoints nor a host and port"),
        (registration(5, "CLIENT://9092"), "endpoint 'CLIENT://9092'"),
        (registration(5, "CLIENT://h1:x"), "endpoint 'CLIENT://h1:x'"),
        (registration(5, "CLIENT://h1:65536"), "endpoint 'CLIENT://h1:65536'"),
        (registration(5, "h1:9092"), "endpoint 'h1:9092'"),
        (registration(5, "BAD://h1:9092"), "listener BAD has no known security protocol"),
        (registration(5, "OTHER://h1:9092"), "listener OTHER has no known security protocol"),
    ],
)
def test_error_of_an_unusable_registration_says_what_is_wrong(data: bytes, problem: str) -> None:
    with pytest.raises(ZnodeError, match=f"/brokers/ids/1.*{problem}"):
        znodes.read_broker(1, data, 77)


def test_controller_needs_only_its_broker_id() -> None:
    found = znodes.read_controller(b'{"version":1,"brokerid":7}')
    assert found is not None
    assert (found.brokerid, found.kraftControllerEpoch) == (7, -1)


@pytest.mark.parametrize("data", [None, b"", b"no json", b"\xff", b"{}"])
def test_unreadable_controller_and_cluster_id_are_none(data: bytes | None) -> None:
    assert znodes.read_controller(data) is None
    assert znodes.read_cluster_id(data) is None


def test_cluster_id_is_read() -> None:
    assert znodes.read_cluster_id(b'{"version":"1","id":"abc"}') == "abc"


def test_controller_epoch_that_cannot_be_raised_is_rejected() -> None:
    assert znodes.read_controller_epoch(b"2147483646") == 2**31 - 2
    with pytest.raises(ZnodeError, match="/controller_epoch"):
        znodes.read_controller_epoch(b"2147483647")


@pytest.mark.parametrize("data", [b"{", b"\xff", b'{"broker":1,"block_start":"0","block_end":"x"}'])
def test_error_of_an_invalid_block_of_producer_ids_names_its_path(data: bytes) -> None:
    with pytest.raises(ZnodeError, match="/latest_producer_id_block"):
        znodes.read_producer_ids(data)


@pytest.mark.parametrize("number", ["0", "2147483647"])
def test_partition_is_named_by_the_path_of_its_state(number: str) -> None:
    assert znodes.partition_of_state(znodes.state_path("t", number)) == ("t", int(number))


@pytest.mark.parametrize(
    "path",
    [
        "/brokers/topics/t/partitions/01/state",
        "/brokers/topics/t/partitions/2147483648/state",
        "/brokers/topics/t/partitions/0",
    ],
)
def test_path_of_no_state_names_no_partition(path: str) -> None:
    assert znodes.partition_of_state(path) is None


def test_controller_is_written_as_version_2() -> None:
    assert json.loads(znodes.write_controller(7, 1_700_000_000_000)) == {
        "version": 2,
        "brokerid": 7,
        "timestamp": "1700000000000",
        "kraftControllerEpoch": -1,
    }


@pytest.mark.parametrize(
    ("child", "is_numbered"),
    [
        ("isr_change_0000000001", True),
        ("isr_change_1", False),
        ("abc_change_0000000001", False),
    ],
)
def test_notification_has_the_prefix_of_its_kind_and_ten_digits(
    child: str, is_numbered: bool
) -> None:
    assert is_numbered_notification(znodes.ISR_CHANGES, child) == is_numbered


def test_isr_notification_names_partitions() -> None:
    data = b'{"version":1,"partitions":[{"topic":"t","partition":3}]}'
    assert znodes.read_isr_change("/n", data) == [("t", 3)]


@pytest.mark.parametrize("data", [None, b"", b"\xff", b"{", b"[]", b'{"version":"one"}'])
@pytest.mark.parametrize(
    ("path", "read"),
    [
        ("/brokers/ids/1", lambda data: znodes.read_broker(1, data, 0)),
        ("/p/state", lambda data: znodes.read_state("/p/state", data, 0)),
        ("/isr/1", lambda data: znodes.read_isr_change("/isr/1", data)),
        ("/controller_epoch", znodes.read_controller_epoch),
        ("/feature", znodes.read_features),
        ("/migration", znodes.read_migration),
    ],
    ids=["broker", "state", "isr", "epoch", "feature", "migration"],
)
def test_error_of_an_invalid_znode_names_its_path(
    path: str, read: Callable[[bytes | None], object], data: bytes | None
) -> None:
    with pytest.raises(ZnodeError, match=path):
        read(data)


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"\xff",
        b'{"partitions":{"x":[1]}}',
        b'{"partitions":{"0":["a"]}}',
        b'{"partitions":{},"topic_id":"short"}',
    ],
)
def test_error_of_an_invalid_topic_names_its_path(data: bytes) -> None:
    with pytest.raises(ZnodeError, match="/brokers/topics/t"):
        znodes.read_topic("t", data)
