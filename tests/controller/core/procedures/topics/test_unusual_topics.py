"""Topics whose znodes change, disappear or name the daemon while the controller reads or writes
them (KB 3.5, 3.6)."""

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.commands import Issued
from controller.core.operations import Create
from controller.core.values import LeaderAndIsr
from tests.controller.core.cluster import DAEMON, Cluster, reads, topic_json, writes
from tests.controller.core.procedures.reassignment.interrupting import (
    OtherControllersTerm,
    WriteRejectingCluster,
    interruptible,
    submit,
    submit_quietly,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    assert_no_failures,
    assignment,
    cancel,
)
from tests.controller.core.procedures.topics.deleting import cluster_with_topic, marked
from tests.controller.core.procedures.topics.topic_requests import (
    create,
    delete,
    errors,
    new_topic,
)

T = znodes.topic_path("t")
ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def test_id_that_another_client_writes_meanwhile_is_kept() -> None:
    cluster = Cluster(1).start()
    data = topic_json({0: [1]}, topic_id=ID)
    cluster.once(writes(T), lambda: cluster.put_quietly(T, data))
    cluster.create_topic("t", {0: [1]})
    assert znodes.read_topic("t", data).topic_id == cluster.topic("t").topic_id
    assert cluster.partition("t", 0).topic.id == cluster.topic("t").topic_id


def test_content_that_becomes_unreadable_meanwhile_is_not_overwritten() -> None:
    cluster = Cluster(1).start()
    cluster.once(writes(T), lambda: cluster.put_quietly(T, b"garbage"))
    cluster.create_topic("t", {0: [1]})
    assert cluster.data(T) == b"garbage"


def test_partition_added_before_the_first_write_of_a_topic_with_an_id_is_kept() -> None:
    cluster = Cluster(1, 2, kip_236_enable=True).start()
    cluster.create_topic("t", {0: [1]}, topic_id=ID)

    def writes_topic(issued: Issued) -> bool:
        operations = getattr(issued.command, "operations", ())
        return T in [one.path for one in operations]

    more = {0: [1], 1: [2]}
    cluster.once(writes_topic, lambda: cluster.change_topic_quietly("t", more, topic_id=ID))
    submit(cluster, {T0: [2]})
    assert cluster.state("t", 1) == "leader 2 e 0 isr [2] v 0 ce 1"


def test_topic_that_disappears_before_its_change_is_read_is_no_failure() -> None:
    cluster = interruptible(2, 1)
    cluster.change_topic_quietly("t", {0: [1], 1: [2]})
    cluster.once(reads(T), lambda: cluster.remove_quietly(T))
    cluster.run()
    assert_no_failures(cluster)


def test_partition_without_replicas_is_not_created_with_the_others() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1]})
    seen = cluster.seen()
    cluster.create_topic("t", {0: [1], 1: [], 2: [2]}, topic_id=ID)
    assert [code for code, _ in seen.notices()] == ["no_replicas"]
    assert cluster.state("t", 2) == "leader 2 e 0 isr [2] v 0 ce 1"


def test_below_ibp_2_8_a_topic_without_an_id_has_lost_none() -> None:
    cluster = Cluster(1, 2, inter_broker_protocol_version="2.7").start()
    cluster.create_topic("t", {0: [1]})
    seen = cluster.seen()
    cluster.create_topic("t", {0: [1], 1: [2]})
    assert seen.notices() == []


def test_failover_elects_leaders_of_the_partitions_that_named_the_daemon_only() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1], 1: [1]})
    with OtherControllersTerm(cluster):
        data = topic_json({0: [1, DAEMON], 1: [1]})
        cluster.put_quietly(T, data)
    assert cluster.topic("t").assignments[0].replicas == (1, 2)
    epochs = [cluster.leadership("t", number).leader_epoch for number in (0, 1)]
    assert epochs == [1, 0]


def test_topic_without_a_znode_is_not_marked_for_deletion() -> None:
    cluster = cluster_with_topic()
    cluster.once(reads(znodes.TOPICS), lambda: cluster.remove_quietly(T))
    seen = cluster.seen()
    assert errors(delete(cluster, "t")) == [codes.UNKNOWN_TOPIC_OR_PARTITION]
    assert [one for one in seen.writes() if isinstance(one, Create)] == []
    assert marked(cluster) == ()


def test_topic_that_cannot_be_written_is_answered_at_once() -> None:
    cluster = WriteRejectingCluster(1)
    cluster.start()
    cluster.refuses = writes(T)
    assert errors(create(cluster, new_topic("t", 1, 1))) == [codes.UNKNOWN_SERVER_ERROR]


def test_leader_that_is_the_daemon_is_replaced() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1]})
    with OtherControllersTerm(cluster):
        state = znodes.write_state(LeaderAndIsr(DAEMON, 4, (DAEMON, 1), 0, 1))
        cluster.put_quietly(znodes.state_path("t", 0), state)
    assert (cluster.leadership("t", 0).leader, cluster.leadership("t", 0).isr) == (1, (1,))


def test_repeated_broker_is_kept_when_another_assignment_names_the_daemon() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, DAEMON], 1: [1, 1]})
    assert [cluster.topic("t").assignments[one].replicas for one in (0, 1)] == [(1, 2), (1, 1)]


