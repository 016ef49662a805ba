"""Reassignment by the leader: L-03, A-01 to A-04."""

import pytest

from controller.core.commands import ReadChildren, WriteAtomically
from controller.core.error_codes import NONE, NOT_LEADER_OR_FOLLOWER
from controller.core.operations import Check, Create, Delete, SetData
from controller.core.values import ANY_VERSION
from controller.kafka_0_8 import admin
from controller.kafka_0_8.admin import AdminError
from controller.kafka_0_8.configuration import SECOND_RULES
from replay.world.kafka_0_8.cluster import Cluster08
from tests.controller.kafka_0_8.clusters import (
    T,
    error_of,
    issued,
    leader_of,
    notices,
    operations_of,
    partition,
    replicated,
)

REPLICAS = "/brokers/topics/t/0/replicas"
REASSIGNED = "/brokers/partitions_reassigned/t/0"


def with_fourth_broker() -> Cluster08:
    """Broker 1 leads t-0, which has committed records, and broker 4 has no replica."""
    found = replicated()
    found.produce(1, T, ["a", "b"], -1, wait_ms=1000)
    found.add_brokers(4)
    found.add(4)
    found.start(4)
    return found


def test_partition_moves_with_its_records_and_the_path_is_removed() -> None:
    found = with_fourth_broker()
    found.reassign(T, (2, 4))
    found.run(5000)
    assert found.data(REPLICAS) == "2,4"
    assert found.data(REASSIGNED) is None
    assert leader_of(found) == "2;2"
    assert found.data("/brokers/topics/t/0/ISR").startswith("2,4;")
    assert found.brokers[4].logs[T] == ["a", "b"]
    assert T not in found.brokers[1].logs
    assert T not in found.brokers[3].logs
    request = found.produce(2, T, ["c"], -1, wait_ms=1000)
    assert error_of(found, request) == NONE


def test_new_replicas_are_assigned_next_to_the_old_ones_until_they_have_caught_up() -> None:
    found = with_fourth_broker()
    found.stop(4)
    found.reassign(T, (2, 4))
    found.run(3000)
    assert found.data(REPLICAS) == "1,2,3,4"
    assert partition(found, 1).rar == (2, 4)
    assert partition(found, 1).cur == (4,)
    assert found.data(REASSIGNED) == "2,4"
    assert leader_of(found) == "1;1"
    found.start(4)
    found.run(5000)
    assert found.data(REPLICAS) == "2,4"


def test_leader_that_is_a_new_replica_remains_leader() -> None:
    found = with_fourth_broker()
    found.reassign(T, (4, 1))
    found.run(5000)
    assert found.data(REPLICAS) == "4,1"
    assert leader_of(found) == "1;1"
    leader = partition(found, 1)
    assert tuple(leader.ar) == leader.isr == (4, 1)
    assert (leader.cur, leader.rar) == ((), ())
    found.stop(4)
    found.produce(1, T, ["a"], 1)
    found.run(5000)
    assert leader.isr == (1,)
    found.start(4)
    found.run(5000)
    assert leader.isr == (4, 1)
    assert len([one for one in issued(found, 1, "A-02") if isinstance(one, WriteAtomically)]) == 1


def test_completed_reassignment_is_forgotten_although_its_path_cannot_be_read(
    denied: list[str],
) -> None:
    found = with_fourth_broker()
    found.stop(4)
    found.reassign(T, (4, 1))
    found.run(3000)
    leader = partition(found, 1)
    assert leader.rar == (4, 1)
    denied.append("/brokers/partitions_reassigned")
    found.start(4)
    found.run(5000)
    assert (leader.isr, leader.rar) == ((4, 1), ())


def test_next_leader_continues_a_reassignment() -> None:
    found = with_fourth_broker()
    found.stop(4)
    found.reassign(T, (2, 4))
    found.run(500)
    found.stop(1)
    found.run(3000)
    assert leader_of(found) in ("2;2", "3;2")
    found.start(4)
    found.run(8000)
    assert found.data(REPLICAS) == "2,4"
    assert found.data(REASSIGNED) is None


