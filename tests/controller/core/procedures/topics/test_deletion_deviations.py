"""Deviations in topic deletions: the outcomes by refold's rule and by Kafka's."""

import msgspec
import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.commands import CommandId
from controller.core.events import BrokerResponded
from controller.core.state_machines import ReplicaState
from controller.core.triggers import TopicDeletionStopReplicaResponseReceived
from tests.controller.core.cluster import Cluster, reads
from tests.controller.core.procedures.brokers.test_registration_checks import without_listener
from tests.controller.core.procedures.reassignment.interrupting import OtherControllersTerm
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    catch_up,
    listed,
    put_request,
    reassign,
)
from tests.controller.core.procedures.topics.deleting import (
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


def partition_errors(cluster: Cluster) -> list[int]:
    """The codes of all partition errors that brokers have answered, without those of repeated
    requests."""
    return [
        code
        for recorded, _ in cluster.history
        if isinstance(recorded.event, BrokerResponded)
        for _, _, code in recorded.event.partition_errors
        if code != codes.STALE_CONTROLLER_EPOCH
    ]


# deletion-ends-reassignment ---------------------------------------------------------------------


@both_rules
@pytest.mark.deviates("deletion-ends-reassignment")
def test_starting_target_does_not_restore_deleted_logs(rules: str) -> None:
    """OB-02 continues: by Kafka's rule brokers keep logs of the old topic and reject the new
    one."""
    cluster = Cluster(1, 2, 3, rules=rules).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.put(znodes.REASSIGN_PARTITIONS, MISSING)
    mark(cluster, "t")
    cluster.start_broker(99)
    assert cluster.data(znodes.topic_path("t")) is None
    assert logs(cluster, "t") == ({} if rules == "refold" else {1: [0], 2: [0], 3: [0]})
    cluster.create_topic("t", {0: [1, 2]})
    refused = [] if rules == "refold" else [codes.INCONSISTENT_TOPIC_ID] * 2
    assert partition_errors(cluster) == refused


@both_rules
@pytest.mark.deviates("deletion-ends-reassignment")
def test_failover_does_not_wait_for_a_reassignment_that_cannot_complete(rules: str) -> None:
    """The deletion had started. There is no leader to add the targets to the ISR."""
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
def test_second_marker_does_not_make_a_topic_wait_for_its_reassignment(rules: str) -> None:
    """KB 8.2.1: by Kafka's rule the mark has an effect from the second event on."""
    cluster = Cluster(1, 2, 3, rules=rules).start()
    cluster.create_topic("t", {0: [1, 2]})
    assert reassign(cluster, 2, 3) == codes.NONE
    slow_to_delete(cluster, 1)
    mark(cluster, "t")
    mark(cluster, "unknown")
    waits = list(cluster.fold.controller.context.ineligible_for_deletion)
    assert waits == ([] if rules == "refold" else ["t"])


def test_deletion_removes_the_topics_entries_of_a_request_and_keeps_the_others() -> None:
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


def test_failover_drops_the_entries_of_a_marked_topic() -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.put(znodes.REASSIGN_PARTITIONS, MISSING)
    mark_quietly(cluster, "t")
    cluster.expire()
    assert cluster.data(znodes.REASSIGN_PARTITIONS) is None
    cluster.start_broker(99)
    assert left_of(cluster, "t") == []


# new-topics-deleted -----------------------------------------------------------------------------


@both_rules
@pytest.mark.deviates("new-topics-deleted")
def test_topic_that_is_marked_right_after_its_creation_is_deleted(rules: str) -> None:
    """The marker of t is read for the change of that of u, before the creation of t is handled."""
    cluster = Cluster(1, 2, rules=rules).start()
    cluster.create_topic("u", {0: [1]})
    mark_quietly(cluster, "u")
    cluster.change_topic_quietly("t", {0: [1, 2]})
    mark_quietly(cluster, "t")
    cluster.run()
    assert marked(cluster) == ()
    assert cluster.data(znodes.topic_path("u")) is None
    assert (cluster.data(znodes.topic_path("t")) is None) is (rules == "refold")


def test_marker_of_a_topic_that_does_not_exist_is_removed_while_topics_change() -> None:
    cluster = Cluster(1, 2).start()
    mark_quietly(cluster, "missing")
    cluster.change_topic_quietly("t", {0: [1, 2]})
    cluster.run()
    assert marked(cluster) == ()
    assert cluster.leadership("t", 0).leader == 1


# deletion-mark-ends -----------------------------------------------------------------------------


@both_rules
@pytest.mark.deviates("deletion-mark-ends")
def test_new_topic_of_the_same_name_does_not_inherit_the_wait(
    rules: str,
) -> None:
    """Broker 1 deletes its replica and dies: t has to wait, and is deleted nevertheless."""
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
def test_waiting_topic_deleted_by_a_tool_leaves_no_mark(rules: str) -> None:
    cluster = cluster_with_topic(2, rules=rules)
    cluster.stop_broker(2)
    mark(cluster, "t")
    cluster.remove_topic_znodes("t")
    waits = list(cluster.fold.controller.context.ineligible_for_deletion)
    assert waits == ([] if rules == "refold" else ["t"])


# deletion-needs-no-state ------------------------------------------------------------------------


@both_rules
@pytest.mark.parametrize("state", [None, b"garbage"])
@pytest.mark.deviates("deletion-needs-no-state")
def test_replica_with_a_missing_state_is_deleted(rules: str, state: bytes | None) -> None:
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
def test_replica_of_a_partly_failed_reassignment_is_deleted(rules: str) -> None:
    """t-0 has no leader yet, so that the reassignment stops before the replica on 1 starts."""
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


@pytest.mark.deviates("deletion-needs-no-state")
def test_new_replica_on_a_dead_broker_goes_offline_without_an_error() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    put_request(cluster, {T0: [1, 9]})
    seen = cluster.seen()
    mark(cluster, "t")
    assert states(cluster, "t")[9] is ReplicaState.OFFLINE
    assert seen.texts_of("replica_state_refused") == []


def test_replica_without_a_state_is_not_changed_unless_its_topic_is_deleted() -> None:
    """KB 5.2.5."""
    cluster = cluster_with_topic(2)
    cluster.remove_quietly(znodes.state_path("t", 0))
    cluster.stop_broker(2)
    assert states(cluster, "t")[2] is ReplicaState.ONLINE


def test_state_written_by_a_later_controller_stops_the_deletion() -> None:
    """KB 5.2.5: the role is lost and the daemon has not been notified yet."""
    cluster = cluster_with_topic(2)
    state = cluster.leadership("t", 0)
    later = znodes.write_state(type(state)(1, 0, (1, 2), 0, 7))
    cluster.put_quietly(znodes.state_path("t", 0), later)
    mark_quietly(cluster, "t")
    cluster.run()
    assert logs(cluster, "t") == {1: [0], 2: [0]}
    assert states(cluster, "t") == {1: ReplicaState.ONLINE, 2: ReplicaState.ONLINE}


# deletions-of-this-term -------------------------------------------------------------------------


@pytest.mark.parametrize(("rules", "is_deleted"), [("refold", False), ("kafka", True)])
@pytest.mark.deviates("deletions-of-this-term")
def test_response_that_an_earlier_term_received_confirms_no_deletion(
    rules: str, is_deleted: bool
) -> None:
    """The controller loses the role and takes it again at once. In the new term it has no channel
    to broker 2, so that no later request waits: the term alone decides. Found by refold explore."""
    cluster = cluster_with_topic(rules=rules)
    slow_to_delete(cluster, 2)
    mark(cluster, "t")
    registration = znodes.broker_path(2)

    def take_the_role_away_before_the_response() -> None:
        cluster.remove_quietly(znodes.CONTROLLER)
        cluster.put_quietly(registration, without_listener(cluster.data(registration) or b""))
        cluster.answer_slow_quietly()

    cluster.once(reads(znodes.PREFERRED_ELECTION), take_the_role_away_before_the_response)
    cluster.put(znodes.PREFERRED_ELECTION, b'{"version":1,"partitions":[]}')
    assert (cluster.data(znodes.topic_path("t")) is None) is is_deleted


@pytest.mark.parametrize(("rules", "is_deleted"), [("refold", False), ("kafka", True)])
@pytest.mark.deviates("deletions-of-this-term")
def test_response_to_an_earlier_request_for_the_replica_confirms_no_deletion(
    rules: str, is_deleted: bool
) -> None:
    """A reassignment had the replica deleted, and another one had it created again. Found by refold
    explore."""
    cluster = cluster_with_topic(rules=rules)
    slow_to_delete(cluster, 2)
    mark(cluster, "t")
    controller = cluster.fold.controller
    answer = BrokerResponded(CommandId(1, 0), 2, cluster.broker_epoch(2), 0, [])
    earlier = TopicDeletionStopReplicaResponseReceived(answer, [T0], controller.context.epoch)
    controller.enqueue(earlier)
    cluster.put(znodes.PREFERRED_ELECTION, b'{"version":1,"partitions":[]}')
    assert (cluster.data(znodes.topic_path("t")) is None) is is_deleted


def test_brokers_learn_the_end_of_a_reassignment_before_the_deletion_of_its_topic() -> None:
    """By Kafka's rule the deletion waits for the reassignment."""
    cluster = Cluster(1, 2, rules="kafka").start()
    cluster.create_topic("t", {0: [1]})
    assert reassign(cluster, 1, 2) == codes.NONE
    with OtherControllersTerm(cluster):
        mark_quietly(cluster, "t")
    assert marked(cluster) == ("t",)
    seen = cluster.seen()
    catch_up(cluster, 2)
    assert left_of(cluster, "t") == []
    assert seen.kinds(1)[-3:] == ["UpdateMetadata", "StopReplica", "StopReplica"]
