"""Topic deletions: requests to brokers and deleted znodes (KB 8, 17.10)."""

import msgspec
import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.commands import ReadChildren, StopReplicaRequest
from controller.core.operations import Create, Delete, SetData
from controller.core.state_machines import PartitionState, ReplicaState
from tests.controller.core.cluster import Cluster, Seen, by_rule, topic_json
from tests.controller.core.procedures.reassignment.reassigning import reassign
from tests.controller.core.procedures.topics.deleting import (
    cluster_with_topic,
    deletes_znode,
    left_of,
    logs,
    mark,
    mark_quietly,
    marked,
    slow_to_delete,
    states,
)

CONFIG = b'{"version":1,"config":{"retention.ms":"1000"}}'


def deleted_znodes(seen: Seen) -> list[str]:
    return [one.path for one in seen.writes() if isinstance(one, Delete)]


# Steps of a deletion ----------------------------------------------------------------------------


def test_SU_12_with_all_brokers_alive_everything_is_deleted() -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2, 3], 1: [2, 3, 1]})
    cluster.create_topic("other", {0: [1, 2, 3]})
    cluster.put(znodes.topic_config_path("t"), CONFIG)
    assert logs(cluster, "t") == {1: [0, 1], 2: [0, 1], 3: [0, 1]}
    seen = cluster.seen()
    mark(cluster, "t")
    assert left_of(cluster, "t") == []
    assert marked(cluster) == ()
    assert seen.notices() == []
    assert logs(cluster, "other") == {1: [0], 2: [0], 3: [0]}
    assert cluster.state("other", 0) == "leader 1 e 0 isr [1,2,3] v 0 ce 1"


def test_requests_are_those_observed_with_three_replicas() -> None:
    """KB 8.4: UpdateMetadata with leader -2, the ISR shrunk replica by replica, StopReplica
    without and with delete."""
    cluster = cluster_with_topic()
    seen = cluster.seen()
    mark(cluster, "t")
    gone = "t-0 leader -2 e 0 isr [1,2,3] v 0 ce 1 replicas [1,2,3] offline []"
    announced = [
        f"UpdateMetadata v8; live [1,2,3]; {gone}",
        "StopReplica v4; t-0 e -2",
        "StopReplica v4; t-0 e -2 delete",
    ]
    assert seen.requested() == {1: announced, 2: announced, 3: announced}
    kinds = [type(one).__name__ for one in seen.broker_requests()]
    assert kinds == ["UpdateMetadataRequest"] * 3 + ["StopReplicaRequest"] * 6
    shrunk = [msgspec.json.decode(one.data) for one in seen.writes() if isinstance(one, SetData)]
    assert [(one["leader"], one["leader_epoch"], one["isr"]) for one in shrunk] == [
        (-1, 1, [2, 3]),
        (-1, 2, [3]),
        (-1, 3, [3]),
    ]


def test_znodes_are_deleted_from_the_leaves_up_then_configuration_then_marker() -> None:
    """KB 8.5."""
    cluster = Cluster(1).start()
    cluster.create_topic("t", {0: [1], 1: [1]})
    cluster.put(znodes.topic_config_path("t"), CONFIG)
    seen = cluster.seen()
    mark(cluster, "t")
    assert deleted_znodes(seen) == [
        znodes.state_path("t", 0),
        znodes.state_path("t", 1),
        znodes.partition_path("t", 0),
        znodes.partition_path("t", 1),
        znodes.partitions_path("t"),
        znodes.topic_path("t"),
        znodes.topic_config_path("t"),
        znodes.delete_topic_path("t"),
    ]
    assert left_of(cluster, "t") == []


def test_znodes_are_deleted_only_after_every_replica() -> None:
    cluster = cluster_with_topic()
    slow_to_delete(cluster, 2)
    seen = cluster.seen()
    mark(cluster, "t")
    assert deleted_znodes(seen) == []
    assert states(cluster, "t") == {
        1: ReplicaState.DELETION_SUCCESSFUL,
        2: ReplicaState.DELETION_STARTED,
        3: ReplicaState.DELETION_SUCCESSFUL,
    }
    cluster.answer_slow()
    assert left_of(cluster, "t") == []