def test_only_leaders_watch_the_reassigned_partitions() -> None:
    found = with_fourth_broker()
    watched = ReadChildren("/brokers/partitions_reassigned", True)
    assert [watched in issued(found, one) for one in (1, 2, 3, 4)] == [True, False, False, False]
    found.reassign(T, (1, 4))
    found.run(3000)
    watched = ReadChildren("/brokers/partitions_reassigned/t", True)
    assert [watched in issued(found, one) for one in (1, 2, 3, 4)] == [True, False, False, False]


def test_second_reassignment_of_a_topic_is_noticed() -> None:
    found = with_fourth_broker()
    found.reassign(T, (1, 4))
    found.run(3000)
    found.reassign(T, (1, 2))
    found.run(3000)
    assert found.data(REPLICAS) == "1,2"


@pytest.mark.parametrize("content", [b"", b"2,x", b"2,2", b"\xff", b"2,9"])
def test_unusable_reassignment_is_reported_and_harms_no_other(content: bytes) -> None:
    found = with_fourth_broker()
    found.create_topic("u", {0: (1, 2)})
    found.run(2000)
    found.write(Create("/brokers/partitions_reassigned/t"), Create(REASSIGNED, content))
    found.run(500)
    (notice,) = notices(found, 1, "unusable_reassignment")
    assert REASSIGNED in notice.subject
    assert "correct or delete the znode" in notice.text
    found.reassign(("u", 0), (1, 4))
    found.run(5000)
    assert found.data("/brokers/topics/u/0/replicas") == "1,4"
    assert found.data(REPLICAS) == "1,2,3"
    assert leader_of(found) == "1;1"


@pytest.mark.parametrize("content", [b"all of them", b"2,9"])
def test_unusable_reassignment_begins_when_its_znode_is_corrected(content: bytes) -> None:
    found = with_fourth_broker()
    found.write(Create("/brokers/partitions_reassigned/t"), Create(REASSIGNED, content))
    found.run(500)
    found.write(SetData(REASSIGNED, b"1;2", ANY_VERSION))
    found.run(500)
    assert len(notices(found, 1, "unusable_reassignment")) == 2
    found.write(SetData(REASSIGNED, b"1,2", ANY_VERSION))
    found.run(3000)
    assert (found.data(REPLICAS), found.data(REASSIGNED)) == ("1,2", None)


def test_reassignment_begins_when_its_unknown_broker_is_added() -> None:
    found = with_fourth_broker()
    found.write(Create("/brokers/partitions_reassigned/t"), Create(REASSIGNED, b"1,9"))
    found.run(500)
    assert len(notices(found, 1, "unusable_reassignment")) == 1
    found.add_brokers(9)
    found.add(9)
    found.start(9)
    found.run(5000)
    assert (found.data(REPLICAS), found.data(REASSIGNED)) == ("1,9", None)


def test_step_of_a_replaced_leader_is_refused() -> None:
    found = with_fourth_broker()
    found.write(SetData("/brokers/topics/t/0/ISR", b"1,2,3;1", ANY_VERSION))
    found.reassign(T, (1, 4))
    found.run(50)
    assert found.data(REPLICAS) == "1,2,3"
    assert "ZooKeeper refused a step" in notices(found, 1, "unusable_reassignment")[0].text
    found.run(5000)
    assert found.data(REPLICAS) == "1,4"


def test_removed_broker_without_queue_does_not_stop_a_reassignment() -> None:
    found = with_fourth_broker()
    found.stop(3)
    found.produce(1, T, ["c"], -1, wait_ms=5000)
    found.write(Delete("/brokers/state/3", ANY_VERSION))
    found.reassign(T, (1, 4))
    found.run(5000)
    assert found.data(REPLICAS) == "1,4"


def test_reassignment_in_progress_is_not_replaced() -> None:
    found = with_fourth_broker()
    found.stop(4)
    found.reassign(T, (1, 4))
    why = f"is being reassigned already: {REASSIGNED} exists.*: reassign t 0 IDS --replace"
    with pytest.raises(AdminError, match=why):
        found.reassign(T, (1, 2))