def test_stock_controller_takes_an_added_partition_without_replicas() -> None:
    cluster = Cluster(1, 2, rules="kafka", is_broker=True).start()
    cluster.create_topic("t", {0: [1]})
    seen = cluster.seen()
    cluster.create_topic("t", {0: [1], 1: []})
    assert seen.notices() == [("no_replicas", T), ("no_leader_created", "t-1")]


def test_topic_that_gets_no_id_is_reported() -> None:
    cluster = WriteRejectingCluster(1)
    cluster.start()
    cluster.refuses = writes(T)
    seen = cluster.seen()
    cluster.create_topic("t", {0: [1]})
    assert ("topic_not_written", T) in seen.notices()


@pytest.mark.parametrize("topic_versions", [True, False])
def test_brokers_are_not_sent_a_topic_id_whose_write_was_refused(topic_versions: bool) -> None:
    """The next controller would draw another id, and brokers would reject its requests."""
    cluster = WriteRejectingCluster(1, checks_topic_versions=topic_versions)
    cluster.start()
    cluster.refuses = writes(T)
    seen = cluster.seen()
    cluster.create_topic("t", {0: [1]})
    sent = [one.topic_id for request in seen.leader_and_isr(1) for one in request.partitions]
    assert sent == [None]
    cluster.refuses = lambda issued: False
    cluster.expire()
    assert cluster.topic("t").topic_id == cluster.fold.controller.context.topics["t"].id


@pytest.mark.parametrize("is_new", [True, False])
def test_partition_whose_repair_was_refused_waits(is_new: bool) -> None:
    """ZooKeeper still has the assignment to the daemon, which the next controller repairs."""
    cluster = WriteRejectingCluster(1, 2)
    cluster.start()
    if not is_new:
        cluster.create_topic("t", {0: [1]})
    cluster.refuses = writes(T)
    cluster.create_topic("t", {0: [1], 1: [DAEMON, 2]})
    assert (cluster.state("t", 0) is not None, cluster.state("t", 1)) == (True, None)
    cluster.refuses = lambda issued: False
    cluster.expire()
    assert cluster.topic("t").assignments[1].replicas == (1, 2)
    assert cluster.leadership("t", 1).isr == (1, 2)


def test_partition_added_when_an_id_is_restored_is_kept_by_a_reassignment() -> None:
    """The controller begins the reassignment before it sees that the partition was added."""
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1]})
    cluster.change_topic_quietly("t", {0: [1], 1: [2]})
    submit_quietly(cluster, {T0: [3]})
    more = {0: [1], 1: [2], 2: [2]}
    cluster.once(writes(T), lambda: cluster.change_topic_quietly("t", more))
    cluster.run()
    assert cluster.topic("t").assignments[2].replicas == (2,)
    assert cluster.state("t", 2) == "leader 2 e 0 isr [2] v 0 ce 1"


def test_id_that_another_client_adds_below_ibp_2_8_is_kept() -> None:
    """The client writes the topic just before a reassignment does."""
    cluster = Cluster(1, 2, inter_broker_protocol_version="2.7").start()
    cluster.create_topic("t", {0: [1]})
    data = topic_json({0: [1]}, topic_id=ID)
    cluster.once(writes(T), lambda: cluster.put_quietly(T, data))
    submit(cluster, {T0: [2]})
    assert cluster.topic("t").topic_id == znodes.read_topic("t", data).topic_id


def test_partition_that_waits_for_a_replacement_of_the_daemon_is_kept_by_other_writes() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1]})
    submit(cluster, {T0: [2]})
    topic_id = znodes.write_topic_id(cluster.topic("t").topic_id)
    for broker in (1, 2):
        cluster.stop_broker(broker)
    moving = {"adding_replicas": {"0": [2]}, "removing_replicas": {"0": [1]}}
    cluster.create_topic("t", {0: [2, 1], 1: [DAEMON]}, topic_id=topic_id, **moving)
    cancel(cluster)
    assert assignment(cluster) == "1"
    assert cluster.topic("t").assignments[1].replicas == (DAEMON,)
    cluster.start_broker(2)
    assert cluster.state("t", 1) == "leader 2 e 0 isr [2] v 0 ce 1"


def test_replacement_of_the_daemon_is_kept_by_later_writes() -> None:
    cluster = Cluster().start()
    cluster.create_topic("t", {0: [DAEMON], 1: [DAEMON]})
    for broker in (1, 2):
        cluster.start_broker(broker)
    seen = cluster.seen()
    submit(cluster, {T0: [2]})
    assert cluster.topic("t").assignments[1].replicas == (1,)
    assert seen.notices() == []


def test_topic_that_just_got_its_id_is_reassigned_by_one_write() -> None:
    """The reassignment begins before the controller reads its own write of the id."""
    cluster = Cluster(1, 2).start()
    cluster.change_topic_quietly("t", {0: [1]})
    submit_quietly(cluster, {T0: [2]})
    seen = cluster.seen()
    cluster.run()
    assert assignment(cluster) == "2,1 adding 2 removing 1"
    assert seen.written().count(T) == 2