def test_topics_marked_together_share_requests() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("b", {0: [1, 2]})
    cluster.create_topic("a", {0: [2, 1]})
    seen = cluster.seen()
    mark(cluster, "b", "a")
    assert seen.kinds(1) == ["UpdateMetadata", "StopReplica", "StopReplica"]
    assert seen.requests(1)[2] == "StopReplica v4; a-0 e -2 delete; b-0 e -2 delete"
    assert left_of(cluster, "a") + left_of(cluster, "b") == []


def test_topic_marked_later_does_not_restart_the_first_deletion() -> None:
    cluster = cluster_with_topic(2)
    cluster.create_topic("u", {0: [2, 1]})
    slow_to_delete(cluster, 1, 2)
    mark(cluster, "t")
    seen = cluster.seen()
    mark(cluster, "u")
    assert not any("t-0" in request for request in seen.requests(1))
    cluster.answer_slow()
    assert left_of(cluster, "t") + left_of(cluster, "u") == []


def test_partition_that_never_had_a_leader_is_deleted() -> None:
    cluster = Cluster(1).start()
    cluster.create_topic("t", {0: [1], 1: [9]})
    mark(cluster, "t")
    assert states(cluster, "t", 0) == {1: ReplicaState.DELETION_SUCCESSFUL}
    cluster.start_broker(9)
    assert left_of(cluster, "t") == []


def test_topic_without_partitions_is_deleted_at_once() -> None:
    cluster = Cluster(1).start()
    cluster.create_topic("t", {})
    seen = cluster.seen()
    mark(cluster, "t")
    assert left_of(cluster, "t") == []
    assert seen.broker_requests() == []


@pytest.mark.parametrize(("protocol", "version"), [("2.4", 2), ("2.5", 2), ("2.6", 3), ("3.4", 4)])
def test_older_protocol_versions_delete_topics(protocol: str, version: int) -> None:
    """KB 12.3.3, 12.3.4: below 2.6 no StopReplica mixes deletions with other entries, and all
    entries of a deleting request are answered."""
    cluster = Cluster(1, 2, inter_broker_protocol_version=protocol).start()
    cluster.create_topic("t", {0: [1, 2], 1: [2, 1]})
    seen = cluster.seen()
    mark(cluster, "t")
    stops = [one for one in seen.broker_requests() if isinstance(one, StopReplicaRequest)]
    assert {one.version for one in stops} == {version}
    assert [[part.delete for part in one.partitions] for one in stops] == [
        *[[False, False]] * 2,
        *[[True, True]] * 2,
    ]
    assert left_of(cluster, "t") == []


@pytest.mark.parametrize("protocol", ["2.7-IV0", "3.9"])
def test_CI_47_CI_48_id_of_a_deleted_topic_is_forgotten(protocol: str) -> None:
    cluster = Cluster(1, inter_broker_protocol_version=protocol).start()
    cluster.create_topic("t", {0: [1]})
    cluster.create_topic("t", {0: [1], 1: [1]})
    context = cluster.fold.controller.context
    assert len(context.topics_by_id) == (1 if protocol == "3.9" else 0)
    mark(cluster, "t")
    assert left_of(cluster, "t") == []
    assert context.topics_by_id == {}


def test_CI_52_topic_that_got_its_id_later_can_be_deleted() -> None:
    before = Cluster(1, inter_broker_protocol_version="2.7-IV0").start()
    before.create_topic("t", {0: [1]})
    assert before.broker(1).logs == {("t", 0): None}
    before.shut_down()
    cluster = Cluster(zookeeper=before.zookeeper)
    cluster.brokers = before.brokers
    cluster.start()
    assert cluster.topic("t").topic_id is not None
    assert cluster.broker(1).logs == {("t", 0): cluster.topic("t").topic_id}
    mark(cluster, "t")
    assert left_of(cluster, "t") == []