def test_reassignment_to_a_broker_that_does_not_come_is_undone_by_its_replacement() -> None:
    found = with_fourth_broker()
    found.stop(4)
    found.reassign(T, (2, 4))
    found.run(1000)
    assert found.data(REPLICAS) == "1,2,3,4"
    found.reassign(T, (1, 2, 3), replaces=True)
    found.run(500)
    assert (found.data(REPLICAS), found.data(REASSIGNED)) == ("1,2,3", None)
    assert leader_of(found) == "1;1"
    assert partition(found, 1).rar == ()
    found.start(4)
    found.run(3000)
    assert T not in found.brokers[4].logs
    assert found.children("/brokers/state/4") == []
    found.stop(4)
    found.remove_brokers(4)
    found.delete_topic("t")


@pytest.mark.parametrize("content", [b"2,9", b"everywhere"])
def test_unusable_reassignment_is_replaced(content: bytes) -> None:
    found = with_fourth_broker()
    found.write(Create("/brokers/partitions_reassigned/t"), Create(REASSIGNED, content))
    found.run(500)
    found.reassign(T, (1, 4), replaces=True)
    found.run(3000)
    assert (found.data(REPLICAS), found.data(REASSIGNED)) == ("1,4", None)


def test_partition_that_is_not_being_reassigned_is_moved_by_a_replacement() -> None:
    found = with_fourth_broker()
    found.reassign(T, (1, 4), replaces=True)
    found.run(3000)
    assert found.data(REPLICAS) == "1,4"


def test_replacement_that_the_leader_has_not_read_is_not_lost() -> None:
    """The leader completes the earlier reassignment while it does not know of the replacement."""
    found = with_fourth_broker()
    found.stop(4)
    found.reassign(T, (1, 4))
    found.run(1000)
    found.silent = {1: None}
    found.reassign(T, (1, 3), replaces=True)
    found.run(10)
    found.silent = {}
    found.start(4)
    found.run(3000)
    assert (found.data(REPLICAS), found.data(REASSIGNED)) == ("1,3", None)
    assert leader_of(found) == "1;1"
    assert notices(found, 1, "unusable_reassignment") == []


def test_replacement_is_refused_if_the_reassignment_has_ended_meanwhile() -> None:
    operations = admin.reassign("t", 0, (1, 2), [1, 2], [REPLICAS, REASSIGNED], replaces=3)
    assert operations == [Check(REPLICAS, ANY_VERSION), SetData(REASSIGNED, b"1,2", 3)]


def test_reassignment_whose_znode_is_deleted_does_not_go_on() -> None:
    found = with_fourth_broker()
    found.stop(4)
    found.reassign(T, (2, 4))
    found.run(1000)
    found.write(Delete(REASSIGNED, ANY_VERSION))
    found.run(500)
    assert partition(found, 1).rar == ()
    found.start(4)
    found.run(5000)
    assert found.data(REPLICAS) == "1,2,3,4"
    assert notices(found, 1, "unusable_reassignment") == []
    assert leader_of(found) == "1;1"
    found.reassign(T, (1, 2, 3))
    found.run(3000)
    assert found.data(REPLICAS) == "1,2,3"
    assert T not in found.brokers[4].logs


def test_second_rules_complete_a_reassignment_whatever_its_znode_has() -> None:
    found = replicated(rules=SECOND_RULES)
    found.reassign(T, (1, 2))
    found.run(1000)
    deletions = [one for one in operations_of(found, 1, "A-02") if isinstance(one, Delete)]
    assert deletions == [Delete(REASSIGNED, ANY_VERSION)]


def test_leader_that_gives_up_rejects_waiting_requests() -> None:
    found = with_fourth_broker()
    found.cut = {(1, 3): None}
    request = found.produce(1, T, ["c"], -1, wait_ms=50)
    found.reassign(T, (2, 4))
    found.run(400)
    assert error_of(found, request) == NOT_LEADER_OR_FOLLOWER


def test_leader_knows_the_versions_after_a_reassignment() -> None:
    found = with_fourth_broker()
    for target in ((1, 4), (1, 2), (2, 1)):
        found.reassign(T, target)
        found.run(4000)
        assert found.data(REPLICAS) == ",".join(map(str, target))
    assert notices(found, 1, "unusable_reassignment") == []
    assert leader_of(found) == "1;1"
