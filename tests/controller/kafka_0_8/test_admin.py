"""The admin commands: C-01 to C-05."""

from collections.abc import Callable

import pytest

from controller.core.operations import Check, Create, Delete, SetData, WriteOperation
from controller.core.values import ANY_VERSION
from controller.kafka_0_8 import admin
from controller.kafka_0_8.admin import AdminError, Assignments, StoredEpoch, StoredPartition
from controller.zookeeper import bulk
from controller.zookeeper.acls import OPEN_ACLS
from tests.controller.kafka_0_8.clusters import T, cluster, replicated


def test_add_brokers_creates_the_persistent_paths() -> None:
    found = cluster(1)
    assert found.children("/brokers") == [
        "epoch",
        "ids",
        "partitions_reassigned",
        "state",
        "topics",
    ]
    assert found.data("/brokers/epoch") == "0"
    found.add_brokers(7, 8)
    assert found.children("/brokers/state") == ["1", "7", "8"]
    assert {node.owner for node in found.zookeeper.dump().values()} == {0}


def test_add_brokers_is_repeatable() -> None:
    assert admin.add_brokers([1], ["/brokers/state/1"])[-1] == Create("/brokers/epoch", b"0")
    existing = ["/brokers/state/1", "/brokers/topics"]
    assert admin.add_brokers([1], existing)[-1] == Create("/brokers/epoch", b"")


def test_state_path_survives_a_bounce() -> None:
    """Add-brokers created the path of broker 1, and broker 2 created its own path."""
    found = cluster(1, 2)
    found.remove_brokers(2)
    found.start(1, 2)
    before = [found.zookeeper.find(f"/brokers/state/{one}").czxid for one in (1, 2)]
    found.stop(1)
    found.stop(2)
    found.run(20_000)
    assert found.children("/brokers/state") == ["1", "2"]
    found.start(1, 2)
    assert [found.zookeeper.find(f"/brokers/state/{one}").czxid for one in (1, 2)] == before


def test_remove_brokers_deletes_the_queue_with_its_requests() -> None:
    found = replicated()
    found.add_brokers(4)
    found.write(Create("/brokers/state/4/request-0000000000", b"x"))
    found.remove_brokers(4)
    assert found.children("/brokers/state") == ["1", "2", "3"]


def test_broker_with_a_replica_is_not_removed() -> None:
    found = replicated()
    way_out = r"move the partition to other brokers first \(reassign t 0 IDS\), or delete the topic"
    with pytest.raises(AdminError, match=f"it has a replica of t-0; {way_out}"):
        found.remove_brokers(3)
    found.delete_topic("t")
    found.run(1000)
    found.stop(3)
    found.remove_brokers(3)
    assert found.children("/brokers/state") == ["1", "2"]


def test_broker_is_not_removed_while_replicas_of_a_partition_cannot_be_read() -> None:
    found = replicated()
    found.create_topic("u", {0: (1,), 1: (2,)})
    found.add_brokers(4)
    found.write(SetData("/brokers/topics/u/1/replicas", b"everywhere", ANY_VERSION))
    why = (
        "^broker 4 cannot be removed: it may have a replica of u-1, because "
        "/brokers/topics/u/1/replicas cannot be read as a list of broker ids such as 1,2,3: "
        "'everywhere' is no number; correct that znode, or delete topic u$"
    )
    with pytest.raises(AdminError, match=why):
        found.remove_brokers(4)
    assert "4" in found.children("/brokers/state")
    found.delete_topic("u")
    found.remove_brokers(4)
    assert found.children("/brokers/state") == ["1", "2", "3"]


def test_unreadable_reassignment_does_not_prevent_the_removal_of_a_broker() -> None:
    found = replicated()
    found.add_brokers(4)
    found.write(
        Create("/brokers/partitions_reassigned/t"),
        Create("/brokers/partitions_reassigned/t/0", b"4,everywhere"),
    )
    found.remove_brokers(4)
    assert found.children("/brokers/state") == ["1", "2", "3"]


def test_broker_that_a_reassignment_names_is_not_removed() -> None:
    found = replicated()
    found.add_brokers(4)
    found.cut = {(1, 2): None}
    found.reassign(T, (1, 4))
    why = "t-0 is being reassigned to it; .* first .reassign t 0 IDS --replace., or delete"
    with pytest.raises(AdminError, match=why):
        found.remove_brokers(4)