# Markers ----------------------------------------------------------------------------------------


def test_SU_19_marker_of_an_unknown_topic_is_deleted() -> None:
    cluster = cluster_with_topic()
    seen = cluster.seen()
    mark(cluster, "unknown")
    assert marked(cluster) == ()
    assert seen.notices() == [("deletion_refused", znodes.delete_topic_path("unknown"))]
    assert seen.broker_requests() == []
    assert seen.written() == [znodes.delete_topic_path("unknown")]
    assert cluster.state("t", 0) == "leader 1 e 0 isr [1,2,3] v 0 ce 1"


def test_unknown_topic_does_not_delay_a_known_one() -> None:
    cluster = cluster_with_topic()
    mark(cluster, "t", "unknown")
    assert left_of(cluster, "t") == []
    assert marked(cluster) == ()


def test_failover_deletes_the_marker_of_a_deleted_topic() -> None:
    """The last controller deleted the topic's znodes and exited before it deleted the marker."""
    cluster = Cluster(1)
    cluster.put_quietly(znodes.topic_config_path("t"), CONFIG)
    mark_quietly(cluster, "t")
    cluster.start()
    assert left_of(cluster, "t") == []
    assert cluster.is_active


def test_SU_20_topic_marked_again_is_deleted_once() -> None:
    cluster = cluster_with_topic()
    slow_to_delete(cluster, 2)
    mark(cluster, "t")
    seen = cluster.seen()
    cluster.put(znodes.delete_topic_path("t"), b"again")
    mark(cluster, "unknown")
    assert seen.broker_requests() == []
    cluster.answer_slow()
    assert left_of(cluster, "t") == []


@pytest.mark.parametrize("rules", ["refold", "kafka"])
def test_SU_21_with_deletion_disabled_markers_are_deleted(rules: str) -> None:
    cluster = cluster_with_topic(delete_topic_enable=False, rules=rules)
    seen = cluster.seen()
    mark(cluster, "t", "unknown")
    assert marked(cluster) == ()
    assert seen.broker_requests() == []
    refused = [subject for code, subject in seen.notices() if code == "deletion_refused"]
    assert sorted(refused) == [znodes.delete_topic_path(name) for name in ("t", "unknown")]
    assert cluster.state("t", 0) == "leader 1 e 0 isr [1,2,3] v 0 ce 1"
    assert logs(cluster, "t") == {1: [0], 2: [0], 3: [0]}
    cluster.create_topic("t", {0: [1, 2, 3], 1: [1]})
    assert cluster.state("t", 1) == "leader 1 e 0 isr [1] v 0 ce 1"


def test_with_deletion_disabled_failover_deletes_markers() -> None:
    cluster = cluster_with_topic(delete_topic_enable=False)
    mark_quietly(cluster, "t")
    seen = cluster.seen()
    cluster.expire()
    assert marked(cluster) == ()
    assert seen.notices() == [("deletion_refused", znodes.delete_topic_path("t"))]
    assert not any("StopReplica" in kind for kind in seen.kinds(1))
    assert cluster.state("t", 0) == "leader 1 e 0 isr [1,2,3] v 0 ce 1"
    assert cluster.fold.controller.context.queued_for_deletion == {}


def test_marker_created_while_markers_are_listed_is_processed() -> None:
    """The watch is set before the list is read (KB 1.4.3)."""
    cluster = cluster_with_topic(2)
    cluster.create_topic("u", {0: [1, 2]})
    lists = by_rule(ReadChildren, "topic deletion")
    cluster.once(lists, lambda: mark_quietly(cluster, "u"))
    mark(cluster, "t")
    assert left_of(cluster, "t") + left_of(cluster, "u") == []


# The same name again ----------------------------------------------------------------------------


