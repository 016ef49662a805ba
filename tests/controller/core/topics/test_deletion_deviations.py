"""Where refold deletes topics that Kafka's rules leave behind: both outcomes."""

import msgspec
import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.events import BrokerAnswered
from controller.core.state_machines import ReplicaState
from tests.controller.core.cluster import Cluster
from tests.controller.core.reassignment.reassigning import (
    T0,
    listed,
    put_request,
    reassign,
)
from tests.controller.core.topics.deleting import (
    cluster_with_topic,
    left_of,
    logs,
    mark,
    mark_quietly,
    marked,
    slow_to_delete,
    states,
)

both_rules = pytest.mark.parametrize("rules", ["refold", "kafka"])
MISSING = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[3,99]}]}'
_INCONSISTENT_TOPIC_ID = 103


def partition_errors(cluster: Cluster) -> list[int]:
    """The codes of all partition errors that brokers have answered, but for repeated requests."""
    return [
        code
        for recorded, _ in cluster.history
        if isinstance(recorded.event, BrokerAnswered)
        for _, _, code in recorded.event.partition_errors
        if code != codes.STALE_CONTROLLER_EPOCH
    ]


# deletion-ends-reassignment ---------------------------------------------------------------------


@both_rules
def test_a_target_that_starts_does_not_bring_deleted_logs_back(rules: str) -> None:
    """OB-02 goes on: by Kafka's rule the brokers keep logs of the old topic and refuse the new."""
    cluster = Cluster(1, 2, 3, rules=rules).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.put(znodes.REASSIGN_PARTITIONS, MISSING)
    mark(cluster, "t")
    cluster.start_broker(99)
    assert cluster.data(znodes.topic_path("t")) is None
    assert logs(cluster, "t") == ({} if rules == "refold" else {1: [0], 2: [0], 3: [0]})
    cluster.create_topic("t", {0: [1, 2]})
    refused = [] if rules == "refold" else [_INCONSISTENT_TOPIC_ID] * 2
    assert partition_errors(cluster) == refused


@both_rules
def test_a_failover_does_not_wait_for_a_reassignment_that_cannot_end(rules: str) -> None:
    """The deletion had begun: nobody leads any more, so nobody takes the targets into the ISR."""
    cluster = Cluster(1, 2, 3, 4, rules=rules).start()
    cluster.create_topic("t", {0: [1, 2]})
    assert reassign(cluster, 3, 4) == codes.NONE
    slow_to_delete(cluster, 1, 2, 3, 4)
    mark(cluster, "t")
    cluster.is_slow = lambda request: False
    cluster.expire()
    if rules == "refold":
        assert left_of(cluster, "t") == []
    else:
        assert marked(cluster) == ("t",)
        assert list(cluster.fold.controller.context.ineligible_for_deletion) == ["t"]


@both_rules
def test_another_marker_does_not_make_a_topic_wait_for_its_reassignment(rules: str) -> None:
    """KB 8.2.1: by Kafka's rule the mark has an effect from the second event on."""
    cluster = Cluster(1, 2, 3, rules=rules).start()
    cluster.create_topic("t", {0: [1, 2]})
    assert reassign(cluster, 2, 3) == codes.NONE
    slow_to_delete(cluster, 1)
    mark(cluster, "t")
    mark(cluster, "unknown")
    waits = list(cluster.fold.controller.context.ineligible_for_deletion)
    assert waits == ([] if rules == "refold" else ["t"])


def test_a_request_in_zookeeper_ends_with_the_deletion_and_keeps_what_is_not_of_it() -> None:
    cluster = Cluster(1, 2, 3).start()
    entries = [{"topic": topic, "partition": 0, "replicas": [3, 99]} for topic in ("t", "u")]
    for entry in entries:
        cluster.create_topic(str(entry["topic"]), {0: [1, 2]})
    request = msgspec.json.encode({"version": 1, "partitions": entries})
    cluster.put(znodes.REASSIGN_PARTITIONS, request)
    assert set(listed(cluster)) == {("t", 0), ("u", 0)}
    mark(cluster, "t")
    left = msgspec.json.decode(cluster.data(znodes.REASSIGN_PARTITIONS) or b"")
    assert left["partitions"] == entries[1:]
    assert set(listed(cluster)) == {("u", 0)}


def test_a_failover_drops_the_request_of_a_topic_that_is_marked() -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.put(znodes.REASSIGN_PARTITIONS, MISSING)
    mark_quietly(cluster, "t")
    cluster.expire()
    assert cluster.data(znodes.REASSIGN_PARTITIONS) is None
    cluster.start_broker(99)
    assert left_of(cluster, "t") == []