def test_registered_broker_is_not_removed() -> None:
    found = cluster(1, 2)
    found.start(1, 2)
    found.run(100)
    with pytest.raises(AdminError, match="broker 2 cannot be removed: it is registered; stop it"):
        found.remove_brokers(2)
    assert found.children("/brokers/state") == ["1", "2"]


def test_broker_that_has_registered_meanwhile_is_not_removed() -> None:
    found = cluster(1)
    operations = admin.remove_brokers([1], {1: ()}, Assignments(), registered=())
    found.start(1)
    found.run(100)
    with pytest.raises(AdminError, match="/brokers/ids/1"):
        found.write(*operations)
    assert found.children("/brokers/state") == ["1"]


def test_unknown_broker_is_not_removed() -> None:
    with pytest.raises(AdminError, match="it has no state path"):
        cluster(1).remove_brokers(2)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (lambda one: one.create_topic("u", {0: ()}), "the list of replicas is empty"),
        (lambda one: one.create_topic("u", {0: (1, 1)}), "names a broker twice"),
        (lambda one: one.create_topic("u", {0: (1, 9)}), "broker 9 is unknown"),
        (lambda one: one.create_topic("u", {1: (1,)}), "its partitions are not 0, 1, 2"),
        (lambda one: one.create_topic("u", {}), "its partitions are not 0, 1, 2"),
        (lambda one: one.create_topic("a/b", {0: (1,)}), "cannot be created"),
        (lambda one: one.create_topic("t", {0: (1,)}), "ZooKeeper code -110"),
        (lambda one: one.delete_topic("u"), "ZooKeeper code -101"),
        (lambda one: one.reassign(T, ()), "the list of replicas is empty"),
        (lambda one: one.reassign(T, (1, 9)), "broker 9 is unknown"),
        (
            lambda one: one.remove_brokers(),
            "can be removed: the list of brokers is empty",
        ),
    ],
)
def test_harmful_command_is_refused_and_writes_nothing(
    command: Callable[[object], None], why: str
) -> None:
    found = replicated()
    before = found.zookeeper.dump()
    with pytest.raises(AdminError, match=why):
        command(found)
    assert found.zookeeper.dump() == before


def test_created_partitions_have_all_their_replicas_in_order() -> None:
    found = cluster(1, 2, 3)
    found.create_topic("t", {0: (2, 3, 1), 1: (3, 1)})
    stored = [found.data(f"/brokers/topics/t/{number}/replicas") for number in (0, 1)]
    assert stored == ["2,3,1", "3,1"]


def test_topic_that_is_being_reassigned_is_not_deleted() -> None:
    found = replicated()
    found.add_brokers(4)
    found.reassign(T, (1, 4))
    with pytest.raises(AdminError, match=r"t-0 is being reassigned.*reassign t 0 IDS --replace"):
        found.delete_topic("t")


def test_topic_is_deleted_in_one_transaction() -> None:
    stored = admin.StoredPartition((1, 9), 2, ("ISR", "replicas"))
    epoch = StoredEpoch(b"7", 9)
    operations = admin.delete_topic("t", {0: stored}, [1], moves=None, epoch=epoch)
    assert operations[:4] == [
        SetData("/brokers/epoch", b"7", 9),
        Create("/brokers/partitions_reassigned/t"),
        Delete("/brokers/partitions_reassigned/t", -1),
        Check("/brokers/topics/t/0/replicas", 2),
    ]
    assert [one.path for one in operations[4:]] == [
        "/brokers/state/1/request-",
        "/brokers/topics/t/0/ISR",
        "/brokers/topics/t/0/replicas",
        "/brokers/topics/t/0",
        "/brokers/topics/t",
    ]
    assert operations[-1] == Delete("/brokers/topics/t", -1)


@pytest.mark.parametrize("content", [None, b"", b"\xff"])
def test_topic_is_deleted_whatever_the_epoch_is(content: bytes | None) -> None:
    found = replicated()
    path = "/brokers/epoch"
    found.write(
        Delete(path, ANY_VERSION) if content is None else SetData(path, content, ANY_VERSION)
    )
    found.delete_topic("t")
    assert found.children("/brokers/topics") == []
    assert found.data(path) == (content or b"").decode("utf-8", "replace")


@pytest.mark.parametrize("content", [b"", b"\xff", b"everywhere"])
def test_topic_with_unreadable_replicas_is_deleted_from_every_broker(content: bytes) -> None:
    found = replicated()
    found.produce(1, T, ["a"], -1, wait_ms=1000)
    found.write(SetData("/brokers/topics/t/0/replicas", content, ANY_VERSION))
    found.delete_topic("t")
    found.run(2000)
    assert found.children("/brokers/topics") == []
    assert [T in found.brokers[one].logs for one in (1, 2, 3)] == [False] * 3