def test_SU_18_topic_of_the_same_name_is_a_new_topic() -> None:
    cluster = cluster_with_topic()
    first = cluster.topic("t").topic_id
    mark(cluster, "t")
    seen = cluster.seen()
    cluster.create_topic("t", {0: [2, 3, 1]})
    second = cluster.topic("t").topic_id
    assert first != second
    assert cluster.state("t", 0) == "leader 2 e 0 isr [2,3,1] v 0 ce 1"
    assert {id: broker.logs for id, broker in cluster.brokers.items()} == {
        id: {("t", 0): second} for id in (1, 2, 3)
    }
    assert {broker.metadata["t", 0] for broker in cluster.brokers.values()} == {2}
    assert seen.notices() == []
    mark(cluster, "t")
    assert left_of(cluster, "t") == []


def test_topic_created_again_before_its_marker_is_deleted_is_kept() -> None:
    cluster = cluster_with_topic()
    first = cluster.topic("t").topic_id
    made = topic_json({0: [3, 1]})
    cluster.once(
        deletes_znode(znodes.delete_topic_path("t")),
        lambda: cluster.ask(Create(znodes.topic_path("t"), made)),
    )
    mark(cluster, "t")
    assert marked(cluster) == ()
    assert cluster.topic("t").topic_id not in (None, first)
    assert cluster.state("t", 0) == "leader 3 e 0 isr [3,1] v 0 ce 1"
    assert logs(cluster, "t") == {1: [0], 3: [0]}


def test_late_answer_for_a_deleted_topic_does_not_affect_the_new_one() -> None:
    """A tool deleted the topic's znodes during the deletion and created the topic again."""
    cluster = cluster_with_topic(1)
    slow_to_delete(cluster, 1)
    mark(cluster, "t")
    cluster.remove_quietly(znodes.topic_path("t"))
    cluster.run()
    cluster.create_topic("t", {0: [1]})
    before = cluster.partition("t", 0).replica_states.copy()
    cluster.answer_slow()
    assert cluster.partition("t", 0).replica_states == before
    assert cluster.data(znodes.topic_path("t")) is not None


# Reassignment -----------------------------------------------------------------------------------


def test_SU_15_topic_being_deleted_is_not_reassigned() -> None:
    cluster = cluster_with_topic()
    cluster.stop_broker(3)
    mark(cluster, "t")
    assert reassign(cluster, 1, 2) == codes.UNKNOWN_TOPIC_OR_PARTITION
    cluster.start_broker(3)
    assert left_of(cluster, "t") == []


def reassigned_to_a_missing_broker(rules: str) -> Cluster:
    """t-0 moves from [1,2] to 3 and 99, which is not registered. Then t is marked."""
    cluster = Cluster(1, 2, 3, rules=rules).start()
    cluster.create_topic("t", {0: [1, 2]})
    request = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[3,99]}]}'
    cluster.put(znodes.REASSIGN_PARTITIONS, request)
    mark(cluster, "t")
    return cluster


@pytest.mark.parametrize("rules", ["refold", "kafka"])
def test_OB_02_reassignment_does_not_delay_the_first_request(rules: str) -> None:
    cluster = reassigned_to_a_missing_broker(rules)
    assert cluster.partition("t", 0).state is PartitionState.NON_EXISTENT
    assert states(cluster, "t") == {
        1: ReplicaState.DELETION_SUCCESSFUL,
        2: ReplicaState.DELETION_SUCCESSFUL,
        3: ReplicaState.DELETION_SUCCESSFUL,
        99: ReplicaState.OFFLINE if rules == "refold" else ReplicaState.NEW,
    }
    assert list(cluster.fold.controller.context.ineligible_for_deletion) == ["t"]


def test_OB_02_deletion_completes_when_the_missing_broker_registers() -> None:
    cluster = reassigned_to_a_missing_broker("refold")
    assert cluster.data(znodes.REASSIGN_PARTITIONS) is None
    cluster.start_broker(99)
    assert left_of(cluster, "t") == []