# deletion-mark-ends -----------------------------------------------------------------------------


@both_rules
def test_a_topic_of_the_same_name_does_not_wait_for_what_the_first_one_waited_for(
    rules: str,
) -> None:
    """Broker 1 has deleted its replica and dies: t has to wait, and yet is deleted."""
    cluster = cluster_with_topic(2, rules=rules)
    slow_to_delete(cluster, 2)
    mark(cluster, "t")
    cluster.stop_broker(1)
    cluster.answer_slow()
    assert cluster.data(znodes.topic_path("t")) is None
    cluster.start_broker(1)
    cluster.is_slow = lambda request: False
    cluster.create_topic("t", {0: [1, 2]})
    mark(cluster, "t")
    if rules == "refold":
        assert left_of(cluster, "t") == []
    else:
        assert marked(cluster) == ("t",)
        assert logs(cluster, "t") == {1: [0], 2: [0]}


@both_rules
def test_a_topic_that_waits_and_is_removed_by_hand_leaves_no_mark(rules: str) -> None:
    cluster = cluster_with_topic(2, rules=rules)
    cluster.stop_broker(2)
    mark(cluster, "t")
    cluster.remove_topic_znodes("t")
    waits = list(cluster.fold.controller.context.ineligible_for_deletion)
    assert waits == ([] if rules == "refold" else ["t"])


# deletion-needs-no-state ------------------------------------------------------------------------


@both_rules
@pytest.mark.parametrize("state", [None, b"garbage"])
def test_a_replica_is_deleted_though_its_state_is_gone(rules: str, state: bytes | None) -> None:
    cluster = Cluster(1, 2, rules=rules).start()
    cluster.create_topic("t", {0: [1, 2], 1: [1, 2]})
    path = znodes.state_path("t", 0)
    if state is None:
        cluster.remove_quietly(path)
    else:
        cluster.put_quietly(path, state)
    mark(cluster, "t")
    if rules == "refold":
        assert left_of(cluster, "t") == []
        return
    online, deleted = ReplicaState.ONLINE, ReplicaState.DELETION_SUCCESSFUL
    assert states(cluster, "t", 0) == {1: online, 2: online}
    assert states(cluster, "t", 1) == {1: deleted, 2: deleted}
    cluster.expire()
    assert left_of(cluster, "t") == []


@both_rules
def test_a_replica_is_deleted_though_its_reassignment_failed_half_way(rules: str) -> None:
    """t-0 has no leader yet, so the reassignment stops before the replica on 1 is begun."""
    cluster = Cluster(1, rules=rules).start()
    cluster.create_topic("t", {0: [2]})
    assert reassign(cluster, 1) == codes.UNKNOWN_SERVER_ERROR
    cluster.start_broker(2)
    mark(cluster, "t")
    if rules == "refold":
        assert left_of(cluster, "t") == []
    else:
        assert marked(cluster) == ("t",)
        assert states(cluster, "t")[1] is ReplicaState.NON_EXISTENT


def test_a_new_replica_on_a_dead_broker_goes_offline_without_an_error() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    put_request(cluster, {T0: [1, 9]})
    seen = cluster.seen()
    mark(cluster, "t")
    assert states(cluster, "t")[9] is ReplicaState.OFFLINE
    assert seen.notice_texts("replica_state_refused") == []


def test_a_topic_that_stays_needs_its_state() -> None:
    """KB 5.2.5: otherwise a replica without a state is left as it is."""
    cluster = cluster_with_topic(2)
    cluster.remove_quietly(znodes.state_path("t", 0))
    cluster.stop_broker(2)
    assert states(cluster, "t")[2] is ReplicaState.ONLINE


def test_what_a_later_controller_has_written_stops_the_deletion() -> None:
    """KB 5.2.5: the role is gone and nobody has told us yet."""
    cluster = cluster_with_topic(2)
    state = cluster.leadership("t", 0)
    later = znodes.write_state(type(state)(1, 0, (1, 2), 0, 7))
    cluster.put_quietly(znodes.state_path("t", 0), later)
    mark_quietly(cluster, "t")
    cluster.run()
    assert logs(cluster, "t") == {1: [0], 2: [0]}
    assert states(cluster, "t") == {1: ReplicaState.ONLINE, 2: ReplicaState.ONLINE}