def test_topic_is_deleted_while_the_replicas_of_another_cannot_be_read() -> None:
    found = replicated()
    found.create_topic("u", {0: (1,)})
    found.write(SetData("/brokers/topics/u/0/replicas", b"everywhere", ANY_VERSION))
    found.delete_topic("t")
    assert found.children("/brokers/topics") == ["u"]


@pytest.mark.parametrize("garbage", [(), ("note",)])
def test_deletion_removes_the_empty_path_of_earlier_reassignments(garbage: tuple[str, ...]) -> None:
    found = replicated()
    found.reassign(T, (1, 3, 2))
    found.run(3000)
    path = "/brokers/partitions_reassigned/t"
    found.write(*(Create(f"{path}/{one}") for one in garbage))
    found.delete_topic("t")
    assert found.children("/brokers/topics") == []
    assert found.children("/brokers/partitions_reassigned") == (["t"] if garbage else [])


@pytest.mark.parametrize("had_moves", [False, True])
def test_topic_is_not_deleted_if_a_reassignment_was_requested_meanwhile(had_moves: bool) -> None:
    found = replicated()
    if had_moves:
        found.reassign(T, (1, 3, 2))
        found.run(3000)
    node = found.zookeeper.find("/brokers/topics/t/0/replicas")
    assert node is not None
    stored = admin.StoredPartition((1, 2, 3), node.version, ("ISR", "leader", "replicas"))
    epoch = found.zookeeper.find("/brokers/epoch")
    assert epoch is not None
    operations = admin.delete_topic(
        "t",
        {0: stored},
        [1, 2, 3],
        moves=() if had_moves else None,
        epoch=StoredEpoch(epoch.data, epoch.version),
    )
    found.reassign(T, (2, 1))
    with pytest.raises(AdminError, match="/brokers/partitions_reassigned/t"):
        found.write(*operations)
    assert found.children("/brokers/topics/t/0") == ["ISR", "leader", "replicas"]


def test_reassignment_is_not_requested_if_the_partition_was_deleted_meanwhile() -> None:
    found = replicated()
    operations = admin.reassign("t", 0, (1, 2), [1, 2], admin.paths_of_reassignment("t", 0)[:1])
    found.delete_topic("t")
    with pytest.raises(AdminError, match="/brokers/topics/t/0/replicas"):
        found.write(*operations)
    assert found.children("/brokers/partitions_reassigned") == []


def test_partition_that_does_not_exist_is_not_reassigned() -> None:
    with pytest.raises(AdminError, match="t-9 cannot be reassigned: it does not exist"):
        replicated().reassign(("t", 9), (1, 2))


def request_length(operations: list[WriteOperation]) -> int:
    """How many bytes the client sends to ZooKeeper."""
    named = [(one.path.encode(), one) for one in operations]
    return len(bulk.multi_request(named, OPEN_ACLS.acl_of, None))


def many(partitions: int, *replicas: int) -> dict[int, tuple[int, ...]]:
    """An assignment in which all partitions have these replicas."""
    return dict.fromkeys(range(partitions), replicas)


def test_topic_whose_deletion_is_too_long_for_zookeeper_is_refused() -> None:
    with pytest.raises(AdminError, match=r"about 1,519,\d+ bytes, and ZooKeeper accepts 1 MB"):
        admin.create_topic("t", many(1800, 1, 2, 3), (1, 2, 3))


@pytest.mark.parametrize(
    ("topic", "assignment"),
    [("t", many(1000, 1, 2, 3)), ("t" * 200, many(300, 1, 2, 3)), ("t", many(1500, 1))],
)
def test_topic_that_is_created_can_be_deleted(
    topic: str, assignment: dict[int, tuple[int, ...]]
) -> None:
    """In the longest case: each partition has all znodes and a reassignment was done before."""
    admin.create_topic(topic, assignment, (1, 2, 3))
    children = ("ISR", "leader", "replicas")
    stored = {one: StoredPartition(found, 0, children) for one, found in assignment.items()}
    deletion = admin.delete_topic(topic, stored, (1, 2, 3), moves=(), epoch=None)
    length, estimate = request_length(deletion), admin.transaction_bytes(deletion)
    assert length < estimate < 1.2 * length
    assert estimate < 900_000
